"""A fit with a given number of heads, and the count by fitting."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gradine import AttentionLayer, compare, plant, sample_inputs
from gradine.exact.config import ExactConfig
from gradine.exact.count import count_heads, improves, spare_heads
from gradine.exact.heads import FitTask, fit_heads, refine, unknowns
from gradine.exact.identify import identify, noise_of, structure_left


def task_of(layer, ratio, k=8, noise=0.0, fresh=100, seed=0, config=None, rank=None):
    bound = unknowns(layer.n_heads, layer.dim, layer.dim, layer.out_dim, rank) / (k * layer.out_dim)
    n = math.ceil(ratio * bound)
    X = sample_inputs(n + fresh, k, layer.dim, seed=seed + 100)
    Y = layer(X)
    Y = Y + noise * Y.std() * np.random.default_rng(seed).standard_normal(Y.shape)
    return FitTask(X[:n], Y[:n], X[n:], Y[n:], layer.dim, config or ExactConfig(), seed)


def error(fit, layer):
    return compare(AttentionLayer(fit.theta, fit.w), layer).theta_error.max()


@pytest.mark.parametrize(
    ("heads", "dim", "k", "scale", "ratio"),
    [(4, 16, 8, 2.0, 4.0), (2, 8, 2, 2.0, 10.0), (3, 8, 4, 6.0, 6.0), (1, 6, 3, 3.0, 4.0)],
)
def test_heads_are_found_to_rounding(heads, dim, k, scale, ratio):
    layer = plant(heads, dim, scale, seed=1)
    fit = fit_heads(task_of(layer, ratio, k), heads)
    assert fit.exact and fit.settled and fit.residual < 1e-10
    assert error(fit, layer) < 1e-8 and fit.validation_error < 1e-8
    assert fit.equations == pytest.approx(ratio, rel=0.1)


def test_near_the_counting_bound_the_start_is_annealed():
    layer = plant(4, 16, 2.0, seed=0)
    fit = fit_heads(task_of(layer, 1.6), 4)
    assert fit.reasons[0] == "annealed"
    assert fit.exact and error(fit, layer) < 1e-8


def test_low_rank_heads_need_fewer_examples_than_full_ones():
    layer = plant(2, 16, 2.0, rank=2, seed=0)
    task = task_of(layer, 12.0, rank=2)
    assert len(task.X) < unknowns(2, 16, 16, 16, None) / (8 * 16) * 6
    fit = fit_heads(task, 2, rank=2)
    assert fit.exact and error(fit, layer) < 1e-8
    assert np.linalg.matrix_rank(fit.theta[0], tol=1e-6) == 2


def test_noise_floor_is_found_and_refined():
    layer = plant(2, 8, 2.0, seed=3)
    small, large = task_of(layer, 6, noise=0.1), task_of(layer, 60, noise=0.1)
    fit = fit_heads(small, 2)
    assert not fit.exact and fit.settled
    assert noise_of(fit) == pytest.approx(0.1, rel=0.15)
    better = refine(large, fit)
    assert error(better, layer) < 0.5 * error(fit, layer)
    assert noise_of(better) == pytest.approx(0.1, rel=0.05)


def test_error_bars_are_of_the_size_of_the_errors():
    ratios = []
    for seed in range(6):
        layer = plant(2, 8, 2.0, seed=seed)
        task = task_of(layer, 20, noise=0.05, seed=seed)
        fit = fit_heads(task, 2)
        bars = identify(task, fit)
        match = compare(AttentionLayer(fit.theta, fit.w), layer)
        ratios += list(match.theta_error / bars.theta_bars[match.order])
        ratios += list(match.w_error / bars.w_bars[match.order])
        assert 0.0 < bars.singular_values[0] <= 1.0 < bars.condition < 1e4
    assert 0.8 < np.median(ratios) < 1.25
    assert max(ratios) < 2.0


def _bent(X, Y):
    """Outputs with a part that no attention layer has."""
    return Y + 0.3 * np.roll(X, 1, axis=2) * X


def test_structure_is_told_from_noise():
    layer = plant(2, 8, 2.0, seed=0)
    noisy = task_of(layer, 10, noise=0.2, fresh=400)
    fit = fit_heads(noisy, 2)
    assert structure_left(noisy, fit)[1] < 4.0
    bent = replace(noisy, Y=_bent(noisy.X, noisy.Y), Y_fresh=_bent(noisy.X_fresh, noisy.Y_fresh))
    assert structure_left(bent, fit_heads(bent, 2, starts=1))[1] > 4.0


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("first", [1, 2, 3, 4])
def test_count_is_right_wherever_it_begins(noise, first):
    layer = plant(2, 6, 2.0, seed=0)
    task, fits = task_of(layer, 20, k=4, noise=noise, fresh=400), {}

    def fit(m):
        if m not in fits:
            fits[m] = fit_heads(task, m, starts=2)
        return fits[m]

    assert count_heads(fit, fit, first, 6, False, ExactConfig()) == 2
    if noise == 0.0 and first > 2:
        assert fits[first].exact and spare_heads(fits[2]) == 0
    assert improves(fit(1), fit(2), ExactConfig())
    assert not improves(fit(2), fit(3), ExactConfig()) or noise == 0.0


def test_same_seed_same_fit():
    layer = plant(2, 6, 2.0, seed=0)
    a, b = (fit_heads(task_of(layer, 5), 2) for _ in range(2))
    assert a.theta.tobytes() == b.theta.tobytes() and a.misfits.tobytes() == b.misfits.tobytes()
