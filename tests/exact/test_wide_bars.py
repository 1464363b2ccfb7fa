"""Error bars of wide layers: of the size of the errors, and none where heads are left open."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradine import AttentionLayer, compare
from gradine.exact import wide_bars
from gradine.exact.config import ExactConfig
from gradine.exact.deflate import rows_needed
from gradine.exact.finish import FinishConfig
from gradine.exact.heads import FitTask
from gradine.exact.units import Units
from gradine.exact.wide import fit_wide
from gradine.exact.wide_bars import identify_wide, unidentified
from tests.exact.test_deflate import CONFIG, narrow_layer, tokens

PLAIN = Units(None, 1.0, 0, "", False)
HEADS, DIM, RANK, K = 3, 24, 3, 6


def fitted(least_misfit, noise=0.0, seed=1):
    layer = narrow_layer(HEADS, DIM, RANK, seed=seed)
    n = rows_needed(HEADS, RANK, (K, DIM, DIM, DIM), CONFIG)[1]
    X, fresh = tokens(n, K, DIM, 7), tokens(100, K, DIM, 8)
    Y = layer(X)
    Y = Y + noise * np.std(Y) * np.random.default_rng(3).standard_normal(Y.shape)
    deflate = replace(CONFIG, finish=FinishConfig(least_misfit=least_misfit))
    config = ExactConfig(rank=RANK, deflate=deflate, exact_residual=1e-3)
    task = FitTask(X, Y, fresh, layer(fresh), DIM, config, 0)
    return layer, task, fit_wide(task, HEADS, RANK)


def ratios(layer, fit, bars):
    match = compare(AttentionLayer(fit.theta, fit.w), layer, seq_len=K)
    order = match.order
    return [*(match.theta_error / bars.theta_bars[order]), *(match.w_error / bars.w_bars[order])]


@pytest.mark.parametrize("least_misfit", [1e-8, 1e-12])
def test_a_fit_that_ends_early_knows_how_far_it_is_from_its_end(least_misfit):
    layer, task, fit = fitted(least_misfit)
    bars = identify_wide(task, fit, PLAIN)
    assert bars.determined and 1.0 < bars.condition < 100.0
    assert 1e-9 < bars.theta_bars.max() < 1e-2
    assert np.all(np.array(ratios(layer, fit, bars)) < 1.3)
    assert max(ratios(layer, fit, bars)) > 0.7


def test_noise_moves_heads_as_far_as_bars_say():
    layer, task, fit = fitted(1e-26, noise=0.02)
    bars = identify_wide(task, fit, PLAIN)
    assert bars.noise == pytest.approx(0.02, rel=0.1)
    assert 0.6 < np.median(ratios(layer, fit, bars)) < 1.5


def test_heads_with_one_attention_have_no_bars():
    _, task, fit = fitted(1e-8)
    theta = fit.theta.copy()
    theta[1] = theta[0]  # how W_0 + W_1 is shared out does not show
    bars = identify_wide(task, replace(fit, theta=theta), PLAIN)
    assert not bars.determined and np.all(np.isinf(bars.theta_bars))


def test_nothing_is_said_where_nothing_was_asked():
    fit = fitted(1e-8)[2]
    nothing = unidentified(fit)
    assert not nothing.determined and np.isinf(nothing.condition) and nothing.samples == 0


def test_what_too_few_products_do_not_find_counts_as_unknown(monkeypatch):
    layer, task, fit = fitted(1e-8)
    whole = identify_wide(task, fit, PLAIN)
    monkeypatch.setattr(wide_bars, "PRODUCTS", 7)
    some = identify_wide(task, fit, PLAIN)
    assert some.determined and np.all(np.array(ratios(layer, fit, some)) < 1.0)
    # A part of each head is open, by far more than it is off.
    assert 10.0 * whole.theta_bars.max() < some.theta_bars.max() < task.config.largest_bar
    monkeypatch.setattr(wide_bars, "PRODUCTS", 1)
    assert not identify_wide(task, fit, PLAIN).determined


def test_fewer_examples_under_fit_move_heads_more():
    _, task, fit = fitted(1e-26, noise=0.02)
    bars = identify_wide(task, fit, PLAIN)
    fewer = identify_wide(task, replace(fit, examples=fit.examples // 4), PLAIN)
    assert fewer.theta_bars == pytest.approx(2.0 * bars.theta_bars, rel=0.3)
