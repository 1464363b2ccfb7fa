"""The kernels do the same in numpy and in torch, and what they say."""

from __future__ import annotations

import numpy as np
import pytest

import gradine
from gradine import kernels
from gradine.examples import ArrayExamples

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 3, 4))
THETA = RNG.standard_normal((2, 4, 4))


def both(function, *arrays):
    """What numpy and torch make of the same arrays."""
    return function(*arrays), kernels.to_numpy(function(*map(torch.from_numpy, arrays)))


@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (kernels.softmax, [X]),
        (kernels.logits_of, [X, THETA]),
        (kernels.side_by_side, [THETA]),
        (lambda X, theta: kernels.features_of(X, kernels.logits_of(X, theta)), [X, THETA]),
        (lambda P, C: kernels.softmax_derivative(P, C + 0.0), [X, X]),
        (lambda A: kernels.cholesky(A @ A.T), [RNG.standard_normal((4, 4))]),
        (lambda A, B: kernels.solve_lower(kernels.cholesky(A @ A.T), B),
         [RNG.standard_normal((4, 4)), RNG.standard_normal((4, 2))]),
        (lambda A, B: kernels.solve_cholesky(kernels.cholesky(A @ A.T), B),
         [RNG.standard_normal((4, 4)), RNG.standard_normal((4, 2))]),
    ],
)  # fmt: skip
def test_libraries_agree(function, arrays):
    mine, theirs = both(function, *arrays)
    np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-10)


def test_attention_is_that_of_the_definition():
    logits = np.einsum("nrb,mbe,nje->nrmj", X, THETA, X)
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(
        kernels.softmax(kernels.logits_of(X, THETA)).reshape(weights.shape), weights
    )


def test_softmax_derivative_is_a_derivative():
    logits, change, h = RNG.standard_normal(6), RNG.standard_normal(6), 1e-6
    slope = (kernels.softmax(logits + h * change) - kernels.softmax(logits - h * change)) / (2 * h)
    weights = kernels.softmax(logits)
    np.testing.assert_allclose(kernels.softmax_derivative(weights, change.copy()), slope, atol=1e-9)


def test_matrix_that_is_not_positive_is_said():
    for matrix in (-np.eye(3), -torch.eye(3)):
        with pytest.raises(FloatingPointError, match="positive"):
            kernels.cholesky(matrix)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("constant", [False, True])
def test_layer_of_a_tensor_is_a_tensor(dtype, constant):
    layer = gradine.plant(2, 4, 2.0, seed=0, constant=constant)
    tokens = torch.from_numpy(X).to(dtype)
    Y = layer(tokens)
    assert isinstance(Y, torch.Tensor) and Y.dtype == dtype and Y.shape == (5, 3, 4)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-4
    np.testing.assert_allclose(Y.numpy(), layer(X), atol=tolerance)
    weights = layer.attention(tokens[0])
    assert isinstance(weights, torch.Tensor)
    np.testing.assert_allclose(weights.numpy(), layer.attention(X[0]), atol=tolerance)


def test_layer_of_whole_numbers_does_not_round_the_heads():
    layer = gradine.plant(2, 4, 2.0, seed=0)
    signs = gradine.sample_inputs(5, 3, 4, seed=1)
    Y = layer(torch.from_numpy(signs).to(torch.int64))
    assert Y.dtype == torch.float64
    np.testing.assert_allclose(Y.numpy(), layer(signs), atol=1e-12)
    weights = layer.attention(torch.from_numpy(signs).to(torch.int8))
    np.testing.assert_allclose(weights.numpy(), layer.attention(signs), atol=1e-12)
    with pytest.raises(ValueError, match=r"X has dtype torch.complex64; expected real numbers"):
        layer(torch.from_numpy(signs).to(torch.complex64))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int32, torch.int8])
def test_examples_of_every_number_of_torch_are_read(dtype):
    values = torch.arange(-30, 30).reshape(5, 3, 4).to(dtype)
    X, Y = ArrayExamples(values, values).block(0, 5)
    assert X.dtype == np.float64
    np.testing.assert_array_equal(X, np.arange(-30.0, 30.0).reshape(5, 3, 4))
    np.testing.assert_array_equal(X, Y)


def test_learning_from_bfloat16():
    layer = gradine.plant(1, 6, 2.0, seed=0)
    X = torch.from_numpy(gradine.sample_inputs(2000, 4, 6, seed=1)).to(torch.bfloat16)
    fit = gradine.learn(X, layer(X.double()).to(torch.bfloat16), heads=1)
    assert fit.status.code == "learned_up_to_noise"
    assert gradine.compare(fit.layer, layer).theta_error.max() < 1e-2


def test_tensors_that_are_no_arrays_are_refused():
    values = torch.ones(5, 3, 4)
    with pytest.raises(ValueError, match=r"Y is torch.sparse_coo; expected a dense tensor"):
        ArrayExamples(values, values.to_sparse())
    with pytest.raises(ValueError, match="X has dtype complex64; expected real numbers"):
        ArrayExamples(values.to(torch.complex64), values)


def test_learning_from_tensors_gives_the_layer_of_arrays():
    layer = gradine.plant(2, 6, 2.0, seed=0)
    X = gradine.sample_inputs(1500, 4, 6, seed=1)
    fit = gradine.learn(torch.from_numpy(X), layer(torch.from_numpy(X)), heads=2)
    assert fit.learned and fit.method == "exact"
    assert gradine.compare(fit.layer, layer).theta_error.max() < 1e-8
    assert isinstance(fit.layer(torch.from_numpy(X[:2])), torch.Tensor)
