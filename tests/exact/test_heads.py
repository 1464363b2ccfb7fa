"""A fit with a given number of heads, and the count by fitting."""

from __future__ import annotations

import numpy as np
import pytest

from gradine import AttentionLayer, compare, plant
from gradine.exact.config import ExactConfig
from gradine.exact.count import count_heads, improves, spare_heads
from gradine.exact.heads import fit_heads, refine, unknowns
from gradine.exact.identify import noise_of
from tests.exact.conftest import task_of


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
