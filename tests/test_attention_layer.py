"""Layers of every attention function: forward, canonical form, file, comparison."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from gradine import AttentionLayer, Factors, compare, plant, sample_inputs
from gradine.attention_functions import FUNCTIONS, RELU

every = pytest.mark.parametrize("name", FUNCTIONS)
others = pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "softmax"])
both = pytest.mark.parametrize("constant", [False, True])


def tokens(n=40, dim=4):
    return sample_inputs(n, 3, dim, kind="gaussian", seed=1)


@every
@both
def test_forward_is_the_definition(name, constant):
    layer, X = plant(2, 4, 2.0, seed=0, attention=name, constant=constant), tokens()
    Z = np.concatenate([X, np.ones((*X.shape[:2], 1))], axis=2) if constant else X
    weights = FUNCTIONS[name](np.einsum("nrb,mbe,nje->nmrj", Z, layer.theta, Z))
    np.testing.assert_allclose(layer.attention(X), weights, atol=1e-13)
    expected = np.einsum("nmrj,njb,mba->nra", weights, Z, layer.w)
    np.testing.assert_allclose(layer(X), expected, atol=1e-13)


@every
def test_torch_tensors(name):
    torch = pytest.importorskip("torch")
    layer, X = plant(2, 4, 2.0, attention=name), tokens()
    np.testing.assert_allclose(layer(torch.from_numpy(X)).numpy(), layer(X), atol=1e-13)


def test_repr_names_what_is_not_softmax():
    assert repr(plant(1, 3)) == "AttentionLayer(heads=1, dim=3, out_dim=3, constant=False)"
    assert repr(plant(1, 3, attention="relu")).endswith("constant=False, attention='relu')")
    with pytest.raises(ValueError, match="attention is 'gelu'; expected one of softmax"):
        plant(1, 3, attention="gelu")
    with pytest.raises(ValueError, match="attention is 'gelu'"):
        AttentionLayer(np.zeros((1, 2, 2)), np.zeros((1, 2, 2)), attention="gelu")


@every
@both
def test_canonical_is_the_same_function_and_its_own_form(name, constant):
    layer, X = plant(3, 4, 2.0, seed=2, attention=name, constant=constant), tokens()
    twice = AttentionLayer(
        np.concatenate([layer.theta, layer.theta[:1]]),
        np.concatenate([layer.w, 0.5 * layer.w[:1]]),
        constant,
        attention=name,
    )
    form = twice.canonical()
    assert form.n_heads == 3 and form.function is layer.function
    np.testing.assert_allclose(form(X), twice(X), atol=1e-12)
    again = form.canonical()
    np.testing.assert_array_equal(again.theta, form.theta)
    np.testing.assert_array_equal(again.w, form.w)


@every
@both
def test_parameters_are_counted_as_outputs_show_them(name, constant):
    """The rank of the Jacobian of the outputs, by differences."""
    layer = plant(2, 3, 1.0, seed=3, attention=name, constant=constant, out_dim=2)
    X, h = tokens(60, 3), 1e-6
    flat = np.concatenate([layer.theta.ravel(), layer.w.ravel()])

    def outputs(numbers):
        theta, w = np.split(numbers, [layer.theta.size])
        moved = theta.reshape(layer.theta.shape), w.reshape(layer.w.shape)
        return AttentionLayer(*moved, constant, attention=name)(X).ravel()

    columns = [(outputs(flat + h * e) - outputs(flat - h * e)) / (2 * h) for e in np.eye(len(flat))]
    assert np.linalg.matrix_rank(np.array(columns), tol=1e-6) == layer.n_parameters


def test_relu_has_no_scale():
    layer = plant(2, 4, 3.0, seed=0, attention="relu")
    scale = np.array([0.2, 7.0])[:, None, None]
    same = AttentionLayer(layer.theta * scale, layer.w / scale, attention="relu")
    match = compare(same, layer)
    assert max(*match.theta_error, *match.w_error) < 1e-14
    np.testing.assert_allclose(np.linalg.norm(same.canonical().theta, axis=(1, 2)), 1.0)
    empty = AttentionLayer(np.zeros((1, 4, 4)), layer.w[:1], attention="relu")
    assert np.all(empty.canonical().w == 0.0)  # no weights, no output


@others
def test_only_softmax_hides_the_key_bias(name):
    layer, X = plant(1, 3, 2.0, attention=name, constant=True), tokens(dim=3)
    theta = layer.theta.copy()
    theta[0, 0, -1] += 1.0
    moved = AttentionLayer(theta, layer.w, True, attention=name)
    assert np.abs(moved(X) - layer(X)).max() > 1e-2
    assert compare(moved, layer).theta_error[0] > 0.01
    assert np.any(layer.canonical().theta[0, :, -1] != 0.0)


def test_polynomial_has_a_mirror_image_with_a_constant():
    layer, X = plant(2, 3, 2.0, attention="polynomial", constant=True), tokens(dim=3)
    theta = -layer.theta
    theta[:, -1, -1] -= 2.0
    mirrored = AttentionLayer(theta, layer.w, True, attention="polynomial")
    np.testing.assert_allclose(mirrored(X), layer(X), atol=1e-12)
    assert max(compare(mirrored, layer).theta_error) < 1e-14
    assert (layer.canonical().theta[:, -1, -1] >= -1.0).all()
    tie = np.zeros((1, 2, 2))
    tie[0] = [[-3.0, 0.5], [0.5, -1.0]]  # both images have -1 there
    form = AttentionLayer(tie, np.ones((1, 2, 1)), True, attention="polynomial").canonical()
    assert form.theta[0, 0, 0] == 3.0 and form.theta[0, 1, 1] == -1.0


def test_biases_of_single_heads_show_where_nothing_is_normalised():
    layer = plant(2, 3, 2.0, attention="sigmoid", constant=True)
    assert not np.allclose(layer.w[0, -1], layer.w[1, -1])
    shared = np.sort(layer.w[:, -1], axis=0)
    np.testing.assert_array_equal(np.sort(layer.canonical().w[:, -1], axis=0), shared)


@every
@both
def test_files(tmp_path, name, constant):
    path, layer = (
        tmp_path / "layer.safetensors",
        plant(2, 4, rank=1, attention=name, constant=constant),
    )
    layer.factored().save(path)
    found = AttentionLayer.load(path)
    assert found.function is layer.function and found.factors is not None
    np.testing.assert_allclose(found(tokens()), layer(tokens()), atol=1e-12)
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    # A reader that knows only softmax refuses the others, and reads softmax as ever.
    expected = ("1", None) if name == "softmax" else ("2", name)
    assert (metadata["format_version"], metadata.get("attention")) == expected


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"attention": "gelu"}, "attention is 'gelu'; expected one of softmax"),
        ({}, "attention is None; expected one of softmax"),
    ],
)
def test_files_of_unknown_functions_are_refused(tmp_path, metadata, message):
    path, layer = tmp_path / "layer.safetensors", plant(1, 3)
    ours = {"format": "gradine.layer", "format_version": "2", "constant": "false"}
    save_file({"theta": layer.theta, "w": layer.w}, path, ours | metadata)
    with pytest.raises(ValueError, match=f"layer.safetensors: {message}") as caught:
        AttentionLayer.load(path)
    assert "\n" not in str(caught.value)


@every
@both
def test_factors_compute_the_same(name, constant):
    layer = plant(2, 8, 2.0, rank=1, attention=name, constant=constant)
    factored = layer.factored()
    X = tokens(dim=8)
    assert factored.factors is not None and factored.factors.narrow
    np.testing.assert_allclose(factored(X), layer(X), atol=1e-12)
    np.testing.assert_allclose(factored.attention(X), layer.attention(X), atol=1e-12)


@others
def test_a_bias_beside_the_factors_is_weighed_like_the_values(name):
    draw = np.random.default_rng(0).standard_normal
    factors = Factors(draw((2, 9, 1)), draw((2, 9, 1)), draw((2, 9, 1)), draw((2, 1, 3)), draw(3))
    narrow = AttentionLayer.from_factors(factors, constant=True, attention=name)
    wide = AttentionLayer(narrow.theta, narrow.w, constant=True, attention=name)
    np.testing.assert_allclose(narrow(tokens(dim=8)), wide(tokens(dim=8)), atol=1e-12)


@others
def test_what_knows_softmax_alone_refuses(name):
    layer = plant(2, 4, rank=2, attention=name)
    with pytest.raises(ValueError, match=f"layer has attention '{name}'; torch has 'softmax' only"):
        layer.to_torch()
    softmax = AttentionLayer(layer.theta, layer.w)
    with pytest.raises(ValueError, match=f"learned has attention 'softmax'; expected '{name}'"):
        compare(softmax, layer)


def test_layers_with_and_without_the_constant_compare():
    plain = plant(2, 4, 2.0, attention="relu")
    theta, w = (
        np.pad(plain.theta, ((0, 0), (0, 1), (0, 1))),
        np.pad(plain.w, ((0, 0), (0, 1), (0, 0))),
    )
    lifted = AttentionLayer(theta, w, constant=True, attention="relu")
    assert lifted.function is RELU and max(compare(lifted, plain).theta_error) < 1e-14
