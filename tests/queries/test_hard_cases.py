"""Layers and callers on which learning by queries could go wrong in silence, or by a crash."""

from __future__ import annotations

from typing import ClassVar

import pytest

from gradine import AttentionLayer, Box, Rounded, Status, as_oracle, learn_by_queries, plant
from gradine.progress import Listener


def hidden_heads(change):
    """Four narrow heads of a wide layer, of which one is changed."""
    truth = plant(4, 160, rank=8, seed=3)
    theta, w = truth.theta.copy(), truth.w.copy()
    change(theta, w)
    return AttentionLayer(theta, w)


@pytest.mark.parametrize("kind", ["close", "weak"])
def test_a_head_that_hardly_shows_is_not_passed_over_in_silence(kind):
    def change(theta, w):
        if kind == "close":
            theta[1] = theta[0] + 3e-4 * theta[1]
        else:
            w[1] *= 1e-6

    fit = learn_by_queries(hidden_heads(change), method="closed")
    assert fit.status is Status.LEARNED_FUNCTION and fit.heads == 3
    assert "heads that hardly show or hardly differ may be missing" in fit.detail


def test_a_function_is_learned_where_a_fit_cannot_tell_its_heads_apart():
    truth = plant(3, 6, seed=1)
    w = truth.w.copy()
    w[1] *= 1e-6
    fit = learn_by_queries(AttentionLayer(truth.theta, w))
    assert fit.status is Status.LEARNED_FUNCTION and fit.heads == 2
    assert "2 heads leave a residual of" in fit.detail


@pytest.mark.parametrize("heads", ["auto", 2])
def test_a_first_look_through_rounding_does_not_overrule_the_fit(heads):
    truth = plant(2, 6, scale=2.0, seed=1, constant=True)
    fit = learn_by_queries(Rounded(truth, dtype="float16"), 6, heads=heads)
    assert fit.status is Status.LEARNED_UP_TO_NOISE and fit.heads == 2


def test_a_box_that_is_not_about_zero():
    oracle = as_oracle(plant(2, 6, scale=2.0, seed=0), limit=Box(1.0, 2.0))
    assert learn_by_queries(oracle).status is Status.LEARNED


def test_a_budget_is_given_back():
    oracle = as_oracle(plant(2, 6, seed=1))
    learn_by_queries(oracle, max_queries=250)
    assert oracle.max_queries is None and learn_by_queries(oracle).status is Status.LEARNED


def test_what_cannot_be_asked_is_refused_before_anything_is_sent(tmp_path):
    truth = plant(2, 6, seed=1)
    last = as_oracle(truth, rows="last")
    with pytest.raises(ValueError, match="all outputs of the last row; expected one of them"):
        learn_by_queries(last)
    oracle = as_oracle(truth)
    with pytest.raises(ValueError, match="oracle is an Oracle, which keeps its own log"):
        learn_by_queries(oracle, records=tmp_path / "records")
    assert last.queries_used == oracle.queries_used == 0
    for scale in (1e-200, 1e200):
        with pytest.raises(ValueError, match="expected between 1e-100 and 1e"):
            learn_by_queries(AttentionLayer(truth.theta, truth.w * scale))


def test_one_output_and_one_coordinate_are_refused_by_the_closed_form():
    for layer in (plant(2, 12, out_dim=1, seed=2), plant(1, 1, seed=2)):
        fit = learn_by_queries(layer, method="closed")
        assert fit.status in (Status.NOT_REALIZABLE, Status.NOTHING_TO_SEE) and fit.detail


@pytest.mark.parametrize("heads", [1, 3])
def test_the_closed_form_says_how_many_heads_it_sees(heads):
    fit = learn_by_queries(plant(2, 12, seed=0), heads=heads, method="closed")
    assert fit.status is Status.NOT_REALIZABLE
    assert fit.detail == f"2 heads are seen to look elsewhere on the way; {heads} were asked for"


def test_mean_pooling_is_a_layer_too():
    truth = plant(2, 6, seed=1)
    fit = learn_by_queries(AttentionLayer(0.0 * truth.theta, truth.w))
    assert fit.status.learned and fit.heads == 1


def test_a_rank_that_does_not_fit_is_said():
    fit = learn_by_queries(plant(2, 6, rank=3, seed=0), rank=1)
    assert fit.status is Status.LEARNED
    assert "heads of rank 1 do not explain the answers" in fit.detail


def test_rounded_single_numbers_near_zero_count_by_their_typical_size():
    source = Rounded(plant(2, 6, seed=1), dtype="float32")
    fit = learn_by_queries(as_oracle(source, rows="last", output=0, dim=6))
    assert fit.status is Status.LEARNED and fit.heads == 2


def test_an_oracle_that_leaves_the_program_has_failed():
    def leaves(X):
        raise SystemExit(3)

    fit = learn_by_queries(leaves, 6)
    assert fit.status is Status.ORACLE_FAILED and "it called sys.exit(3)" in fit.detail


def test_fits_tell_how_far_they_are():
    class Heard(Listener):
        residuals: ClassVar[list[float]] = []

        def fit_went_on(self, residual, theta):
            self.residuals.append(residual)
            assert theta().shape[0] == 2

    learn_by_queries(plant(2, 6, seed=1), listener=Heard())
    assert len(Heard.residuals) > 3 and Heard.residuals[-1] < 1e-6 < Heard.residuals[0]
