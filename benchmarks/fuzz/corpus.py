"""Sound files of every kind that is read, made once; each fuzzed input is one of them, spoiled."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.font_manager  # noqa: F401 (else each child looks for fonts)
import numpy as np
import zarr
from safetensors.numpy import save

import gradine
from gradine.cli import main
from gradine.engine import Engine
from gradine.engine.bookmark import Bookmark
from gradine.features.experiments import QUICK, Curve, Unit, units_of

__all__ = ["Corpus", "make_corpus", "tree"]

BOMB_BYTES = 2**26  # that a few kilobytes unpack to
HEADS, DIM, SEQ_LEN, EXAMPLES = 1, 3, 3, 400
LEARN = ["--method", "exact", "--heads", "1", "--no-report"]


def tree(folder: Path) -> dict[str, bytes]:
    """Every file under a folder, by its path in it."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@dataclass(frozen=True)
class Corpus:
    """Sound files by what they are; small, as there are as many inputs as of any."""

    arrays: dict[str, np.ndarray]  #: X and Y of a few examples
    layer: bytes
    model: dict[str, bytes]  #: a checkpoint with its configuration
    stores: dict[str, dict[str, bytes]]  #: zarr stores by version, and one in a zip file
    run: dict[str, bytes]  #: a finished run of `learn`, and one of `query`
    asked: dict[str, bytes]
    bookmark: bytes
    lines: list[dict[str, Any]]  #: trials of a map
    unit: dict[str, Any]  #: of features
    bomb: bytes
    data: Path  #: what the run learned from
    truth: Path


def make_corpus(folder: Path) -> Corpus:
    truth, data = folder / "truth.safetensors", folder / "data.npz"
    layer = gradine.plant(HEADS, DIM, 2.0, seed=1)
    layer.save(truth)
    X = gradine.sample_inputs(EXAMPLES, SEQ_LEN, DIM, seed=2)
    np.savez(data, X=X, Y=layer(X))
    run, asked = folder / "run", folder / "asked"
    assert main(["learn", str(data), "--out", str(run), *LEARN]) == 0
    assert main(["query", "--oracle", str(truth), "--out", str(asked), "--no-report"]) == 0
    few = {"X": X[:6], "Y": layer(X[:6])}
    return Corpus(
        arrays=few,
        layer=truth.read_bytes(),
        model=_model(),
        stores=_stores(folder, few),
        run=tree(run),
        asked=tree(asked),
        bookmark=_bookmark(folder),
        lines=_lines(folder),
        unit=_unit(),
        bomb=_bomb(),
        data=data,
        truth=truth,
    )


def _model() -> dict[str, bytes]:
    rng, maps = np.random.default_rng(0), ("self.query", "self.key", "self.value", "output.dense")
    tensors = {}
    for name in maps:
        start = f"bert.encoder.layer.0.attention.{name}"
        tensors[f"{start}.weight"] = rng.standard_normal((4, 4))
        tensors[f"{start}.bias"] = rng.standard_normal(4)
    shard = "model-00001-of-00001.safetensors"
    return {
        "model.safetensors": save(tensors),
        shard: save(tensors),
        "model.safetensors.index.json": json.dumps(
            {"metadata": {"size": None}, "weight_map": dict.fromkeys(tensors, shard)}
        ).encode(),
        "config.json": json.dumps(
            {"num_attention_heads": 2, "hidden_size": 4, "model_type": "bert", "x": None}
        ).encode(),
    }


def _stores(folder: Path, arrays: dict[str, np.ndarray]) -> dict[str, dict[str, bytes]]:
    stores = {}
    for version in (2, 3):
        path = folder / f"v{version}.zarr"
        group = zarr.open_group(str(path), mode="w", zarr_format=version)
        for label, array in arrays.items():
            group.create_array(label, data=array, chunks=(4, *array.shape[1:]))
        stores[f"v{version}"] = tree(path)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in stores["v3"].items():
            archive.writestr(name, content)
    return stores | {"zip": {"": packed.getvalue()}}


def _bookmark(folder: Path) -> bytes:
    mark = Bookmark(folder / "00_pass-001.safetensors", "key", list, True)
    mark._save(3, [np.arange(6.0).reshape(2, 3), np.ones(2)], ended=False)
    return mark.path.read_bytes()


def _lines(folder: Path) -> list[dict[str, Any]]:
    from gradine.atlas.axis import parse_axis
    from gradine.atlas.sweep import sweep

    axes = [parse_axis(text) for text in ("scale:1,2", "ratio:4,8")]
    fixed = {"heads": 1, "dim": 3}
    (folder / "map").mkdir()
    there = {"folder": folder / "map", "engine": Engine()}
    sweep(axes[0], axes[1], ["exact"], trials=1, fixed=fixed, **there)
    text = (folder / "map" / "trials.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def _unit() -> dict[str, Any]:
    from dataclasses import asdict

    part, model, seed = units_of(["bridge"], QUICK)[0]
    numbers = [0.5 for _ in QUICK.sizes_of(part)]
    unit = Unit(part, model, seed, {"bridge/output": Curve(numbers, numbers)}, 1.0)
    return {"setting": json.loads(json.dumps(asdict(QUICK))), "unit": unit.to_dict()}


def _bomb() -> bytes:
    """An .npz of a few kilobytes whose numbers take far more."""
    stream = io.BytesIO()
    rows = BOMB_BYTES // (8 * SEQ_LEN * DIM)
    np.savez_compressed(stream, X=np.zeros((rows, SEQ_LEN, DIM)), Y=np.zeros((rows, SEQ_LEN, 1)))
    return stream.getvalue()
