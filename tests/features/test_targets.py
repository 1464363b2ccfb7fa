"""Target functions against their formulas, and how complex they are said to be."""

from __future__ import annotations

import numpy as np
import pytest

from gradine.features.complexity import (
    complexity,
    complexity_from_below,
    kernel,
    kernel_coefficient,
)
from gradine.features.maps import AttentionMap
from gradine.features.targets import correlation, gamma_mixture, on_sphere, powers


def test_tokens_are_uniform_on_the_sphere():
    X = on_sphere(4000, 2, 5, seed=3)
    np.testing.assert_allclose(np.linalg.norm(X, axis=2), 1.0, atol=1e-12)
    np.testing.assert_allclose(np.cov(X[:, 1].T), np.eye(5) / 5, atol=0.02)


def test_targets_are_their_formulas():
    X = on_sphere(4, 3, 6)
    plain, mixed = correlation(3, 6, seed=1, direction_power=2), gamma_mixture(0.5, 6, seed=1)
    for n in range(4):
        query, keys = X[n, 0], X[n, 1:]
        expected = np.mean([(query @ x) ** 3 * (plain.beta @ x) ** 2 for x in keys])
        assert plain(X)[n] == pytest.approx(expected, rel=1e-12)
        expected = np.mean([(query @ mixed.matrix @ x) * (mixed.beta @ x) for x in keys])
        assert mixed(X)[n] == pytest.approx(expected, rel=1e-12)
    S = (mixed.matrix - np.eye(6)) / 0.5
    assert np.linalg.norm(S) == pytest.approx(np.sqrt(6.0))
    np.testing.assert_allclose(gamma_mixture(0.0, 6, seed=1)(X), correlation(1, 6, seed=1)(X))


@pytest.mark.parametrize("mean", ["zero", "identity"])
def test_the_kernel_is_that_of_many_heads(mean):
    z = on_sphere(20, 1, 4)
    rows = AttentionMap.draw(40_000, 4, mean, "relu", np.random.default_rng(0))(z)
    K = kernel(z, z, mean)
    np.testing.assert_allclose(rows @ rows.T / 40_000, K, atol=0.03 * K.max())
    assert np.linalg.eigvalsh(K).min() > -1e-10


def test_the_series_is_the_kernel():
    z = on_sphere(30, 1, 4)
    a, b = (z[:, i] @ z[:, i].T for i in (0, 1))
    total = sum(kernel_coefficient(r, s) * a**r * b**s for r in range(9) for s in range(10))
    far = np.abs(a * b) < 0.5  # the series is cut off
    np.testing.assert_allclose(total[far], kernel(z, z, "zero")[far], rtol=3e-3)


@pytest.mark.parametrize("target", [powers(1, 3), powers(2, 3), correlation(1, 3)])
def test_complexity_lies_above_what_points_show_and_near_it(target):
    below = [complexity_from_below(target, 3, points=points) for points in (100, 400, 800)]
    above = complexity(target, 3)
    assert below[0] < below[1] < below[2] * (1.0 + 1e-6)
    # On the sphere |x|^2 = 1 may save something, but not much here.
    assert 0.2 * above < below[2] < above * (1.0 + 1e-6)


def test_complexity_of_correlations_grows_with_a_power_of_the_dimension():
    for power in (1, 2, 3):
        near, far = (complexity(correlation(power, d), d) for d in (100, 200))
        assert np.log2(far / near) == pytest.approx(power, abs=0.1)
    assert complexity(powers(3, 100), 100) == complexity(powers(3, 200), 200)


def test_complexity_of_mixtures():
    plain, mixed = gamma_mixture(0.0, 8, seed=2), gamma_mixture(2.0, 8, seed=2)
    assert complexity(plain, 8) == pytest.approx(complexity(correlation(1, 8), 8))
    assert complexity(mixed, 8) > 3.0 * complexity(plain, 8)
    with pytest.raises(ValueError, match="known for powers of 1 and 1"):
        complexity(gamma_mixture(2.0, 8, power=2), 8)


def test_a_target_knows_no_example_of_the_same_seed():
    X = on_sphere(5, 4, 6, seed=3)
    beta = correlation(1, 6, seed=3).beta
    assert np.abs(X.reshape(-1, 6) @ beta).max() < 0.99


@pytest.mark.parametrize(
    ("work", "named"),
    [
        (lambda: powers(1.5, 4), "degree is 1.5"),
        (lambda: powers(-1, 4), "degree is -1"),
        (lambda: powers(2, 0), "dim is 0"),
        (lambda: correlation(1, 4, direction_power=-1), "direction_power is -1"),
        (lambda: gamma_mixture(np.nan, 4), "gamma is nan"),
        (lambda: complexity(powers(1, 8), 16), "dim is 16; the target is one of 8"),
        (lambda: complexity_from_below(powers(1, 4), 4, "other", 10), "mean is 'other'"),
    ],
)
def test_bad_targets_are_named(work, named):
    with pytest.raises(ValueError, match=named):
        work()
