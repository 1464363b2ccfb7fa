"""Layer files: what was saved comes back; anything else is refused in one clear line."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from gradine import Factors, plant
from gradine.layer import AttentionLayer

OURS = {"format": "gradine.layer", "format_version": "1", "constant": "false"}
THETA, W = np.zeros((2, 3, 3)), np.ones((2, 3, 1))


@pytest.mark.parametrize("given", [None, b"a.safetensors", ""])
def test_what_is_no_path_is_refused(given):
    with pytest.raises(ValueError, match=f"path is {given!r}; expected a gradine layer file"):
        AttentionLayer.load(given)


def test_saved_layers_come_back_to_the_bit(layer, biased_layer, tmp_path):
    for original in (layer, biased_layer):
        original.save(tmp_path / "layer.safetensors")
        loaded = AttentionLayer.load(tmp_path / "layer.safetensors")
        np.testing.assert_array_equal(loaded.theta, original.theta)
        np.testing.assert_array_equal(loaded.w, original.w)
        assert loaded.constant == original.constant


@pytest.mark.parametrize("constant", [True, False])
def test_factors_come_back_to_the_bit(constant, tmp_path):
    path = tmp_path / "layer.safetensors"
    original = plant(3, 6, rank=2, seed=1, out_dim=4, constant=constant).factored()
    original.save(path)
    loaded = AttentionLayer.load(path)
    for name in ("queries", "keys", "values", "outputs", "bias"):
        np.testing.assert_array_equal(
            getattr(loaded.factors, name), getattr(original.factors, name)
        )
    assert (loaded.factors.bias is not None) == constant
    np.testing.assert_array_equal(loaded.theta, original.theta)
    np.testing.assert_array_equal(loaded.w, original.w)


def test_a_layer_without_factors_is_the_file_it_always_was(layer, tmp_path):
    """Version 1 from before there were factors: theta and w, nothing else."""
    path, plain = tmp_path / "layer.safetensors", tmp_path / "plain.safetensors"
    layer.save(path)
    save_file({"theta": layer.theta.copy(), "w": layer.w.copy()}, plain, OURS)
    assert len(path.read_bytes()) == len(plain.read_bytes())
    with safe_open(path, framework="numpy") as file:
        assert (sorted(file.keys()), file.metadata()) == (["theta", "w"], OURS)
    assert AttentionLayer.load(plain).factors is None


def test_notes_are_carried_and_change_nothing_else(layer, tmp_path):
    path = tmp_path / "layer.safetensors"
    layer.save(path, notes={"hard": "parity", "format_version": "9"})
    with safe_open(path, framework="numpy") as file:
        assert file.metadata() == {**OURS, "hard": "parity"}
    np.testing.assert_array_equal(AttentionLayer.load(path).theta, layer.theta)


FACTORED = AttentionLayer.from_factors(
    Factors(THETA[:, :, :1] + 1, W, W, np.ones((2, 1, 2)), bias=np.ones(2)), constant=True
)
TENSORS = {
    name: getattr(source, name).copy()
    for source, names in (
        (FACTORED, ("theta", "w")),
        (FACTORED.factors, ("queries", "keys", "values", "outputs", "bias")),
    )
    for name in names
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keys": None}, r"holds \['bias', 'outputs', .*expected \['theta', 'w'\], or these with"),
        ({"extra": W}, "holds"),
        ({"queries": TENSORS["queries"].astype(np.float32)}, "queries has dtype F32; expected F64"),
        ({"theta": TENSORS["theta"].astype(np.float32)}, "theta has dtype F32; expected F64"),
        ({"bias": np.ones((1, 2))}, r"bias has shape \[1, 2\]; expected one axis"),
        ({"bias": np.ones(3)}, r"bias has shape \(3,\); expected \(2,\)"),
        ({"values": np.ones((2, 4, 1))}, "values has shape"),
        ({"values": np.zeros((2, 3, 0))}, "values has shape"),
        ({"outputs": np.full((2, 1, 2), np.nan)}, "outputs has NaN"),
        ({"keys": 2 * TENSORS["keys"]}, "factors of head 0 give another theta"),
        ({"bias": np.zeros(2)}, "factors of head 0 give another w"),
        ({"bias": None}, "factors of head 0 give another w"),
    ],
)
def test_factors_that_are_not_those_of_the_heads_are_refused(tmp_path, changes, message):
    path = tmp_path / "layer.safetensors"
    tensors = {name: array for name, array in (TENSORS | changes).items() if array is not None}
    save_file(tensors, path, OURS | {"constant": "true"})
    with pytest.raises(ValueError, match=rf"layer\.safetensors: {message}"):
        AttentionLayer.load(path)
    save_file(TENSORS, path, OURS | {"constant": "true"})
    assert AttentionLayer.load(path).factors is not None


def test_a_bias_needs_a_constant_coordinate(tmp_path):
    save_file(TENSORS, tmp_path / "layer.safetensors", OURS)
    with pytest.raises(ValueError, match="factors have a bias but constant is not set"):
        AttentionLayer.load(tmp_path / "layer.safetensors")


def test_single_precision_files_are_read(tmp_path):
    path = tmp_path / "layer.safetensors"
    save_file({"theta": THETA.astype(np.float32), "w": W.astype(np.float32)}, path, OURS)
    assert AttentionLayer.load(path).w.dtype == np.float64


def test_truncated_files_are_refused_at_every_length(layer, tmp_path):
    whole, cut = tmp_path / "whole.safetensors", tmp_path / "cut.safetensors"
    layer.save(whole)
    data = whole.read_bytes()
    for length in [*range(0, 320, 7), *range(320, len(data), 97), len(data) - 1]:
        cut.write_bytes(data[:length])
        with pytest.raises(ValueError, match=r"cut\.safetensors: ") as caught:
            AttentionLayer.load(cut)
        assert "\n" not in str(caught.value)


def test_flipped_header_bytes_never_crash(layer, tmp_path):
    path = tmp_path / "layer.safetensors"
    layer.save(path)
    data = path.read_bytes()
    refused = 0
    for position in range(200):
        damaged = bytearray(data)
        damaged[position] ^= 0x15
        path.write_bytes(damaged)
        try:
            AttentionLayer.load(path)
        except ValueError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused > 150


@pytest.mark.parametrize(
    ("tensors", "metadata", "message"),
    [
        ({"theta": THETA, "w": W}, None, "not a gradine layer file"),
        ({"theta": THETA, "w": W}, {**OURS, "format": "other"}, "not a gradine layer file"),
        ({"theta": THETA, "w": W}, {**OURS, "format_version": "3"}, "version '3'; expected '1'"),
        ({"theta": THETA, "w": W}, {**OURS, "constant": "maybe"}, "constant is 'maybe'"),
        ({"theta": THETA}, OURS, r"holds \['theta'\]"),
        ({"theta": THETA, "w": W, "b": W}, OURS, "holds"),
        ({"theta": THETA.astype(np.int64), "w": W}, OURS, "theta has dtype I64"),
        ({"theta": THETA, "w": W[0]}, OURS, "w has shape"),
        ({"theta": THETA, "w": W[:1]}, OURS, "w has shape"),
        ({"theta": THETA, "w": W * np.nan}, OURS, "w has NaN"),
    ],
)
def test_files_of_another_kind_are_refused(tmp_path, tensors, metadata, message):
    path = tmp_path / "layer.safetensors"
    save_file(tensors, path, metadata)
    with pytest.raises(ValueError, match=rf"layer\.safetensors: .*{message}"):
        AttentionLayer.load(path)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        AttentionLayer.load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="not a file"):
        AttentionLayer.load(tmp_path)
