"""Tokens and outputs in units of their own."""

from __future__ import annotations

import numpy as np
import pytest

from gradine import AttentionLayer, compare, learn, plant, sample_inputs
from gradine.exact.units import measure
from gradine.examples import ArrayExamples, FittingData, make_split


def data_of(X, Y, **how):
    split = make_split(len(X), validation=10, certify=10, largest_share=0.2, seed=0)
    return FittingData(ArrayExamples(X, Y), split, **how)


def test_tokens_become_isotropic_and_heads_come_back():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 3, 5)) @ rng.standard_normal((5, 5)) + 2.0
    layer = plant(2, 5, 1.0)
    data = data_of(X, 1e6 * layer(X))
    units = measure(data, isotropic=False)
    inner = units.apply(data)
    tokens, outputs = inner.sample(400, 0)
    rows = tokens.reshape(-1, 5)
    np.testing.assert_allclose(rows.T @ rows / len(rows), np.eye(5), atol=0.1)
    assert 0.4 < np.sqrt(np.mean(outputs**2)) < 2.5
    heads = rng.standard_normal((2, 5, 5)), rng.standard_normal((2, 5, 5))
    given, _ = data.sample(400, 0)
    back = AttentionLayer(units.theta(heads[0]), units.w(heads[1]))
    np.testing.assert_allclose(back(given), units.unit * AttentionLayer(*heads)(tokens), rtol=1e-9)
    assert units.blind == "" and not units.silent and units.distinct == data.split.n_fit


def test_standard_tokens_stay_what_they_are():
    X = sample_inputs(500, 3, 5)
    units = measure(data_of(X, X), isotropic=True)
    assert units.basis is None and units.unit == 1.0


def test_a_constant_coordinate_stays_one():
    X = 5.0 * np.random.default_rng(0).standard_normal((500, 3, 5))
    units = measure(data_of(X, X, constant=True, appended=True), isotropic=False)
    assert units.basis is not None and units.basis.shape == (6, 6)
    np.testing.assert_array_equal(units.basis[-1], np.eye(6)[-1])
    assert units.blind == ""


@pytest.mark.parametrize(
    ("change", "blind"),
    [
        (lambda X: np.concatenate([X, X[..., :1]], -1), "span only 4 dimensions"),
        (lambda X: np.concatenate([X, 0 * X[..., :1]], -1), "span only 4 dimensions"),
        (lambda X: np.concatenate([X, 1 - X.sum(-1, keepdims=True)], -1), "is constant"),
        (lambda X: X * np.array([1.0, 1e-6, 1e6, 1.0]), ""),
    ],
)
def test_what_tokens_cannot_show_is_said(change, blind):
    X = change(np.random.default_rng(0).standard_normal((500, 3, 4)))
    found = measure(data_of(X, X), isotropic=False).blind
    assert blind in found and bool(found) == bool(blind)


def test_sequences_that_come_again_count_once():
    X = np.random.default_rng(0).standard_normal((12, 3, 4))
    twice = np.concatenate([X, X, -0.0 * X, 0.0 * X])
    split = make_split(len(twice), validation=1, certify=1, largest_share=0.1, seed=0)
    units = measure(FittingData(ArrayExamples(twice, twice), split), isotropic=False)
    assert units.distinct == 13


@pytest.mark.parametrize("scale", [1e-2, 1e2, 1e6])
def test_the_size_of_tokens_and_outputs_does_not_matter(scale):
    layer = plant(2, 6, 2.0, seed=1)
    X = sample_inputs(1500, 4, 6, seed=2)
    same = AttentionLayer(layer.theta / scale**2, layer.w)
    fit = learn(scale * X, 1e8 * layer(X), method="exact")
    assert fit.status.code == "learned" and fit.heads == 2
    match = compare(fit.layer, AttentionLayer(same.theta, 1e8 / scale * layer.w))
    assert match.theta_error.max() < 1e-9 and match.w_error.max() < 1e-9


def test_coordinates_of_unequal_size_are_learned():
    sizes = 10.0 ** np.linspace(-1.5, 1.5, 6)
    layer = plant(2, 6, 2.0, seed=1)
    X = sample_inputs(1500, 4, 6, "gaussian", seed=2)
    truth = AttentionLayer(layer.theta / np.outer(sizes, sizes), layer.w)
    fit = learn(sizes * X, truth(sizes * X), method="exact")
    assert fit.status.code == "learned"
    assert compare(fit.layer, truth).theta_error.max() < 1e-9


def test_one_hot_tokens_give_the_function_and_no_heads():
    X = np.eye(6)[np.random.default_rng(0).integers(0, 6, (4000, 4))]
    layer = plant(2, 6, 3.0, seed=1)
    fit = learn(X, layer(X), heads=2, method="exact")
    assert fit.status.code == "learned_function" and "constant" in fit.detail
    np.testing.assert_allclose(fit.layer(X), layer(X), atol=1e-9)


def test_many_sequences_are_counted_by_some(monkeypatch):
    """Memory does not grow with the examples; where none comes again, the count is exact."""
    monkeypatch.setattr("gradine.exact.units.FOLLOWED", 500)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 3, 5))
    data = data_of(X, X, block_size=300)
    assert measure(data, isotropic=False).distinct == data.split.n_fit
    again = X[rng.integers(0, 2500, 20_000)]  # each about 8 times
    data = data_of(again, again, block_size=300)
    assert abs(measure(data, isotropic=False).distinct / 2500 - 1) < 0.05
    other = data_of(again[::-1].copy(), again, block_size=7000)
    assert abs(measure(other, isotropic=False).distinct - measure(data, False).distinct) < 5


def test_repeated_sequences_are_too_few():
    layer = plant(2, 6, 3.0, seed=1)
    X = np.tile(sample_inputs(10, 4, 6, seed=3), (400, 1, 1))
    fit = learn(X, layer(X), method="exact")
    assert not fit.learned
