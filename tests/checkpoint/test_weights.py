"""Files of weights: every float type, single files, shards and folders; hostile ones refused."""

from __future__ import annotations

import json
import os
import pickle
import struct
import warnings

import numpy as np
import pytest
from safetensors.numpy import save_file

from gradine.checkpoint.weights import find_weights

SPECIAL = [0.0, -0.0, 1.0, -2.5, 3.0e38, -1.0e-38, 1.0e-40, 1.0 / 3.0, 65504.0, 2.0**-24]


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16"])
def test_every_float_type_is_read_exactly(tmp_path, name):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file as save_torch

    generator = torch.Generator().manual_seed(0)
    numbers = torch.randn((7, 5), generator=generator, dtype=torch.float64)
    special = torch.tensor(SPECIAL, dtype=torch.float64)
    special = special[special.abs() <= torch.finfo(getattr(torch, name)).max]
    tensors = {
        "first": numbers.to(getattr(torch, name)),
        "odd": torch.arange(3, dtype=torch.int8),
        "special": special.to(getattr(torch, name)),
    }
    save_torch(tensors, tmp_path / "model.safetensors")
    weights = find_weights(tmp_path)
    for key in ("first", "special"):
        assert weights.check(key) == tuple(tensors[key].shape)
        read = weights.read(key)
        assert read.dtype == np.float64
        np.testing.assert_array_equal(read, tensors[key].double().numpy())
        np.testing.assert_array_equal(np.signbit(read), torch.signbit(tensors[key]).numpy())


@pytest.mark.parametrize("pattern", [0x7F80, 0xFF80, 0x7FC0, 0x7F81])
def test_bfloat16_that_is_no_number_is_refused(tmp_path, pattern):
    write_raw(tmp_path / "model.safetensors", "BF16", [2, 1], struct.pack("<HH", 0x3F80, pattern))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # one line, and no warning before it
        with pytest.raises(ValueError, match=r"model\.safetensors: x has NaN or infinite"):
            find_weights(tmp_path).read("x")


def write_raw(path, dtype, shape, data, offsets=None, name="x"):
    """A safetensors file whose header says what it likes."""
    entry = {"dtype": dtype, "shape": shape, "data_offsets": offsets or [0, len(data)]}
    header = json.dumps({name: entry}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


@pytest.mark.parametrize(
    ("dtype", "shape", "size", "offsets"),
    [
        ("F32", [100], 4, None),
        ("BF16", [100], 4, None),
        ("F32", [2**40, 2**40], 4, None),
        ("F32", [2**63, 2], 4, None),
        ("F32", [1], 4, [0, 4000]),
        ("F32", [1], 8, [4, 8]),
        ("F32", [-1], 4, None),
        ("F99", [1], 4, None),
    ],
)
def test_headers_that_lie_are_refused(tmp_path, dtype, shape, size, offsets):
    path = tmp_path / "model.safetensors"
    write_raw(path, dtype, shape, b"\0" * size, offsets)
    with pytest.raises(ValueError, match=r"model\.safetensors: not a safetensors file, or damaged"):
        find_weights(path)


def test_truncated_files_are_refused_at_every_length(tmp_path):
    path = tmp_path / "model.safetensors"
    write_raw(path, "BF16", [4, 5], bytes(range(40)))
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(ValueError, match=r"model\.safetensors: not a safetensors file") as why:
            find_weights(path)
        assert "\n" not in str(why.value)


def test_a_file_that_changes_after_it_was_checked(tmp_path, monkeypatch):
    from gradine.checkpoint import weights as module

    path = tmp_path / "model.safetensors"
    write_raw(path, "BF16", [4, 5], bytes(range(40)))
    weights = find_weights(path)
    original = module._read_bfloat16

    def cut_first(file, *arguments):
        os.truncate(file, os.path.getsize(file) - 2)
        return original(file, *arguments)

    monkeypatch.setattr(module, "_read_bfloat16", cut_first)
    with pytest.raises(ValueError, match=r"model\.safetensors: x is cut short"):
        weights.read("x")


@pytest.mark.parametrize("suffix", [".bin", ".pt", ".pth", ".ckpt", ".pkl"])
def test_pickle_is_never_read(tmp_path, suffix):
    class Bomb:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "exploded"),))

    path = tmp_path / f"model{suffix}"
    path.write_bytes(pickle.dumps(Bomb()))
    for where in (path, tmp_path):
        with pytest.raises(ValueError, match=rf"model\{suffix}: pickle can run code"):
            find_weights(where)
    disguised = path.rename(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="not a safetensors file"):
        find_weights(disguised)
    assert not (tmp_path / "exploded").exists()


def test_what_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere: no such file"):
        find_weights(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"holds neither model\.safetensors nor model"):
        find_weights(tmp_path)
    save_file({"x": np.ones(2)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"model\.safetensors: has no tensor y"):
        find_weights(tmp_path).check("y")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_what_is_no_file_is_not_waited_for(tmp_path):
    for name in ("pipe.safetensors", "pipe.json"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(ValueError, match=f"{name}: not a file"):
            find_weights(tmp_path / name)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([], "holds a list; expected a JSON object"),
        ({}, "has no weight_map"),
        ({"weight_map": ["a"]}, "has no weight_map"),
        ({"weight_map": {"x": "../model.safetensors"}}, "names the file '../model.safetensors'"),
        ({"weight_map": {"x": "/etc/model.safetensors"}}, "names the file '/etc"),
        ({"weight_map": {"x": "a\\b.safetensors"}}, "names the file"),
        ({"weight_map": {"x": "model.bin"}}, "names the file 'model.bin'"),
        ({"weight_map": {"x": 3}}, "names the file 3"),
        ({"weight_map": {"x": None}}, "names the file None"),
    ],
)
def test_an_index_leads_nowhere_but_beside_it(tmp_path, index, message):
    save_file({"x": np.ones(2)}, tmp_path / "model.safetensors")
    folder = tmp_path / "sub"
    folder.mkdir()
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps(index))
    with pytest.raises(ValueError, match=r"model\.safetensors\.index\.json: ") as caught:
        find_weights(path)
    assert message in str(caught.value).replace("\\\\", "\\")


def test_shards_that_are_missing_or_lack_their_tensor(tmp_path):
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"x": "one.safetensors", "y": "two.safetensors"}}))
    save_file({"z": np.ones(2)}, tmp_path / "one.safetensors")
    weights = find_weights(tmp_path)
    with pytest.raises(ValueError, match=r"one\.safetensors: has no tensor x, though model\."):
        weights.check("x")
    with pytest.raises(FileNotFoundError, match=r"two\.safetensors: no such file"):
        weights.check("y")


def test_a_huge_index_is_not_read(tmp_path):
    path = tmp_path / "model.safetensors.index.json"
    with path.open("wb") as file:
        file.truncate(2**30)  # a hole: it takes no space
    with pytest.raises(ValueError, match="is larger than 64 MiB"):
        find_weights(path)
