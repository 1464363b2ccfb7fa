"""The forward pass by factors is that by whole matrices, in numpy and in torch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradine import AttentionLayer, plant
from gradine.forward import NarrowHeads, WideHeads

seeds = st.integers(0, 2**32 - 1)


def pair(seed, constant=True, out_dim=5):
    """One function twice: with narrow factors, and without any."""
    layer = plant(3, 8, 2.0, rank=2, seed=seed, out_dim=out_dim, constant=constant).factored()
    return layer, AttentionLayer(layer.theta, layer.w, constant)


@given(seeds, st.booleans(), st.integers(1, 6), st.integers(1, 9))
def test_factors_give_what_matrices_give(seed, constant, k, out_dim):
    narrow, wide = pair(seed, constant, out_dim)
    X = np.random.default_rng(seed).normal(size=(4, k, 8))
    assert isinstance(narrow._heads(narrow._tokens(X)[0]), NarrowHeads)
    assert isinstance(wide._heads(wide._tokens(X)[0]), WideHeads)
    np.testing.assert_allclose(narrow(X), wide(X), atol=1e-12)
    np.testing.assert_allclose(narrow.attention(X), wide.attention(X), atol=1e-12)
    np.testing.assert_allclose(narrow(X[0]), wide(X[0]), atol=1e-12)
    assert narrow.attention(X[0]).shape == (3, k, k)


def test_a_constant_coordinate_that_is_not_one_is_multiplied_through(rng):
    narrow, wide = pair(1)
    X = rng.normal(size=(4, 3, 9))
    np.testing.assert_allclose(narrow(X), wide(X), atol=1e-12)
    X[..., -1] = 1.0
    np.testing.assert_allclose(narrow(X), narrow(X[..., :-1]), atol=1e-14)


def test_wide_factors_are_not_used():
    layer = plant(2, 6, rank=4, seed=1).factored()
    assert layer.factors.rank == 4
    assert isinstance(layer._heads(np.ones((1, 2, 6))), WideHeads)


def test_no_examples_give_no_outputs():
    narrow, _ = pair(0)
    assert narrow(np.zeros((0, 4, 8))).shape == (0, 4, 5)


@pytest.mark.parametrize(("name", "tolerance"), [("float64", 1e-12), ("float32", 1e-5)])
def test_torch_tensors_give_torch_tensors(rng, name, tolerance):
    torch = pytest.importorskip("torch")
    narrow, wide = pair(3)
    X = rng.normal(size=(4, 5, 8))
    Y = narrow(torch.tensor(X, dtype=getattr(torch, name)))
    assert isinstance(Y, torch.Tensor) and Y.dtype == getattr(torch, name)
    np.testing.assert_allclose(Y.numpy(), wide(X), atol=tolerance)
