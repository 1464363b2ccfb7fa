"""Error bars: of the size of the errors, and not given where the examples leave heads open."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradine import AttentionLayer, compare, learn, plant
from gradine.exact.heads import fit_heads, refine
from gradine.exact.identify import identify, structure_left
from gradine.exact.units import Units
from tests.exact.conftest import task_of

PLAIN = Units(None, 1.0, 0, "", False)


def ratios_to_bars(fit, bars, layer):
    match = compare(AttentionLayer(fit.theta, fit.w), layer)
    return [
        *(match.theta_error / bars.theta_bars[match.order]),
        *(match.w_error / bars.w_bars[match.order]),
    ]


def test_error_bars_are_of_the_size_of_the_errors():
    ratios = []
    for seed in range(6):
        layer = plant(2, 8, 2.0, seed=seed)
        task = task_of(layer, 20, noise=0.05, seed=seed)
        fit = fit_heads(task, 2)
        bars = identify(task, fit, PLAIN)
        ratios += ratios_to_bars(fit, bars, layer)
        assert 0.0 < bars.singular_values[0] <= 1.0 < bars.condition < 1e4
    assert 0.8 < np.median(ratios) < 1.25
    assert max(ratios) < 2.0


@pytest.mark.parametrize("weight", [1e-2, 3e-4])
def test_a_weak_head_has_bars_of_its_own(weight):
    whole = plant(2, 8, 2.0, seed=1)
    layer = AttentionLayer(whole.theta, whole.w * np.array([1.0, weight])[:, None, None])
    task = task_of(layer, 40, noise=0.03 * weight)
    start = replace(fit_heads(task, 2), theta=layer.theta, w=layer.w)
    fit = refine(task, start)
    bars = identify(task, fit, PLAIN)
    assert bars.theta_bars.max() > 100 * bars.theta_bars.min()
    assert max(ratios_to_bars(fit, bars, layer)) < 2.5


def test_heads_of_low_rank_have_bars():
    layer = plant(2, 16, 2.0, rank=2, seed=0)
    task = task_of(layer, 12.0, rank=2)
    bars = identify(task, fit_heads(task, 2, rank=2), PLAIN)
    assert bars.determined and bars.theta_bars.max() < 1e-10


@pytest.mark.parametrize("kind", ["duplicate", "zero", "constant sum", "equal heads"])
def test_what_tokens_never_show_leaves_no_bars(kind):
    layer = plant(2, 6, 2.0, seed=2)
    task = task_of(layer, 20, k=4)
    X, theta = task.X.copy(), layer.theta.copy()
    if kind == "duplicate":
        X[..., 1] = X[..., 0]
    elif kind == "zero":
        X[..., 1] = 0.0
    elif kind == "constant sum":
        X[..., 0] = 1.0 - X[..., 1:].sum(axis=-1)
    else:
        theta[1] = theta[0]
    truth = AttentionLayer(theta, layer.w)
    fit = fit_heads(task_of(layer, 20, k=4), 2)
    fit = replace(fit, theta=truth.theta, w=truth.w, residual=1e-15)
    bars = identify(replace(task, X=X, Y=truth(X)), fit, PLAIN)
    assert not bars.determined
    assert np.isinf(bars.theta_bars).all() and np.isinf(bars.w_bars).all()
    whole = identify(replace(task, Y=layer(task.X)), replace(fit, theta=layer.theta), PLAIN)
    assert whole.determined and whole.theta_bars.max() < 1e-12


def test_a_decomposition_that_fails_is_made_by_a_slower_method(monkeypatch):
    layer = plant(1, 6, 2.0, seed=2)
    task = task_of(layer, 20, k=4)
    X = task.X.copy()
    X[..., 1] = X[..., 0]  # open directions, so that the singular values have the last word
    twin = replace(task, X=X, Y=layer(X))
    fit = replace(fit_heads(task, 1), theta=layer.theta, w=layer.w, residual=1e-15)
    bars = identify(twin, fit, PLAIN)

    calls = []

    def fails(matrix):
        calls.append(matrix.shape)
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr(np.linalg, "svd", fails)
    again = identify(twin, fit, PLAIN)
    assert calls == [(36, 36)]
    np.testing.assert_allclose(again.singular_values, bars.singular_values, atol=1e-14)


def test_bars_are_in_the_coordinates_that_were_given():
    layer = plant(2, 6, 2.0, seed=2)
    task = task_of(layer, 20, k=4, noise=0.05)
    fit = fit_heads(task, 2)
    basis = np.diag(10.0 ** np.linspace(-1, 1, 6))
    plain, other = identify(task, fit, PLAIN), identify(task, fit, replace(PLAIN, basis=basis))
    assert (other.theta_bars != plain.theta_bars).all()
    same = identify(task, fit, replace(PLAIN, basis=3.0 * np.eye(6), unit=8.0))
    np.testing.assert_allclose(same.theta_bars, plain.theta_bars)
    np.testing.assert_allclose(same.w_bars, plain.w_bars)


def _bent(X, Y):
    """Outputs with a part that no attention layer has."""
    return Y + 0.3 * np.roll(X, 1, axis=2) * X


def _causal(X, Y):
    """Outputs that know the places of the tokens."""
    return Y + 0.3 * np.cumsum(X, axis=1)


@pytest.mark.parametrize("bend", [_bent, _causal])
def test_structure_is_told_from_noise(bend):
    layer = plant(2, 8, 2.0, seed=0)
    noisy = task_of(layer, 10, noise=0.2, fresh=400)
    fit = fit_heads(noisy, 2)
    assert structure_left(noisy, fit)[1] < 4.0
    bent = replace(noisy, Y=bend(noisy.X, noisy.Y), Y_fresh=bend(noisy.X_fresh, noisy.Y_fresh))
    assert structure_left(bent, fit_heads(bent, 2, starts=1))[1] > 4.0


@pytest.mark.parametrize("width", [1e-4, 3e-6, 1e-6])
def test_heads_that_narrow_tokens_hardly_show_are_not_claimed(width):
    """Rounding of the tokens moves heads more than what is left of the outputs tells."""
    for seed in (1, 2):
        rng = np.random.default_rng([seed, 5])
        layer = plant(2, 6, 3.0, seed=seed)
        basis = np.linalg.qr(rng.standard_normal((6, 6)))[0]
        tokens = rng.standard_normal((700, 3, 6)) @ (basis * np.geomspace(1.0, width, 6)) @ basis.T
        fit = learn(tokens, layer(tokens), 2, "exact", seed)
        found = compare(fit.candidate, layer, seq_len=3)
        assert fit.certificate is not None and fit.certificate.median_error < 1e-8
        bars = fit.phases["identify"].theta_bars[found.order]
        assert (found.theta_error < 2.0 * bars).all()
        assert fit.status.code == ("learned_function" if bars.max() > 0.2 else "learned")
