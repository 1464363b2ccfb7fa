"""The front door of learning by queries: what is learned, what it costs, and how it can end."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

import gradine
from gradine import QueryConfig, Status, as_oracle, compare, learn_by_queries, plant, query
from gradine.layer import AttentionLayer
from gradine.queries import AnswerLog, OracleConfig
from gradine.status import NotLearned


@dataclass(frozen=True)
class Frames:
    """A phase of a design."""

    found: int
    seconds: float


def learning_rows(fit):
    return fit.asking.rows_used - fit.asking.verify_rows


@pytest.mark.parametrize(
    "heads, dim, constant", [(1, 16, False), (2, 16, True), (4, 16, False), (6, 12, True)]
)
def test_planted_layers_are_learned_exactly_near_the_counting_bound(heads, dim, constant):
    truth = plant(heads, dim, 2.0, seed=heads, constant=constant)
    fit = learn_by_queries(truth, seed=heads)
    assert fit.status is Status.LEARNED and fit.heads == heads
    match = compare(fit.layer, truth)
    assert match.theta_error.max() < 1e-9 and match.w_error.max() < 1e-9
    assert learning_rows(fit) <= 4 * heads * (dim + constant) * 2


def test_what_it_cost_is_counted_by_the_oracle():
    asked = []
    truth = plant(2, 8, seed=1)

    def answer(X):
        asked.append(X.shape)
        return truth(X)

    fit = learn_by_queries(answer, dim=8)
    asking = fit.asking
    assert asking.queries_used == sum(n for n, _, _ in asked) == fit.examples_used
    assert asking.rows_used == sum(n * k for n, k, _ in asked)
    assert asking.verify_queries == fit.certificate.examples == 200
    assert asking.verify_rows == 800
    result = fit.to_dict()
    assert result["queries_used"] == asking.queries_used
    assert result["rows_used"] == asking.rows_used
    assert result["answering_seconds"] == asking.seconds <= result["seconds"] == fit.seconds


def test_fresh_questions_are_fresh_and_attention_matters_in_them():
    truth = plant(2, 8, scale=0.01, seed=1)  # flat for tokens of size one
    asked = []

    def answer(X):
        asked.append(X)
        return truth(X)

    fit = learn_by_queries(answer, dim=8)
    verify = asked[-1]
    assert len(verify) == 200 and all(X.shape[1:] != verify.shape[1:] for X in asked[-2:-1])
    logits = np.einsum("nrd,hde,nke->nhrk", verify, truth.theta, verify)
    assert 1.0 < logits.std() < 4.0
    assert fit.learned


@pytest.mark.parametrize("limit", [gradine.Box(0.0, 1.0), gradine.Ball(0.5), gradine.Box(-2, 0.5)])
def test_limits_are_respected(limit):
    truth = plant(2, 8, seed=3)

    def answer(X):
        assert not limit.outside(X).any()
        return truth(X)

    fit = learn_by_queries(as_oracle(answer, 8, limit=limit))
    assert fit.status is Status.LEARNED and not fit.layer.constant
    assert compare(fit.layer, truth).theta_error.max() < 1e-8


@pytest.mark.parametrize("out_dim", [1, 3, 20])
def test_outputs_of_any_number(out_dim):
    truth = plant(2, 6, seed=1, out_dim=out_dim)
    fit = learn_by_queries(truth)
    assert fit.status is Status.LEARNED and fit.heads == 2
    assert compare(fit.layer, truth).theta_error.max() < 1e-9


def test_narrow_heads_take_fewer_rows():
    truth = plant(4, 32, 2.0, rank=4, seed=1)
    fit = learn_by_queries(truth, rank=4)
    assert fit.status is Status.LEARNED and fit.phases["fit_4"].rank == 4
    assert compare(fit.layer, truth).theta_error.max() < 1e-8
    assert learning_rows(fit) < 1.4 * 4 * 2 * 32  # full heads are fitted from 1.5 times this on


def test_spare_heads_are_said():
    layer = plant(3, 8, seed=2)
    truth = AttentionLayer(layer.theta[[0, 0, 1]], layer.w)
    fit = learn_by_queries(truth, heads=3)
    assert fit.learned and fit.heads == 2
    assert fit.detail.startswith("2 of 3 heads suffice: heads with equal Theta are one")


def test_projections_that_cancel():
    layer = plant(2, 8, seed=2)
    truth = AttentionLayer(layer.theta, np.stack([layer.w[0], -layer.w[0]]))
    fit = learn_by_queries(truth)
    assert fit.learned and compare(fit.layer, truth).theta_error.max() < 1e-9


def test_too_few_heads_are_noticed():
    fit = learn_by_queries(plant(3, 8, seed=2), heads=2)
    assert fit.status is Status.NOT_REALIZABLE and fit.layer is None and fit.certificate is None
    assert fit.detail == "the answers show 3 heads; 2 were asked for"


def test_weak_biases_that_the_first_look_does_not_see_are_found():
    layer = plant(2, 8, seed=5, constant=True)
    theta, w = layer.theta.copy(), layer.w.copy()
    theta[:, -1] *= 1e-7
    w[:, -1] = 0.0
    truth = AttentionLayer(theta, w, True)
    fit = learn_by_queries(truth)
    assert fit.learned and fit.layer.constant
    assert compare(fit.layer, truth).theta_error.max() < 1e-9


def test_what_is_no_attention_layer_is_not_learned():
    mix = np.random.default_rng(0).standard_normal((3, 3))
    fit = learn_by_queries(lambda X: np.tanh(X @ mix) + X.mean(axis=1, keepdims=True), dim=3)
    assert not fit.learned and fit.layer is None and fit.certificate is None
    assert fit.status in (Status.NOT_REALIZABLE, Status.NOT_VERIFIED)


def test_a_layer_that_differs_where_attention_is_sharp_is_not_verified():
    truth = plant(2, 6, 2.0, seed=0)
    fit = learn_by_queries(gradine.Clipped(truth, 1.0), dim=6)
    assert fit.status is Status.NOT_VERIFIED and fit.layer is None
    assert compare(fit.candidate, truth).theta_error.max() < 1e-9  # small tokens are not clipped
    inside = as_oracle(gradine.Clipped(truth, 1.0), limit=gradine.Ball(0.8))
    assert learn_by_queries(inside).status is Status.LEARNED


@pytest.mark.parametrize(
    "veil, at_best",
    [
        (lambda layer: gradine.Rounded(layer, dtype="float16"), 1e-3),
        (lambda layer: gradine.Rounded(layer, decimals=3), 1e-3),
        (lambda layer: gradine.Noisy(layer, 1e-3, same_again=True), 3e-3),
        (lambda layer: gradine.Noisy(layer, 1e-3), 3e-3),
    ],
)
def test_rounding_and_noise_are_no_false_certainty(veil, at_best):
    truth = plant(2, 10, 2.0, seed=2)
    fit = learn_by_queries(veil(truth), dim=10)
    assert fit.status is Status.LEARNED_UP_TO_NOISE and fit.heads == 2
    assert 1e-9 < compare(fit.layer, truth).function_error < at_best
    assert fit.certificate.eps_at(0.05) > 1e-5


def test_single_precision_is_exact_up_to_itself():
    truth = plant(2, 10, 2.0, seed=2)
    fit = learn_by_queries(gradine.Rounded(truth, dtype="float32"), dim=10)
    assert fit.status is Status.LEARNED and fit.asking.precision == "float32"
    assert 1e-9 < compare(fit.layer, truth).function_error < 1e-5


def test_the_budget_is_kept_and_verification_is_set_aside():
    oracle = as_oracle(plant(3, 16, seed=1))
    fit = learn_by_queries(oracle, max_queries=210)
    assert fit.status is Status.OUT_OF_QUERIES and fit.layer is None
    assert oracle.queries_used <= 10 and fit.asking.verify_queries == 0
    few = learn_by_queries(plant(3, 16, seed=1), max_queries=150)
    assert few.status is Status.OUT_OF_QUERIES and few.asking.queries_used == 0
    assert "verifying an answer alone takes 200" in few.detail
    enough = learn_by_queries(plant(1, 8, seed=1), max_queries=230)
    assert enough.learned and enough.asking.queries_used <= 230


def test_an_oracle_that_breaks_down_is_an_answer_not_a_crash():
    truth, calls = plant(2, 8, seed=1), []

    def answer(X):
        calls.append(len(X))
        if len(calls) > 4:
            raise OSError("line is down")
        return truth(X)

    config = OracleConfig(retries=1, wait=0.0)
    fit = learn_by_queries(as_oracle(answer, 8, config=config))
    assert fit.status is Status.ORACLE_FAILED and fit.layer is None
    assert "line is down" in fit.detail and fit.asking.failures == 2
    assert fit.to_dict()["certificate"] is None


def test_a_stopped_run_does_not_ask_again(tmp_path):
    truth, asked = plant(2, 8, seed=1), []

    def answer(X):
        if len(asked) == 5:
            asked.append(X)
            raise KeyboardInterrupt
        asked.append(X)
        return truth(X)

    with pytest.raises(KeyboardInterrupt):
        learn_by_queries(answer, dim=8, records=tmp_path)
    before = len(asked)
    fit = learn_by_queries(answer, dim=8, records=tmp_path, resume=True)
    assert fit.learned
    sent = [X.tobytes() for X in asked]
    assert sent[before - 1] == sent[before]  # the one that had no answer, and none before it
    whole = learn_by_queries(truth)
    assert fit.layer.theta.tobytes() == whole.layer.theta.tobytes()
    assert fit.asking.rows_used == whole.asking.rows_used
    with pytest.raises(ValueError, match="holds the answers of an earlier run"):
        learn_by_queries(answer, dim=8, records=tmp_path)


def test_an_oracle_keeps_its_own_log(tmp_path):
    truth = plant(1, 6, seed=1)
    first = learn_by_queries(as_oracle(truth, log=AnswerLog(tmp_path)))
    again = as_oracle(truth, log=AnswerLog(tmp_path, resume=True))
    second = learn_by_queries(again)
    assert again.usage.queries_recalled == again.queries_used == first.asking.queries_used
    assert second.layer.theta.tobytes() == first.layer.theta.tobytes()


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"heads": 0}, "heads is 0; expected a whole number of at least 1"),
        ({"heads": "two"}, "heads is 'two'"),
        ({"method": "guess"}, "method is 'guess'; expected 'auto'"),
        ({"seed": -1}, "seed is -1"),
        ({"rank": 9}, "rank is 9; expected between 1 and 8"),
        ({"max_queries": -1}, "max_queries is -1"),
        ({"dim": 7}, "dim is 7; expected 8"),
        ({"method": "scalar"}, "method is 'scalar'; expected an oracle with rows='last'"),
    ],
)
def test_bad_requests_are_one_clear_line(wrong, words):
    with pytest.raises(ValueError, match=words):
        learn_by_queries(plant(1, 8), **wrong)


def test_only_the_last_row_takes_the_scalar_learner():
    with pytest.raises(ValueError, match="only the last row is visible; expected 'scalar'"):
        learn_by_queries(as_oracle(plant(1, 8), rows="last"), method="fit")


def test_auto_chooses_by_what_is_visible_and_what_a_fit_would_take():
    from gradine.query import ways

    config = QueryConfig()
    assert ways("auto", as_oracle(plant(1, 64)), None, config) == ("fit",)
    assert ways("auto", as_oracle(lambda X: X, 384), 12, config) == ("closed", "fit")
    last = as_oracle(plant(1, 8), rows="last", output=0)
    assert ways("auto", last, None, config) == ("scalar",)
    narrow = replace(config, exact=replace(config.exact, rank=2))
    assert ways("auto", as_oracle(lambda X: X, 384), 12, narrow) == ("fit",)
    assert ways("closed", as_oracle(plant(1, 8)), None, config) == ("closed",)


def test_where_no_design_fits_a_fit_is_tried_if_it_is_affordable(monkeypatch):
    asked = []

    def no_design(oracle, heads, precision, seed, run, tell):
        asked.append((oracle.dim, heads, precision.kind, seed))
        raise NotLearned(Status.NOT_REALIZABLE, "no design")

    monkeypatch.setattr(query, "learn_in_closed_form", no_design)
    truth = plant(1, 8, seed=1)
    config = QueryConfig(affordable=200.0)  # less than likely heads take, more than this one
    fit = learn_by_queries(truth, config=config)
    assert fit.status is Status.LEARNED and fit.method == "fit"
    assert asked == [(8, None, "float64", 0)]
    two = learn_by_queries(plant(2, 8, seed=1), config=config)
    assert two.status is Status.NOT_REALIZABLE
    assert "2 heads that show has 256 unknowns" in two.detail
    alone = learn_by_queries(truth, config=config, method="closed")
    assert alone.status is Status.NOT_REALIZABLE and alone.method == "closed"
    assert alone.detail == "no design" and alone.asking.verify_queries == 0


def test_a_design_is_given_what_it_needs_and_its_layer_is_verified(monkeypatch):
    truth = plant(2, 8, seed=1)
    near = AttentionLayer(truth.theta * 1.1, truth.w)

    def learner(layer):
        def learn(oracle, heads, precision, seed, run, tell=None):
            assert (heads, seed) == (2, 5) and oracle.ask(np.ones((1, 2, 8))).shape[0] == 1
            run("frames", Frames, lambda: Frames(7, 0.0))
            return layer

        return learn

    for layer, status in ((truth, Status.LEARNED), (near, Status.NOT_VERIFIED)):
        monkeypatch.setattr(query, "learn_in_closed_form", learner(layer))
        fit = learn_by_queries(truth, heads=2, seed=5, method="closed")
        assert fit.status is status and fit.method == "closed" and fit.phases["frames"].found == 7
        assert (fit.layer is None) == (status is Status.NOT_VERIFIED)
    column = AttentionLayer(truth.theta, truth.w[:, :, 3:4])
    monkeypatch.setattr(query, "learn_scalar", learner(column))
    scalar = as_oracle(truth, rows="last", output=3)
    fit = learn_by_queries(scalar, heads=2, seed=5)
    assert fit.status is Status.LEARNED and fit.method == "scalar"
    assert fit.asking.verify_rows == fit.asking.verify_queries == 200


def test_the_same_seed_gives_the_same_answer():
    truth = plant(2, 8, seed=1)
    first, second = (learn_by_queries(truth, seed=4) for _ in range(2))
    assert first.layer.theta.tobytes() == second.layer.theta.tobytes()
