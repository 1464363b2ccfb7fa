"""Torch modules that are asked, and callables that take tensors."""

from __future__ import annotations

import numpy as np
import pytest

from gradine import plant
from gradine.queries import OracleConfig, as_oracle

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_self_attention(batch_first, dtype, rng):
    layer = plant(heads=2, dim=6, rank=2, seed=1, constant=True)
    kind = getattr(torch, dtype)
    module = layer.to_torch(batch_first=batch_first, dtype=kind).train()
    module.dropout = 0.5  # does nothing in eval mode
    module.out_proj.eval()
    oracle = as_oracle(module)
    assert (oracle.dim, oracle.out_dim) == (6, 6)
    X = rng.standard_normal((7, 4, 6))
    Y = oracle.ask(X)
    np.testing.assert_allclose(Y, layer(X), atol=1e-13 if dtype == "float64" else 1e-5)
    if dtype == "float32":
        assert np.array_equal(Y, Y.astype(np.float32))
    assert module.training and not module.out_proj.training  # as it was
    assert all(parameter.grad is None for parameter in module.parameters())


def test_any_module(rng):
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh()).half()
    X = rng.standard_normal((5, 2, 4))
    oracle = as_oracle(module, dim=4)
    Y = oracle.ask(X)
    assert Y.dtype == np.float64 and oracle.out_dim == 3
    expected = module(torch.tensor(X).half()).detach().double().numpy()
    np.testing.assert_array_equal(Y, expected)
    with pytest.raises(ValueError, match="Sequential: dim is not given"):
        as_oracle(module)


def test_a_module_without_weights_computes_in_double(questions):
    np.testing.assert_array_equal(as_oracle(torch.nn.Identity(), dim=5).ask(questions), questions)


def test_modules_that_cannot_be_asked():
    other = torch.nn.MultiheadAttention(6, 2, kdim=3, vdim=3)
    with pytest.raises(ValueError, match="module has kdim 3 and vdim 3; expected 6"):
        as_oracle(other)
    empty = torch.nn.Linear(3, 3, device="meta")
    with pytest.raises(ValueError, match="Linear is on the meta device"):
        as_oracle(empty, dim=3)


@pytest.mark.parametrize("one_at_a_time", [False, True])
def test_a_callable_that_takes_tensors(layer, questions, one_at_a_time):
    seen = set()

    def source(tokens):
        seen.add((tokens.dtype, tokens.ndim))
        return layer(tokens)

    config = OracleConfig(tensors="float32", one_at_a_time=one_at_a_time)
    Y = as_oracle(source, dim=5, config=config).ask(questions)
    assert seen == {(torch.float32, 2 if one_at_a_time else 3)}
    np.testing.assert_allclose(Y, layer(questions), atol=1e-5)
    assert np.array_equal(Y, Y.astype(np.float32))


def test_bfloat16_answers_are_read(questions):
    module = torch.nn.Linear(5, 2).bfloat16()
    assert np.isfinite(as_oracle(module, dim=5).ask(questions)).all()
