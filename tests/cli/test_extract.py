"""Extracting a layer: the file that the library would write, or one line and no file."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from gradine import AttentionLayer


@pytest.fixture
def model(tmp_path, rng):
    """A model of two layers of three heads in twelve coordinates, as a folder."""
    folder = tmp_path / "model"
    folder.mkdir()
    tensors = {}
    for layer in (0, 1):
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            start = f"bert.encoder.layer.{layer}.attention.{name}"
            tensors[f"{start}.weight"] = rng.normal(size=(12, 12)).astype(np.float32)
            tensors[f"{start}.bias"] = rng.normal(size=12).astype(np.float32)
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"num_attention_heads": 3}))
    return folder


@pytest.mark.parametrize("name", ["model.safetensors", ""])
def test_extract_writes_the_layer_of_the_library(cli, model, tmp_path, name):
    out = tmp_path / "layer.safetensors"
    answer = cli("extract", model / name, "--layer", 1, "--out", out)
    assert answer.code == 0 and answer.err == ""
    truth = AttentionLayer.from_checkpoint(model, 1)
    assert answer.out == f"extracted {truth!r} from bert.encoder.layer.1.attention in {out}\n"
    layer = AttentionLayer.load(out)
    np.testing.assert_array_equal(layer.theta, truth.theta)
    np.testing.assert_array_equal(layer.w, truth.w)
    np.testing.assert_array_equal(layer.factors.queries, truth.factors.queries)
    assert cli("compare", out, out, "--json").json["function_error"] == 0.0


def test_extract_as_json(real_cli, model, tmp_path):
    out = tmp_path / "layer.safetensors"
    (model / "config.json").write_text(json.dumps({"position_embedding_type": "relative_key"}))
    options = ("--layer", 0, "--out", out, "--heads", 2, "--prefix", "bert", "--json")
    answer = real_cli("extract", model, *options)
    assert answer.code == 0
    left_out = "positions of type 'relative_key', by config.json"
    assert answer.err == f"left out: {left_out}\n"
    assert answer.json == {
        "layer": 0,
        "layers": 2,
        "heads": 2,
        "dim": 12,
        "rank": 6,
        "constant": True,
        "family": "BERT",
        "name": "bert.encoder.layer.0.attention",
        "left_out": [left_out],
        "out": str(out),
    }
    assert AttentionLayer.load(out).n_heads == 2


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--layer", 2), "layer is 2; expected 0 to 1: the model has 2 layers"),
        (("--layer", -1), "layer is -1"),
        (("--layer", "first"), "'--layer'"),
        (("--heads", 5), "heads is 5; expected 3"),
        (("--prefix", "roberta"), "prefix is 'roberta'"),
    ],
)
def test_extract_refuses(cli, model, tmp_path, options, complaint):
    out = tmp_path / "layer.safetensors"
    answer = cli("extract", model, "--layer", 0, *options, "--out", out)
    assert answer.code == 2 and answer.out == ""
    assert complaint in answer.error_line
    assert not out.exists()


def test_extract_from_what_is_no_model(cli, real_cli, told, tmp_path):
    usual = ("--layer", 0, "--out", tmp_path / "layer.safetensors", "--json")
    answer = real_cli("extract", tmp_path / "none.safetensors", *usual)
    assert answer.code == 2 and "none.safetensors: no such file" in answer.error_line
    assert "has no attention layer named" in cli("extract", told.truth, *usual).error_line
    assert "not a safetensors file" in cli("extract", told.data, *usual).error_line
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    assert "pickle can run code" in cli("extract", tmp_path, *usual).error_line
    assert [path.name for path in tmp_path.iterdir()] == ["pytorch_model.bin"]


def test_extract_does_not_replace_the_model(cli, model):
    before = (model / "model.safetensors").read_bytes()
    answer = cli("extract", model, "--layer", 0, "--out", model / "model.safetensors")
    assert answer.code == 2 and "is a file of the model; choose another" in answer.error_line
    assert (model / "model.safetensors").read_bytes() == before
