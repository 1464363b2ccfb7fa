"""One family of inputs for every kind of file that is read, and who reads it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import gradine
from benchmarks.fuzz.corpus import Corpus
from benchmarks.fuzz.mutate import (
    forged,
    json_bytes,
    npy_bytes,
    npz_bytes,
    safetensors_bytes,
    spoiled,
)
from gradine.atlas.store import TRIALS, TrialStore
from gradine.checkpoint import read_checkpoint
from gradine.cli import features
from gradine.cli.run import read_shown
from gradine.engine.bookmark import Bookmark
from gradine.exact import results
from gradine.examples import open_examples
from gradine.features.experiments import QUICK, units_of
from gradine.lines import JsonLines
from gradine.queries.asking.log import LoggedAnswers
from gradine.records import load_record
from gradine.runs import read_result

__all__ = ["FAMILIES", "Case", "Family"]

BLOCKS = 50  # of a source that are read, at most
LONG = 240  # characters of a name that is still allowed


@dataclass(frozen=True)
class Case:
    """One input: reading it, or a command that does."""

    read: Callable[[], Any] | None = None
    command: list[str] | None = None
    judge: Callable[[], str | None] | None = None  #: why what was learned is wrong, if it was


Family = Callable[[Random, Corpus, Path], Case]


def _name(rng: Random, usual: str) -> str:
    """The usual name, or one that is long, or not of this alphabet."""
    if rng.random() < 0.95:
        return usual
    stem, _, suffix = usual.rpartition(".")
    return rng.choice(("é ", "\u202e", "x" * (LONG - len(usual)), "'\"", "-", "\udcff", "\n")) + (
        f"{stem}.{suffix}"
    )


def _blocks(path: Path) -> None:
    examples = open_examples(path)
    size = max(1, -(-examples.n // BLOCKS))
    for start in range(0, min(examples.n, BLOCKS * size), size):
        examples.block(start, min(start + size, examples.n))


def _read_or(rng: Random, share: float, read: Callable[[], Any], command: list[str]) -> Case:
    return Case(command=command) if rng.random() < share else Case(read)


def npz(rng: Random, corpus: Corpus, folder: Path) -> Case:
    path = folder / _name(rng, "data.npz")
    path.write_bytes(npz_bytes(rng, corpus.arrays, corpus.bomb))
    return _read_or(rng, 0.1, lambda: _blocks(path), ["check", str(path)])


def npy(rng: Random, corpus: Corpus, folder: Path) -> Case:
    path = folder / _name(rng, "data.d")
    path.mkdir()
    for label, array in corpus.arrays.items():
        (path / f"{label}.npy").write_bytes(npy_bytes(rng, array))
    return _read_or(rng, 0.1, lambda: _blocks(path), ["check", str(path)])


def example(rng: Random, corpus: Corpus, folder: Path) -> Case:
    path = folder / _name(rng, "tokens.npy")
    path.write_bytes(npy_bytes(rng, corpus.arrays["X"][0]))
    return Case(lambda: read_shown(path, None))


def layer(rng: Random, corpus: Corpus, folder: Path) -> Case:
    path = folder / _name(rng, "layer.safetensors")
    path.write_bytes(safetensors_bytes(rng, corpus.layer))
    command = ["compare", str(path), str(corpus.truth)]
    return _read_or(rng, 0.1, lambda: gradine.AttentionLayer.load(path), command)


def checkpoint(rng: Random, corpus: Corpus, folder: Path) -> Case:
    files = dict(corpus.model)
    if rng.random() < 0.5:
        del files["model.safetensors"]  # the index is read
    name = rng.choice(list(files))
    spoil = json_bytes_of if name.endswith(".json") else safetensors_bytes
    files[name] = spoil(rng, files[name])
    for name, content in files.items():
        (folder / name).write_bytes(content)
    command = [
        "extract",
        str(folder),
        "--layer",
        "0",
        "--out",
        str(folder / "out" / "l.safetensors"),
    ]
    return _read_or(rng, 0.1, lambda: read_checkpoint(folder, 0).factors(), command)


def json_bytes_of(rng: Random, data: bytes) -> bytes:
    return json_bytes(rng, json.loads(data))


def store(rng: Random, corpus: Corpus, folder: Path) -> Case:
    kind = rng.choice(list(corpus.stores))
    path = folder / _name(rng, "data.zip" if kind == "zip" else "data.zarr")
    files = dict(corpus.stores[kind])
    name = rng.choice([*files, *(name for name in files if "z" in name.rpartition("/")[2])])
    described = name.rpartition("/")[2].startswith((".z", "zarr.json"))
    files[name] = (json_bytes_of if described and rng.random() < 0.7 else spoiled)(rng, files[name])
    for name, content in files.items():
        target = path / name if name else path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return _read_or(rng, 0.1, lambda: _blocks(path), ["check", str(path)])


def result(rng: Random, corpus: Corpus, folder: Path) -> Case:
    (folder / "result.json").write_bytes(json_bytes_of(rng, corpus.run["result.json"]))
    return Case(lambda: read_result(folder))


def record(rng: Random, corpus: Corpus, folder: Path) -> Case:
    name = rng.choice([name for name in corpus.run if name.startswith("phases/")])
    path = folder / "01_phase.safetensors"
    path.write_bytes(rng.choice((forged, safetensors_bytes))(rng, corpus.run[name]))
    kind = rng.choice((results.HeadFit, results.Spectrum, results.Identified, LoggedAnswers))
    return Case(lambda: load_record(path, kind, _run_of(path)))


def _run_of(path: Path) -> str:
    """The fingerprint that a record claims: one who forges it knows that of the run."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            return (file.metadata() or {}).get("run", "")
    except SafetensorError:
        return ""


def bookmark(rng: Random, corpus: Corpus, folder: Path) -> Case:
    path = folder / "00_pass-001.safetensors"
    path.write_bytes(rng.choice((forged, safetensors_bytes))(rng, corpus.bookmark))
    return Case(lambda: Bookmark(path, "key", list, True).load(5))


def lines(rng: Random, corpus: Corpus, folder: Path) -> Case:
    path = folder / TRIALS
    records = [json_bytes(rng, record) for record in corpus.lines]
    data = rng.choice((b"\n", b"\r\n", b"\n\n", b"")).join(records)
    path.write_bytes(data if rng.random() < 0.5 else spoiled(rng, data))
    if rng.random() < 0.5:
        return Case(lambda: JsonLines(path).read())
    return Case(lambda: TrialStore(folder, resume=True))


def unit(rng: Random, corpus: Corpus, folder: Path) -> Case:
    key = units_of(["bridge"], QUICK)[0]
    held = features._Held(folder, QUICK, True, False)
    (folder / features.UNITS).mkdir()
    held.path(*key).write_bytes(json_bytes(rng, corpus.unit))
    return Case(lambda: held.get(*key))


def special(rng: Random, corpus: Corpus, folder: Path) -> Case:
    """Not a plain file where one is expected: pipes, devices, loops, folders, links elsewhere."""
    path = folder / rng.choice(("X.npy", "a.npz", "a.safetensors", "result.json", "a.zip", TRIALS))
    how = rng.randrange(6)
    if how == 0:
        os.mkfifo(path)
    elif how == 5:
        path.mkdir()
    else:
        targets = ("/dev/zero", path.name, "/etc/passwd", "/dev/null")
        path.symlink_to(targets[how - 1])
    np.save(folder / "Y.npy", corpus.arrays["Y"])
    readers: list[Callable[[], Any]] = [
        lambda: _blocks(path),
        lambda: _blocks(folder),
        lambda: gradine.AttentionLayer.load(path),
        lambda: read_result(folder),
        lambda: read_checkpoint(path, 0),
        lambda: JsonLines(path).read(),
        lambda: read_shown(path, None),
        lambda: load_record(path, results.HeadFit, ""),
    ]
    return Case(rng.choice(readers))


#: Families with how many of a thousand inputs are theirs.
FAMILIES: dict[str, tuple[int, Family]] = {
    "npz": (190, npz),
    "npy folder": (110, npy),
    "example npy": (50, example),
    "layer": (120, layer),
    "checkpoint": (100, checkpoint),
    "zarr store": (60, store),
    "result.json": (40, result),
    "phase record": (70, record),
    "pass bookmark": (40, bookmark),
    "JSON lines": (50, lines),
    "features unit": (40, unit),
    "special file": (30, special),
}
