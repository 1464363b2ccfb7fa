"""Phase 1: the correlation with uniform attention is one gradient step; its bias and its cure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradine.examples import ArrayExamples, FittingData, make_split
from gradine.inputs import plant, sample_inputs
from gradine.layer import AttentionLayer
from gradine.sculpt.config import SculptConfig
from gradine.sculpt.crude_sum import crude_sum
from gradine.status import NotLearned, Status
from tests.sculpt.conftest import planted


def test_equals_one_gradient_step_of_a_one_head_student():
    """From Theta = 0, W = 0, a unit step on |student(X) - Y|^2 / 2 per example gives the sum."""
    truth = plant(2, 4, 3.0, seed=0, out_dim=3)
    X = sample_inputs(500, 3, 4, seed=1)
    Y = truth(X)
    split = make_split(500, validation=0, certify=0)
    found = crude_sum(FittingData(ArrayExamples(X, Y), split), SculptConfig())

    def loss(w):
        student = AttentionLayer(np.zeros((1, 4, 4)), w[None])
        return 0.5 * np.sum((student(X) - Y) ** 2) / len(X)

    step = 1e-6
    gradient = np.zeros((4, 3))
    for index in np.ndindex(4, 3):
        nudge = np.zeros((4, 3))
        nudge[index] = step
        gradient[index] = (loss(nudge) - loss(-nudge)) / (2 * step)
    np.testing.assert_allclose(found.paper, -gradient, atol=1e-8)


def test_formula_of_both_estimates():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((50, 3, 2)), rng.standard_normal((50, 3, 2))
    split = make_split(50, validation=0, certify=0)
    config = replace(SculptConfig(), least_sum_energy=0.0)
    found = crude_sum(FittingData(ArrayExamples(X, Y), split, block_size=7), config)
    J = np.full((3, 3), 1 / 3)
    paper = np.mean([x.T @ J @ y for x, y in zip(X, Y, strict=True)], axis=0)
    free = 3 * np.mean(
        [
            np.outer(x[j], y[r])
            for x, y in zip(X, Y, strict=True)
            for r in range(3)
            for j in range(3)
            if j != r
        ],
        axis=0,
    )
    np.testing.assert_allclose(found.paper, paper)
    np.testing.assert_allclose(found.own_token_free, free)


@pytest.mark.parametrize("kind", ["boolean", "gaussian"])
def test_own_token_free_estimate_is_less_biased(kind):
    case = planted(plant(2, 12, 3.0, seed=3), 40_000, 4, kind=kind)
    found = crude_sum(case.data, case.config)
    assert case.sum_error(found.own_token_free) < 0.7 * case.sum_error(found.paper)
    assert found.estimate is found.own_token_free
    paper = crude_sum(case.data, replace(case.config, own_token_free=False))
    assert paper.estimate is paper.paper


def test_exact_where_attention_is_uniform():
    layer = AttentionLayer(np.zeros((1, 6, 6)), plant(1, 6, seed=0).w)
    case = planted(layer, 40_000, 3)
    assert case.sum_error(crude_sum(case.data, case.config).estimate) < 0.03


def test_constant_row_is_the_mean_output(biased):
    found = crude_sum(biased.data, biased.config)
    assert found.estimate.shape == (9, 8)
    fitted = biased.data.split.fit_rows(0, biased.data.examples.n)
    _, Y = biased.data.examples.block(0, biased.data.examples.n)
    np.testing.assert_allclose(found.estimate[-1], Y[fitted].mean(axis=(0, 1)))


def test_held_out_examples_do_not_count(two_heads):
    assert crude_sum(two_heads.data, two_heads.config).examples == two_heads.data.split.n_fit


def test_vanishing_sum_is_named():
    layer = plant(2, 8, 3.0, seed=0)
    opposed = AttentionLayer(layer.theta, np.stack([layer.w[0], -layer.w[0]]))
    case = planted(opposed, 20_000, 3)
    with pytest.raises(NotLearned) as stopped:
        crude_sum(case.data, case.config)
    assert stopped.value.status is Status.SUM_NEAR_ZERO
    assert "energy" in stopped.value.detail
