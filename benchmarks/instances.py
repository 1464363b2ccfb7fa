"""The instances that are measured, and what is asked of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import gradine
from gradine.examples import ArrayExamples, Examples, open_examples
from gradine.inputs import InputKind

__all__ = ["ROWS", "Row", "Targets", "examples_of", "seeds_of", "truth_of", "write_examples"]

IN_MEMORY = 300_000  # examples; more are written to a folder and read in blocks
BLOCK = 50_000
#: Inputs are drawn from another stream than the layer they are fed to.
INPUT_SEED = 5000


@dataclass(frozen=True)
class Targets:
    """What a row has to reach."""

    theorem: float  #: function error of phase 6's answer, before any polish
    successes: float  #: share of the seeds that must succeed
    refined: float = 20.0  #: how many times nearer the refined sum is than the crude one
    theta: float = 1e-8  #: relative error of every attention matrix of a layer called learned


@dataclass(frozen=True)
class Row:
    """One line of the table: Gaussian Theta of norm ``scale``, W entries of variance 1/dim."""

    heads: int
    seq_len: int
    dim: int
    scale: float
    examples: tuple[int, ...]  #: numbers to try, one after another, until the theorem has enough
    seeds: int
    targets: Targets | None
    gaussian: bool = True  #: measured with Gaussian inputs too
    enough: float = 0.3  #: function error of phase 6 at which no more examples are tried

    @property
    def name(self) -> str:
        return f"m{self.heads}-k{self.seq_len}-d{self.dim}-s{self.scale:g}"


ROWS = (
    Row(1, 4, 16, 3.0, (20_000,), 20, Targets(theorem=0.05, successes=1.0)),
    Row(2, 3, 10, 4.0, (40_000,), 20, Targets(theorem=0.1, successes=0.95)),
    Row(2, 4, 16, 3.0, (60_000,), 20, Targets(theorem=0.1, successes=0.95)),
    Row(3, 3, 12, 4.0, (150_000,), 10, Targets(theorem=0.3, successes=0.9), gaussian=False),
    # Nobody has promised four heads: the row says how many examples they take.
    Row(4, 3, 12, 4.0, (600_000, 2_400_000), 3, None, gaussian=False),
)


def seeds_of(row: Row, most: int | None) -> range:
    return range(row.seeds if most is None else min(row.seeds, most))


def truth_of(row: Row, seed: int) -> gradine.AttentionLayer:
    return gradine.plant(row.heads, row.dim, row.scale, seed=seed)


def examples_of(row: Row, n: int, seed: int, kind: InputKind, folder: Path) -> Examples:
    """``n`` examples of a row's layer, in memory or, where they are many, in ``folder``."""
    truth = truth_of(row, seed)
    if n <= IN_MEMORY:
        X = gradine.sample_inputs(n, row.seq_len, row.dim, kind, seed + INPUT_SEED)
        return ArrayExamples(X, truth(X))
    write_examples(folder, truth, (n, row.seq_len), kind, seed + INPUT_SEED)
    return open_examples(folder)


def write_examples(
    folder: Path,
    layer: gradine.AttentionLayer,
    shape: Sequence[int],
    kind: InputKind = "boolean",
    seed: int = 0,
) -> None:
    """X.npy and Y.npy with ``shape`` = (n, k), block by block: they need not fit in memory."""
    n, k = shape
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "X.npy").open("wb") as x_file, (folder / "Y.npy").open("wb") as y_file:
        for file, width in ((x_file, layer.dim), (y_file, layer.out_dim)):
            header = {"descr": "<f8", "fortran_order": False, "shape": (n, k, width)}
            np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, n, BLOCK):
            X = gradine.sample_inputs(min(BLOCK, n - start), k, layer.dim, kind, rng)
            x_file.write(X.tobytes())
            y_file.write(layer(X).tobytes())
