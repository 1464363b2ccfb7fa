"""Layer files: what was saved comes back; anything else is refused in one clear line."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save_file

from gradine.layer import AttentionLayer

OURS = {"format": "gradine.layer", "format_version": "1", "constant": "false"}
THETA, W = np.zeros((2, 3, 3)), np.ones((2, 3, 1))


def test_saved_layers_come_back_to_the_bit(layer, biased_layer, tmp_path):
    for original in (layer, biased_layer):
        original.save(tmp_path / "layer.safetensors")
        loaded = AttentionLayer.load(tmp_path / "layer.safetensors")
        np.testing.assert_array_equal(loaded.theta, original.theta)
        np.testing.assert_array_equal(loaded.w, original.w)
        assert loaded.constant == original.constant


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
        ({"theta": THETA, "w": W}, {**OURS, "format_version": "2"}, "version '2'; expected '1'"),
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
