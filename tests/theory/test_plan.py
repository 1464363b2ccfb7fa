"""The plan: bounds that hold, budgets that `learn` keeps, and what is refused."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import gradine
from gradine.fit import LearnConfig
from gradine.sculpt.config import SculptConfig
from gradine.solvers.levenberg import levenberg_marquardt
from gradine.theory.cost import Machine, exact_cost, measure_machine, sculpt_cost
from gradine.theory.needs import (
    MOST_COUNTED,
    exact_need,
    pattern_bound,
    phase_needs,
    unknowns_bound,
)

MACHINE = Machine(flops=4e10, call=5e-7)


def rank_of_theta(m, d, k, n):
    """Rank of the derivative of all outputs by all entries of Theta, at a random layer."""
    layer = gradine.plant(m, d, 2.0, seed=0)
    X = gradine.sample_inputs(n, k, d, kind="gaussian", seed=1)
    columns = []
    for index in np.ndindex(*layer.theta.shape):
        moved = []
        for step in (1e-5, -1e-5):
            theta = layer.theta.copy()
            theta[index] += step
            moved.append(gradine.AttentionLayer(theta, layer.w)(X))
        columns.append(((moved[0] - moved[1]) / 2e-5).ravel())
    values = np.linalg.svd(np.array(columns), compute_uv=False)
    return int(np.sum(values > 1e-6 * values[0]))


@pytest.mark.parametrize(("m", "d", "k"), [(1, 6, 2), (2, 5, 2), (2, 4, 3)])
def test_rows_show_no_more_of_theta_than_the_bound_counts(m, d, k):
    bound = math.ceil(pattern_bound(m, d, k, d))
    assert rank_of_theta(m, d, k, bound - 1) <= (bound - 1) * k * min(d, m * (k - 1)) < m * d**2
    assert rank_of_theta(m, d, k, bound + 3) == m * d**2  # and hardly more determine it


def test_the_larger_bound_counts():
    assert pattern_bound(1, 8, 2, 8) == 4 * unknowns_bound(1, 8, 2, 8)
    assert "logits" in exact_need(1, 8, 2, 8, 0.9).limit
    assert pattern_bound(4, 8, 6, 8) < unknowns_bound(4, 8, 6, 8)
    assert "unknowns" in exact_need(4, 8, 6, 8, 0.9).limit
    for confidence in (0.5, 0.9, 0.99):
        assert exact_need(1, 8, 2, 8, confidence).examples > pattern_bound(1, 8, 2, 8)


def test_more_confidence_takes_more():
    needs = [exact_need(3, 10, 3, 10, c).examples for c in (0.1, 0.5, 0.9, 0.99)]
    assert needs == sorted(set(needs))
    some, more = (phase_needs(2, 8, 3, 4.0, 8, c) for c in (0.5, 0.99))
    assert all(a.examples < b.examples for a, b in zip(some, more, strict=True))


def test_phases_need_exponentially_more_with_heads():
    third = [phase_needs(m, 12, 3, 4.0, 12, 0.9)[2].examples for m in (1, 2, 3, 4)]
    ratios = np.divide(third[1:], third[:-1])
    assert (ratios > 3.0).all() and ratios.max() < 3.0 * ratios.min()
    assert third[0] < phase_needs(1, 12, 3, 2.0, 12, 0.9)[2].examples  # flat attention needs more


def test_settings_of_the_phases_count():
    usual = phase_needs(2, 8, 3, 4.0, 8, 0.9)
    twice = SculptConfig(least_slabs_per_unknown=3.0, trimmed_rows_per_unknown=4.0)
    changed = phase_needs(2, 8, 3, 4.0, 8, 0.9, twice)
    assert changed[1].examples == pytest.approx(2 * usual[1].examples, abs=1)
    assert changed[2].examples < usual[2].examples


@pytest.mark.parametrize("config", [LearnConfig(), LearnConfig(certify_examples=300)])
def test_the_budget_is_what_learn_would_do(config):
    for setting in ((1, 8, 2, 2.0), (2, 12, 3, 4.0), (8, 24, 4, 3.0)):
        planned = gradine.plan(*setting, config=config, machine=MACHINE)
        for budget in (planned.exact, planned.sculpt):
            split = config.split(budget.examples, seed=0)
            held = (len(split.validation), len(split.certify))
            assert (split.n_fit, *held) == (budget.fit, budget.validate, budget.certify)
            assert budget.certify >= config.least_certify
        assert planned.exact.fit >= planned.exact_fit
        assert planned.sculpt.fit >= max(need.examples for need in planned.phases)


@pytest.mark.parametrize("setting", [(2, 8, 4, 2.0), (3, 10, 6, 4.0)])
def test_what_is_planned_is_enough(setting):
    few = LearnConfig(validation_examples=40, certify_examples=165, held_out_share=0.95)
    planned = gradine.plan(*setting, config=few)
    heads, dim, seq_len, scale = setting
    assert planned.exact.fit < 2.5 * max(planned.unknowns_bound, planned.pattern_bound)
    learned = 0
    for seed in range(40, 44):
        truth = gradine.plant(heads, dim, scale, seed=seed)
        X = gradine.sample_inputs(planned.exact.examples, seq_len, dim, seed=seed + 100)
        fit = gradine.learn(X, truth(X), heads, "exact", config=few)
        learned += fit.learned and gradine.compare(fit.layer, truth).theta_error.max() < 1e-6
    assert learned >= 3


def test_with_fewer_examples_than_the_bound_other_heads_fit_as_well():
    """One head, two tokens: half the pattern bound leaves many that give the same outputs."""
    truth = gradine.plant(1, 6, 2.0, seed=3)
    n = int(pattern_bound(1, 6, 2, 6)) // 2
    assert n > unknowns_bound(1, 6, 2, 6)
    X = gradine.sample_inputs(n, 2, 6, seed=4)
    rng = np.random.default_rng(5)
    start = truth.theta + 0.3 * rng.standard_normal(truth.theta.shape)
    fit = levenberg_marquardt(X, truth(X), start, truth.w, steps=80)
    assert fit.losses[-1] < 1e-7
    assert np.linalg.norm(fit.theta - truth.theta) > 0.1


def test_cost_grows_with_the_work():
    small = exact_cost(2, 8, 4, 8, 60, 265, MACHINE)
    assert small.seconds < exact_cost(8, 32, 4, 32, 900, 1100, MACHINE).seconds
    assert small.seconds < exact_cost(2, 8, 4, 8, 12, 217, MACHINE).seconds  # few: annealed
    slower = Machine(flops=1e9, call=5e-6)
    assert exact_cost(2, 8, 4, 8, 60, 265, slower).seconds > 5 * small.seconds
    six = [sculpt_cost(2, 10, 3, 10, n, MACHINE) for n in (10_000, 100_000)]
    assert six[0].seconds < six[1].seconds and six[0].memory < six[1].memory
    assert six[1].memory - six[0].memory == 90_000 * 3 * 20 * 8
    assert measure_machine() is measure_machine()


def test_the_sentence_says_it_all():
    planned = gradine.plan(2, 12, 3, 4.0, machine=MACHINE)
    said = planned.sentence()
    assert said.startswith(f"exact: {planned.exact.examples:,} examples ({planned.exact.fit} to")
    assert f"the six phases need {planned.sculpt.examples:,}" in said
    assert planned.examples == planned.exact.examples == planned.chosen.examples
    whole = json.loads(json.dumps(planned.to_dict(), allow_nan=False))
    assert whole["exact"]["examples"] == planned.exact.examples
    assert [need["phase"][0] for need in whole["phases"]] == list("123456")
    assert "scales from 1 to 8 only" in gradine.plan(2, 8, 3, 20.0, machine=MACHINE).sentence()
    assert "confidences" not in said
    sure = gradine.plan(2, 12, 3, 4.0, 1 - 1e-10, machine=MACHINE)
    assert "measured for confidences up to 0.9 only" in sure.sentence()
    assert " h and " in gradine.plan(64, 128, 4, 2.0, machine=MACHINE).sentence()


def test_where_the_six_phases_cannot_do_it():
    many = gradine.plan(2, 4, 6, 2.0, machine=MACHINE)
    assert many.sculpt is None and "more coordinates than tokens" in many.advice
    assert many.to_dict()["sculpt"] is None and many.learner == "exact"
    flat = gradine.plan(4, 10, 5, 0.1, machine=MACHINE)
    assert flat.sculpt is None and "more examples than anyone has" in flat.advice


def test_many_heads_are_out_of_reach_and_counted_no_further():
    many = gradine.plan(300, 384, 3, 3.0, machine=MACHINE)
    assert many.sculpt is None and "more examples than anyone has" in many.advice
    assert max(need.examples for need in many.phases) == MOST_COUNTED
    assert not any("nan" in need.limit for need in many.phases)
    json.dumps(many.to_dict(), allow_nan=False)


def test_wide_tokens_are_planned():
    assert gradine.plan(1, 2048, 2, 3.0, machine=MACHINE).exact.examples > 10**6


def test_the_sentence_rounds_no_confidence_to_certainty():
    nearly = gradine.plan(2, 8, 3, 4.0, 0.9999999999999999, machine=MACHINE)
    assert "with probability 0.9999999999999999," in nearly.sentence()
    assert "with probability 0.9," in gradine.plan(2, 8, 3, 4.0, machine=MACHINE).sentence()


def test_sizes_that_break_a_condition_are_named():
    crowded = gradine.plan(2, 8, 4, 4.0, machine=MACHINE)  # learned 1 of 24 with this many
    assert crowded.failing == ("tokens",) and crowded.exact_failing == ()
    assert "not to be counted on there (tokens)" in crowded.sentence()
    assert crowded.to_dict()["failing"] == ("tokens",)
    sharp = gradine.plan(2, 12, 3, 60.0, machine=MACHINE)
    assert sharp.exact_failing == ("logits_not_sharp",)
    assert "exact is not to be counted on (logits_not_sharp)" in sharp.sentence()
    assert "probability" not in sharp.sentence() and "probability 0.9" in crowded.sentence()
    assert gradine.plan(2, 12, 3, 4.0, machine=MACHINE).failing == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"heads": 0}, "heads is 0"),
        ({"heads": 9}, "heads is 9; expected at most dim = 8"),
        ({"seq_len": 1}, "seq_len is 1; expected a whole number of at least 2"),
        ({"dim": 1}, "dim is 1"),
        ({"out_dim": 0}, "out_dim is 0"),
        ({"scale": 0.0}, "scale is 0.0"),
        ({"scale": math.inf}, "scale is inf"),
        ({"scale": None}, "scale is None; expected a positive"),
        ({"dim": 2**63}, f"dim is {2**63}; expected at most"),
        ({"seq_len": 2**64}, f"seq_len is {2**64}; expected at most"),
        ({"confidence": 1.0}, "confidence is 1.0"),
    ],
)
def test_nonsense_is_refused(change, said):
    request = {"heads": 2, "dim": 8, "seq_len": 3, "scale": 2.0, "machine": MACHINE} | change
    with pytest.raises(ValueError, match=said):
        gradine.plan(**request)
