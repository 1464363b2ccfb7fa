"""Mixing: an exact gradient, and heads from their span."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from gradine.attention_functions import SIGMOID, SOFTMAX
from gradine.exact.mixing import MixConfig, _Problem, mix, mixing_examples
from gradine.exact.moments import MomentConfig, moment_spectrum
from gradine.examples import ArrayExamples, FittingData, make_split
from gradine.inputs import plant, sample_inputs
from gradine.layer import AttentionLayer
from gradine.score import compare

CONFIG = MixConfig()


@pytest.mark.parametrize("function", [SOFTMAX, SIGMOID], ids=["softmax", "sigmoid"])
@pytest.mark.parametrize("constant", [False, True])
def test_gradient_is_that_of_the_loss(constant, function):
    layer = plant(2, 4, 2.0, seed=0, constant=constant, attention=function.name)
    X = sample_inputs(40, 3, 4, seed=1)
    Y = layer(X)
    X = np.concatenate([X, np.ones((40, 3, 1))], axis=2) if constant else X
    rng = np.random.default_rng(2)
    basis = np.zeros((2, 4 + constant, 4 + constant))
    basis[:, :4, :4] = rng.standard_normal((2, 4, 4))
    problem = _Problem(X, Y, basis, constant, function)
    point = 0.3 * rng.standard_normal(problem.unknowns)
    numeric = approx_fprime(point, lambda c: problem.loss(c)[0], 1e-6)
    np.testing.assert_allclose(problem.loss(point)[1], numeric, atol=2e-6)


def test_the_true_span_gives_the_true_heads():
    layer = plant(3, 8, 2.0, seed=0)
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    X = sample_inputs(200, 5, 8, seed=2)
    config = MixConfig(tolerance=1e-14, good_residual=1e-4)
    mixed = mix(X, layer(X), np.tensordot(turn, layer.theta, axes=1) / 2.0, config, 0)
    match = compare(AttentionLayer(mixed.theta, mixed.w), layer)
    assert max(match.theta_error) < 1e-3
    assert mixed.residual < 1e-3


@pytest.mark.parametrize("kind, constant", [("boolean", False), ("gaussian", True)])
def test_heads_from_moments(kind, constant):
    layer = plant(3, 10, 2.0, seed=3, constant=constant)
    X = sample_inputs(10_000, 5, 10, kind=kind, seed=4)
    split = make_split(10_000, validation=500, certify=500)
    data = FittingData(ArrayExamples(X, layer(X)), split, constant, constant)
    spectrum = moment_spectrum(data, MomentConfig(), 0)
    sample = data.sample(mixing_examples(3, data.width, 5, CONFIG), 0)
    mixed = mix(*sample, spectrum.theta_span, CONFIG, 0, constant=constant)
    match = compare(AttentionLayer(mixed.theta, mixed.w, constant), layer)
    assert max(match.theta_error) < 0.3
    assert max(match.w_error) < 0.3


def test_every_start_reaches_the_same_optimum():
    layer = plant(4, 8, 2.0, seed=5)
    rng = np.random.default_rng(6)
    span = layer.theta + 0.05 * rng.standard_normal(layer.theta.shape)
    X = sample_inputs(300, 5, 8, seed=7)
    mixed = mix(X, layer(X), span, MixConfig(good_residual=0.0), 0)
    assert len(mixed.start_residuals) == 3
    assert np.ptp(mixed.start_residuals) < 0.02 * mixed.residual


def test_misuse_names_the_shapes():
    with pytest.raises(ValueError, match="theta_span has shape"):
        mix(np.ones((5, 3, 4)), np.ones((5, 3, 4)), np.ones((2, 3, 3)), CONFIG, 0)
