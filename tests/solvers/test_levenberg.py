"""Nonlinear least squares over all parameters: derivatives, convergence, constant coordinate."""

from __future__ import annotations

import numpy as np
import pytest

from gradine.attention_functions import FUNCTIONS, SOFTMAX
from gradine.inputs import plant, sample_inputs
from gradine.solvers import levenberg
from gradine.solvers.levenberg import levenberg_marquardt


@pytest.fixture
def near():
    """A planted layer, examples of it, and a start close to it."""
    rng = np.random.default_rng(0)
    layer = plant(2, 5, 3.0, seed=1, out_dim=4)
    X = sample_inputs(150, 3, 5, seed=2)
    theta = layer.theta + 0.05 * rng.standard_normal(layer.theta.shape)
    w = layer.w + 0.05 * rng.standard_normal(layer.w.shape)
    return layer, X, layer(X), theta, w


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_normal_equations_are_those_of_finite_differences(near, function):
    _, X, Y, theta, w = near
    X, Y = X[:7], Y[:7]
    normal, gradient, cost = levenberg._normal_equations(X, Y, theta, w, function)

    def residual(flat):
        t, v = flat[: theta.size].reshape(theta.shape), flat[theta.size :].reshape(w.shape)
        return (Y - levenberg._forward(X, t, v, function)[2].sum(axis=1)).ravel()

    start, step = np.concatenate([theta.ravel(), w.ravel()]), 1e-6
    columns = [
        (residual(start + step * e) - residual(start - step * e)) / (2 * step)
        for e in np.eye(len(start))
    ]
    jacobian = -np.array(columns).T
    np.testing.assert_allclose(normal, jacobian.T @ jacobian, atol=1e-6)
    np.testing.assert_allclose(gradient, jacobian.T @ residual(start), atol=1e-6)
    assert cost == pytest.approx(np.sum(residual(start) ** 2))


def test_blocks_do_not_change_the_normal_equations(near, monkeypatch):
    _, X, Y, theta, w = near
    whole = levenberg._normal_equations(X, Y, theta, w, SOFTMAX)
    monkeypatch.setattr(levenberg, "BLOCK_BYTES", 40_000)
    for a, b in zip(whole, levenberg._normal_equations(X, Y, theta, w, SOFTMAX), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def test_converges_to_rounding_and_fast(near):
    layer, X, Y, theta, w = near
    fit = levenberg_marquardt(X, Y, theta, w)
    np.testing.assert_allclose(fit.theta, layer.theta, atol=1e-12)
    np.testing.assert_allclose(fit.w, layer.w, atol=1e-12)
    assert (np.diff(fit.losses) <= 0).all() and len(fit.losses) < 15


def test_stops_at_the_best_fit_when_labels_are_noisy(near):
    _, X, Y, theta, w = near
    noisy = Y + 0.1 * np.random.default_rng(3).standard_normal(Y.shape)
    fit = levenberg_marquardt(X, noisy, theta, w)
    _, gradient, _ = levenberg._normal_equations(X, noisy, fit.theta, fit.w, SOFTMAX)
    _, before, _ = levenberg._normal_equations(X, noisy, theta, w, SOFTMAX)
    assert np.abs(gradient).max() < 1e-4 * np.abs(before).max()
    assert fit.losses[-1] > 1e-2


def test_constant_coordinate_keys_leave_it_out():
    layer = plant(2, 4, 3.0, seed=1, constant=True)
    X = np.concatenate([sample_inputs(200, 3, 4, seed=2), np.ones((200, 3, 1))], axis=-1)
    start = layer.theta[:, :, :4] + 0.02
    fit = levenberg_marquardt(X, layer(X), start, layer.w + 0.02)
    np.testing.assert_allclose(fit.theta, layer.theta[:, :, :4], atol=1e-9)
    np.testing.assert_allclose(fit.w.sum(axis=0), layer.w.sum(axis=0), atol=1e-9)
