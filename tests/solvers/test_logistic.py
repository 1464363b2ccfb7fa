"""Theta of one head from its attention."""

from __future__ import annotations

import numpy as np
import pytest

from gradine.kernels import softmax
from gradine.solvers.logistic import ReadOff, _Attention, fit_attention, read_attention

D, R, K = 12, 6, 5


def sharp_head(n, size, seed=0):
    """Tokens, factors of a head, its logits."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, K, D))
    U, keys = (rng.standard_normal((D, R)) * np.sqrt(size / D) for _ in range(2))
    return X, U, keys, (X @ U) @ (X @ keys).swapaxes(1, 2)


def exactly(weights):
    return ReadOff(weights, np.full_like(weights, 1e-9))


def test_attention_is_read_off_the_outputs():
    rng = np.random.default_rng(1)
    weights = softmax(2.0 * rng.standard_normal((40, K, K)))
    values = rng.standard_normal((40, K, R))
    shown = read_attention(weights @ values, values)
    assert np.abs(shown.weights - weights).max() < 1e-8
    assert shown.unexplained(weights) < 10.0  # rounding
    assert shown.unexplained(weights[::-1]) > 1e6


def test_errors_are_as_large_as_they_say():
    rng = np.random.default_rng(2)
    weights = softmax(rng.standard_normal((3000, K, K)))
    values = rng.standard_normal((3000, K, 3 * R))
    shown = read_attention(weights @ values + 0.01 * rng.standard_normal((3000, K, 3 * R)), values)
    assert np.mean(((shown.weights - weights) / shown.errors) ** 2) == pytest.approx(1.0, abs=0.1)
    assert np.allclose(shown.weights.sum(axis=2), 1.0)


def test_too_few_outputs_show_no_attention():
    assert read_attention(np.ones((3, K, K - 1)), np.ones((3, K, K - 1))) is None


def test_the_gradient_is_that_of_the_loss():
    X, _, _, logits = sharp_head(30, 2.0)
    problem = _Attention(X, D, exactly(softmax(logits)))
    rng = np.random.default_rng(3)
    at, step = (tuple(rng.standard_normal((D, R)) for _ in range(2)) for _ in range(2))
    problem.go_to(at)
    ahead, behind = (
        problem.loss(tuple(a + h * s for a, s in zip(at, step, strict=True))) for h in (1e-4, -1e-4)
    )
    falls = sum(np.vdot(g, s) for g, s in zip(problem.gradient(), step, strict=True))
    assert (behind - ahead) / 2e-4 == pytest.approx(falls, rel=1e-3)


@pytest.mark.parametrize("size", [1.0, 6.0])
def test_a_head_is_found_from_its_attention(size):
    X, U, keys, logits = sharp_head(800, size)
    theta = U @ keys.T
    rng = np.random.default_rng(4)
    start = U + 0.7 * U.std() * rng.standard_normal(U.shape)
    found, other, products = fit_attention(X, start, keys, exactly(softmax(logits)), 30, 60)
    apart = np.linalg.norm(start @ keys.T - theta) / np.linalg.norm(theta)
    assert apart > 0.5 and products > 0
    assert np.linalg.norm(found @ other.T - theta) < 0.01 * np.linalg.norm(theta)


def test_what_is_too_small_to_see_does_not_drive_theta_away():
    """Zeros would: no finite logits give them."""
    X, U, keys, logits = sharp_head(800, 6.0)
    weights = softmax(logits)
    rng = np.random.default_rng(5)
    shown = ReadOff(
        weights + 0.01 * rng.standard_normal(weights.shape), np.full_like(weights, 0.01)
    )
    sizes = []
    for target in (shown, exactly(np.where(shown.weights > 0.04, shown.weights, 0.0))):
        found = fit_attention(X, U, keys, target, 30, 60)
        sizes.append(np.linalg.norm(found[0] @ found[1].T) / np.linalg.norm(U @ keys.T))
    assert sizes[0] == pytest.approx(1.0, abs=0.03) and sizes[1] > 1.1
