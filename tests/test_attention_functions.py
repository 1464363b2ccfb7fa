"""Attention functions: weights as defined, derivatives that are derivatives, alike in torch."""

from __future__ import annotations

import numpy as np
import pytest

from gradine import kernels
from gradine.attention_functions import (
    FUNCTIONS,
    POLYNOMIAL,
    RELU,
    SIGMOID,
    SOFTMAX,
    AttentionFunction,
    attention_function,
    register,
)

K = 5
RNG = np.random.default_rng(0)
LOGITS = 2.0 * RNG.standard_normal((3, 4, K))
every = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)


def test_weights_are_those_of_the_definition():
    z = LOGITS
    q = 1.0 + z + z**2 / 2
    for function, weights in (
        (SOFTMAX, np.exp(z) / np.exp(z).sum(-1, keepdims=True)),
        (POLYNOMIAL, q / q.sum(-1, keepdims=True)),
        (SIGMOID, 1.0 / (1.0 + np.exp(-z)) / K),
        (RELU, np.maximum(z, 0.0) / K),
    ):
        np.testing.assert_allclose(function(z), weights, rtol=1e-13)


@every
def test_derivative_is_a_derivative(function):
    change, h = RNG.standard_normal(LOGITS.shape), 1e-6
    slope = (function(LOGITS + h * change) - function(LOGITS - h * change)) / (2 * h)
    found = function.derivative(function.attend(LOGITS), change.copy())
    np.testing.assert_allclose(found, slope, atol=1e-9)


@every
def test_transposed_is_the_transpose(function):
    c, u = RNG.standard_normal((2, *LOGITS.shape))
    at = function.attend(LOGITS)
    there = np.sum(u * function.derivative(at, c.copy()), axis=-1)
    back = np.sum(c * function.transposed(at, u.copy()), axis=-1)
    np.testing.assert_allclose(there, back, atol=1e-14)


@every
def test_logits_are_left_alone(function):
    before = LOGITS.copy()
    function.attend(LOGITS)
    np.testing.assert_array_equal(LOGITS, before)


@every
@pytest.mark.parametrize("double", [True, False], ids=["float64", "float32"])
def test_torch_agrees(function, double):
    torch = pytest.importorskip("torch")
    kind = torch.float64 if double else torch.float32
    logits, change = (torch.from_numpy(a).to(kind) for a in (LOGITS, LOGITS[::-1].copy()))
    at, mine = function.attend(logits), function.attend(LOGITS)
    assert at.weights.dtype == at.slopes.dtype == kind
    for theirs, ours in (
        (at.weights, mine.weights),
        (function.derivative(at, change.clone()), function.derivative(mine, LOGITS[::-1].copy())),
        (function.transposed(at, change.clone()), function.transposed(mine, LOGITS[::-1].copy())),
    ):
        np.testing.assert_allclose(kernels.to_numpy(theirs), ours, atol=1e-14 if double else 1e-6)


@every
@pytest.mark.parametrize("size", [1e3, 1e160, 1e300])
@pytest.mark.filterwarnings("error")
def test_logits_of_any_size_have_weights(function, size):
    at = function.attend(np.array([[-size, 0.5, size], [-size, -size, -size], [0.0, 0.0, 0.0]]))
    assert np.isfinite(at.weights).all() and np.isfinite(at.slopes).all()
    assert (at.weights >= 0.0).all()
    if function.normalised:
        np.testing.assert_allclose(at.weights.sum(-1), 1.0)
        np.testing.assert_allclose(at.weights[1], 1 / 3)


@every
def test_flags_are_true(function):
    weights = function(LOGITS)
    sums = weights.sum(-1)
    assert np.allclose(sums, 1.0) == function.normalised
    assert np.allclose(function(LOGITS + 0.7), weights) == function.shift_invariant
    assert np.allclose(function(3.0 * LOGITS), 3.0 * weights) == function.scale_free
    about = 1.0 if function.mirror is None else function.mirror
    assert np.allclose(function(-2.0 * about - LOGITS), weights) == (function.mirror is not None)


def test_softmax_keeps_one_array():
    at = SOFTMAX.attend(LOGITS)
    assert at.slopes is at.weights
    single = at.cast(np.float32)
    assert single.slopes is single.weights and single.weights.dtype == np.float32
    other = RELU.attend(LOGITS).cast(np.float32)
    assert other.slopes.dtype == other.weights.dtype == np.float32


def test_names(monkeypatch):
    assert list(FUNCTIONS)[:4] == ["softmax", "polynomial", "sigmoid", "relu"]
    for wrong in ("gelu", "Softmax", None, ["relu"]):
        with pytest.raises(ValueError, match=r"attention is .*; expected one of softmax, poly"):
            attention_function(wrong)
    with pytest.raises(ValueError, match="'relu' is registered already"):
        register(RELU)
    monkeypatch.setattr("gradine.attention_functions.FUNCTIONS", dict(FUNCTIONS))
    linear = AttentionFunction("linear", lambda z: z / 2, lambda z, _: np.full_like(z, 0.5))
    assert register(linear) is attention_function("linear")
