"""Projections for given attention, and least squares that drops the rows that disagree."""

from __future__ import annotations

import numpy as np
import pytest

from gradine.inputs import plant, sample_inputs
from gradine.layer import attention_features
from gradine.solvers.least_squares import solve_projections, trimmed_least_squares


def test_projections_of_a_planted_layer_are_found_exactly():
    layer = plant(3, 8, 3.0, seed=0, out_dim=5)
    X = sample_inputs(300, 4, 8, seed=1)
    w = solve_projections(attention_features(X, layer.theta), layer(X))
    np.testing.assert_allclose(w, layer.w, atol=1e-11)


def test_projections_minimise_the_error():
    layer = plant(2, 6, 3.0, seed=0)
    X = sample_inputs(200, 3, 6, seed=1)
    Y = layer(X) + np.random.default_rng(2).standard_normal((200, 3, 6))
    features = attention_features(X, layer.theta)
    w = solve_projections(features, Y)
    error = Y - np.einsum("nmkd,mdo->nko", features, w)
    np.testing.assert_allclose(np.einsum("nmkd,nko->mdo", features, error), 0.0, atol=1e-9)


def test_shared_direction_is_split_evenly():
    """With a constant coordinate the last feature of all heads is 1: the smallest norm is even."""
    layer = plant(2, 5, 3.0, seed=0, constant=True)
    X = np.concatenate([sample_inputs(300, 3, 5, seed=1), np.ones((300, 3, 1))], axis=-1)
    w = solve_projections(attention_features(X, layer.theta), layer(X))
    np.testing.assert_allclose(w[0, -1], w[1, -1], atol=1e-6)
    np.testing.assert_allclose(w.sum(axis=0), layer.w.sum(axis=0), atol=1e-8)


def test_trimming_ignores_rows_that_follow_another_rule():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 6))
    W = rng.standard_normal((6, 4))
    Y = X @ W
    Y[rng.random(400) < 0.3] += rng.standard_normal(4)
    fit = trimmed_least_squares(X, Y, keep=100)
    np.testing.assert_allclose(fit.coefficients, W, atol=1e-10)
    assert len(fit.kept) == 100 and fit.residual < 1e-10


def test_trimming_stops_before_it_loses_a_direction():
    """The best-fitting rows all lie in a plane; they alone would say nothing of the third axis."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    X[:150, 2] = 0.0
    Y = X @ np.ones((3, 2))
    Y[150:] += 0.01 * rng.standard_normal((50, 2))
    fit = trimmed_least_squares(X, Y, keep=20)
    assert len(fit.kept) > 20
    np.testing.assert_allclose(fit.coefficients, 1.0, atol=0.02)


def test_trimmed_residual_tells_a_bad_fit():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((300, 5)), rng.standard_normal((300, 4))
    assert trimmed_least_squares(X, Y, keep=60).residual == pytest.approx(0.6, abs=0.3)
