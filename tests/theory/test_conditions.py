"""The conditions of the theorem: right numbers, and a warning where each one fails."""

from __future__ import annotations

import numpy as np
import pytest

import gradine
from gradine.hard import DIALS, dial
from gradine.theory.conditions import MATCHED, check, largest_cosine
from gradine.theory.rules import RULES


@pytest.fixture(scope="module")
def good():
    return gradine.plant(heads=2, dim=10, scale=4.0, seed=1)


def value(layer, name, **asked):
    return check(layer, 3, **asked)[name].value


def test_all_hold_on_a_generic_layer(good):
    found = check(good, 3)
    assert found.holds and found.holds_for("exact") and found.failing() == ()
    assert [condition.name for condition in found.conditions] == list(RULES)
    assert "sculpt: all hold" in found.sentence()


def test_values_are_what_they_are_called(good):
    theta, w = good.theta, good.w
    assert value(good, "logits_not_flat") == pytest.approx(4.0)
    layer = gradine.AttentionLayer(np.stack([theta[0], 3.0 * theta[1]]), w)
    assert value(layer, "logits_not_sharp") == pytest.approx(12.0)
    assert value(layer, "logits_not_flat") == pytest.approx(4.0)
    ranks = [np.sum(T**2) / np.linalg.norm(T, 2) ** 2 for T in theta]
    assert value(good, "effective_rank") == pytest.approx(min(ranks))
    identity = gradine.AttentionLayer(np.stack([np.eye(10), theta[1]]), w)
    assert value(identity, "row_share") == pytest.approx(value(good, "row_share"), abs=0.3)
    cosine = abs(np.sum(w[0] * w[1])) / np.linalg.norm(w[0]) / np.linalg.norm(w[1])
    assert value(good, "w_incoherence") == pytest.approx(cosine)
    halved = gradine.AttentionLayer(theta, np.stack([w[0], 0.5 * w[0]]))
    assert value(halved, "w_balance") == pytest.approx(0.5)
    total = w.sum(axis=0)
    assert value(good, "sum_size") == pytest.approx(np.sum(total**2) / np.sum(w**2))
    singular = np.linalg.svd(total, compute_uv=False)
    assert value(good, "sum_conditioning") == pytest.approx(singular[3] / singular[0])
    assert value(good, "tokens") == pytest.approx(3 / 10)
    assert value(good, "heads") == pytest.approx(2 / 10)


def test_rows_are_not_columns(good):
    rowwise = np.zeros((1, 10, 10))
    rowwise[0, 2] = 1.0
    layer = gradine.AttentionLayer(rowwise, good.w[:1])
    assert value(layer, "row_share") == pytest.approx(1.0)
    assert value(layer, "column_share") == pytest.approx(1 / 10)


def test_values_do_not_depend_on_the_order_of_heads_or_on_the_scale_of_outputs(good):
    turned = gradine.AttentionLayer(good.theta[::-1], 7.0 * good.w[::-1])
    for one, other in zip(check(good, 3).conditions, check(turned, 3).conditions, strict=True):
        assert one.value == pytest.approx(other.value), one.name


def test_patterns_are_counted_as_defined(good):
    """By a loop over rows, on the same sequences."""
    X = gradine.sample_inputs(4000, 3, 10, seed=5)
    attention = good.attention(X)
    agreed = one_token = 0
    for example in attention:
        for row in range(3):
            one, two = example[:, row]
            agreed += np.abs(one - two).max() <= MATCHED and np.sort(one + two)[-2] >= 0.02
            one_token += one.argmax() == two.argmax() and min(one.max(), two.max()) >= 0.9
    found = check(good, 3, seed=5)
    assert found["matched_patterns"].value == pytest.approx(agreed / 12_000)
    assert found["one_token_patterns"].value == pytest.approx(one_token / 12_000)
    assert 0.0 < found["matched_patterns"].error < 0.01


def test_a_standard_error_is_the_spread_over_seeds(good):
    found = [check(good, 3, seed=seed)["matched_patterns"] for seed in range(20)]
    spread = np.std([condition.value for condition in found])
    assert 0.5 < found[0].error / spread < 2.0


def test_how_probable_is_enough_depends_on_the_examples(good):
    few, many = check(good, 3, examples=100), check(good, 3, examples=100_000)
    assert not few["matched_patterns"].holds and many["matched_patterns"].holds
    ratio = few["matched_patterns"].threshold / many["matched_patterns"].threshold
    assert ratio == pytest.approx(1000.0)


def test_a_constant_coordinate_changes_little():
    layer = gradine.plant(2, 10, 4.0, seed=1, constant=True)
    moved = layer.theta.copy()
    moved[:, :, -1] += 100.0  # cancels in the softmax
    found = check(gradine.AttentionLayer(moved, layer.w, True), 3)
    assert found["logits_not_sharp"].value < 5.0 and found.holds


@pytest.mark.parametrize("name", DIALS)
def test_every_dial_breaks_its_condition(name):
    broken = DIALS[name].breaks
    assert check(dial(name, 0.0), 3)[broken].holds
    found = check(dial(name, 1.0), 3)
    assert not found[broken].holds and not found.holds
    assert broken in found.sentence()
    said = found[broken].sentence()
    assert RULES[broken].phase in said and "CL25" in said and "needed" in said


def test_each_condition_has_a_dial_or_follows_from_one():
    probable = {"matched_patterns", "one_token_patterns"}
    assert {entry.breaks for entry in DIALS.values()} == set(RULES) - probable
    flat, crowd = check(dial("flat", 0.5), 3), check(dial("many_heads", 0.5), 3)
    assert not flat["one_token_patterns"].holds
    assert not crowd["matched_patterns"].holds


def test_the_exact_learner_needs_less():
    found = check(dial("zero_sum", 1.0), 3)
    assert not found.holds and found.holds_for("exact")
    assert "exact: all hold" in found.sentence()
    assert not check(dial("equal_theta", 1.0), 3).holds_for("exact")


def test_long_sequences_are_sampled_less_often(good, monkeypatch):
    monkeypatch.setattr("gradine.theory.conditions.NUMBERS", 2 * 9 * 400)
    coarse, fine = check(good, 3)["matched_patterns"], check(good, 3, seed=1)["matched_patterns"]
    monkeypatch.undo()
    exact = check(good, 3)["matched_patterns"]
    assert 2.0 < coarse.error / exact.error < 5.0
    assert abs(fine.value - exact.value) < 6.0 * fine.error


def test_one_head_has_no_pair(good):
    assert largest_cosine(good.theta[:1]) == 0.0


def test_zero_matrices_are_no_crash():
    layer = gradine.AttentionLayer(np.zeros((2, 4, 4)), np.zeros((2, 4, 4)))
    found = check(layer, 2)
    assert not found.holds and all(np.isfinite(c.value) for c in found.conditions)
    for name in ("logits_not_flat", "logits_not_sharp", "effective_rank"):
        assert found[name].value == 0.0


def test_sentences_have_the_threshold_of_the_learner():
    heads = check(dial("many_heads", 1.0), 3)["heads"]
    assert "at most 0.35 is needed" in heads.sentence()
    assert "at most 0.75 is needed" in heads.sentence("exact")
    without = check(dial("zero_sum", 1.0), 3)["sum_size"]
    assert "needed" in without.sentence() and "needed" not in without.sentence("exact")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"seq_len": 1}, "seq_len is 1; expected a whole number of at least 2"),
        ({"seq_len": 3, "examples": 0}, "examples is 0; expected"),
        ({"seq_len": 3, "kind": "uniform"}, "kind is 'uniform'; expected one of"),
    ],
)
def test_what_cannot_be_asked(good, asked, message):
    with pytest.raises(ValueError, match=message):
        check(good, **asked)


def test_no_layer_no_check():
    with pytest.raises(ValueError, match=r"layer is a str; expected gradine\.AttentionLayer"):
        check("x", 3)


def test_unknown_names(good):
    found = check(good, 3)
    with pytest.raises(ValueError, match="name is 'nonsense'; expected one of logits_not_flat"):
        found["nonsense"]
    with pytest.raises(ValueError, match="learner is 'adam'; expected 'sculpt' or 'exact'"):
        found.holds_for("adam")


def test_a_layer_at_a_threshold_is_not_below_it():
    layer = gradine.plant(heads=2, dim=6, scale=RULES["logits_not_flat"].sculpt, seed=0)
    assert gradine.check(layer, seq_len=3)["logits_not_flat"].holds
    less = gradine.AttentionLayer(layer.theta * (1.0 - 1e-9), layer.w)
    assert not gradine.check(less, seq_len=3)["logits_not_flat"].holds


def test_other_attention_functions_are_refused():
    layer = gradine.plant(heads=2, dim=6, attention="relu")
    with pytest.raises(ValueError, match="layer has attention 'relu'; the theorem is about"):
        gradine.check(layer, seq_len=3)
