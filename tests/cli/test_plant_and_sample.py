"""Planting and sampling: files that are what the library makes, whole or not at all."""

from __future__ import annotations

import numpy as np
import pytest

from gradine import AttentionLayer, open_examples, plant, sample_inputs
from gradine.cli import sampled

PLANT = ("plant", "--heads", 2, "--dim", 5, "--scale", 3)


def test_plant_writes_the_layer_of_the_library(cli, tmp_path):
    out = tmp_path / "layer.safetensors"
    options = ("--rank", 2, "--out-dim", 4, "--constant", "--seed", 7, "--out", out)
    answer = cli(*PLANT, *options)
    assert answer.code == 0 and str(out) in answer.out
    truth = plant(2, 5, 3.0, rank=2, seed=7, out_dim=4, constant=True)
    layer = AttentionLayer.load(out)
    assert layer.constant
    np.testing.assert_array_equal(layer.theta, truth.theta)
    np.testing.assert_array_equal(layer.w, truth.w)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--scale", "nan"), "scale is nan"),
        (("--scale", "-1"), "scale is -1"),
        (("--scale", "inf"), "scale is inf"),
        (("--scale", "wide"), "'--scale'"),
        (("--heads", 0), "heads is 0"),
        (("--heads", "two"), "'--heads'"),
        (("--dim", 0), "dim is 0"),
        (("--dim", 10**30), "dim is 1000"),
        (("--dim", 10**7), "memory"),
        (("--rank", 6), "rank is 6"),
        (("--out-dim", 0), "out_dim is 0"),
        (("--seed", -1), "'--seed'"),
    ],
)
def test_plant_refuses(cli, tmp_path, options, complaint):
    answer = cli(*PLANT, *options, "--out", tmp_path / "layer.safetensors")
    assert answer.code == 2 and answer.out == ""
    assert complaint in answer.error_line
    assert list(tmp_path.iterdir()) == []


def test_plant_where_nothing_can_be_written(cli, tmp_path):
    (tmp_path / "file").touch()
    answer = cli(*PLANT, "--out", tmp_path / "file" / "layer.safetensors")
    assert answer.code == 2
    assert "cannot write" in answer.error_line and "layer.safetensors" in answer.error_line


@pytest.mark.parametrize("kind", ["boolean", "gaussian"])
@pytest.mark.parametrize("name", ["data.npz", "data"])
def test_sample_gives_what_the_library_gives_whatever_the_blocks(
    cli, tmp_path, monkeypatch, kind, name
):
    layer = plant(2, 5, 3.0, seed=1, out_dim=3, constant=True)
    layer.save(tmp_path / "layer.safetensors")
    monkeypatch.setattr(sampled, "BLOCK_NUMBERS", 1000)
    out = tmp_path / name
    options = ("--examples", 203, "--seq-len", 3, "--inputs", kind, "--seed", 9, "--out", out)
    answer = cli("sample", tmp_path / "layer.safetensors", *options)
    assert answer.code == 0 and str(out) in answer.out
    X, Y = open_examples(out).block(0, 203)
    np.testing.assert_array_equal(X, sample_inputs(203, 3, 5, kind, 9))
    np.testing.assert_allclose(Y, layer(X), rtol=1e-13, atol=1e-14)
    assert {path.name for path in tmp_path.iterdir()} == {"layer.safetensors", name}


def test_numpy_reads_the_archive_and_the_same_seed_gives_the_same_bytes(cli, told, tmp_path):
    again = tmp_path / "again.npz"
    options = ("--examples", 8000, "--seq-len", 3, "--seed", 2, "--out", again)
    assert cli("sample", told.truth, *options).code == 0
    assert again.read_bytes() == told.data.read_bytes()
    with np.load(again) as data:
        assert data["X"].dtype == data["Y"].dtype == np.float64
        assert data["X"].shape == data["Y"].shape == (8000, 3, 6)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--examples", 0), "examples is 0"),
        (("--examples", "many"), "'--examples'"),
        (("--seq-len", 1), "seq_len is 1"),
        (("--inputs", "uniform"), "'--inputs'"),
        (("--examples", 10**15), "GB"),
    ],
)
@pytest.mark.parametrize("name", ["data.npz", "data"])
def test_sample_refuses(cli, told, tmp_path, options, complaint, name):
    usual = ("--examples", 10, "--seq-len", 3, "--out", tmp_path / name)
    answer = cli("sample", told.truth, *usual, *options)
    assert answer.code == 2 and answer.out == ""
    assert complaint in answer.error_line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("out", ["file/data.npz", "file/data", "nowhere/data.npz"])
def test_sample_where_nothing_can_be_written(cli, told, tmp_path, out):
    (tmp_path / "file").touch()
    answer = cli("sample", told.truth, "--examples", 10, "--seq-len", 3, "--out", tmp_path / out)
    assert answer.code == 2 and out in answer.error_line
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_sample_from_what_is_no_layer(cli, told, tmp_path):
    usual = ("--examples", 10, "--seq-len", 3, "--out", tmp_path / "data.npz")
    for path in (told.data, told.run / "phases" / told.records[0]):
        answer = cli("sample", path, *usual)
        assert answer.code == 2
        assert f"{path}: not a gradine layer file" in answer.error_line
    assert "missing: no such file" in cli("sample", tmp_path / "missing", *usual).error_line
    assert list(tmp_path.iterdir()) == []
