"""Sampled examples on their way to a file, a block at a time: they may be larger than memory."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

import numpy as np
from numpy.typing import NDArray

from gradine.examples import write_zarr
from gradine.examples.zarr_store import check_new_store
from gradine.files import OutputError, atomic_write, check_new
from gradine.inputs import InputKind, sample_inputs
from gradine.layer import AttentionLayer
from gradine.runs import output_folder

__all__ = ["Sampling", "check_new_examples", "write_examples"]

Array = NDArray[np.float64]
Label = Literal["X", "Y"]

LABELS: tuple[Label, ...] = ("X", "Y")
BLOCK_NUMBERS = 2**22  # numbers of X and Y in a block: 32 MiB


@dataclass(frozen=True)
class Sampling:
    """n sequences of inputs and what the layer makes of them; drawn anew for each pass."""

    layer: AttentionLayer
    n: int
    seq_len: int
    kind: InputKind
    seed: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"examples is {self.n}; expected at least 1")
        if self.seq_len < 2:
            raise ValueError(f"seq_len is {self.seq_len}; expected at least 2")

    def shape(self, label: Label) -> tuple[int, int, int]:
        return self.n, self.seq_len, self.layer.dim if label == "X" else self.layer.out_dim

    @property
    def bytes(self) -> int:
        return 8 * self.n * self.seq_len * (self.layer.dim + self.layer.out_dim)

    def blocks(self, label: Label) -> Iterator[Array]:
        """The same numbers as one call of `sample_inputs` with this seed would give."""
        # One generator goes through all blocks. It draws +-1 four to a word and drops what is
        # left of a word at the end of a call: only multiples of four make blocks invisible.
        size = 4 * max(1, BLOCK_NUMBERS * self.n // (self.bytes // 8) // 4)
        rng = np.random.default_rng(self.seed)
        for start in range(0, self.n, size):
            count = min(size, self.n - start)
            X = sample_inputs(count, self.seq_len, self.layer.dim, self.kind, rng)
            yield X if label == "X" else self._labels(X)

    def _labels(self, X: Array) -> Array:
        Y = self.layer(X)
        if not np.isfinite(Y).all():
            raise ValueError("the layer makes NaN or infinite numbers of inputs; expected finite Y")
        return Y


def check_new_examples(path: Path, overwrite: bool) -> None:
    """Refuse to replace examples unasked, and what are no examples of ours in any case."""
    if path.suffix == ".zarr":
        check_new_store(path, overwrite)
        return
    for file in (path, path / "X.npy", path / "Y.npy"):
        check_new(file, overwrite)


def write_examples(path: Path, sampling: Sampling, *, overwrite: bool = False) -> None:
    """Write an .npz file, a .zarr store, or for any other name a folder with X.npy and Y.npy.

    All of them hold the same numbers. ``overwrite`` is for a store; files are replaced.
    """
    if path.suffix == ".zarr":
        _check_space(path.parent, sampling)
        shapes = {label: sampling.shape(label) for label in LABELS}
        blocks = {label: sampling.blocks(label) for label in LABELS}
        write_zarr(path, shapes, blocks, overwrite=overwrite)
        return
    if path.suffix == ".npz":
        _check_space(path.parent, sampling)
        with atomic_write(path) as temporary:
            _write_npz(temporary, sampling)
        return
    with output_folder(path) as folder:
        _check_space(folder, sampling)
        with (
            atomic_write(folder / "X.npy") as x_file,
            atomic_write(folder / "Y.npy") as y_file,
            x_file.open("wb") as x_stream,
            y_file.open("wb") as y_stream,
        ):
            _write_npy(x_stream, sampling, "X")
            _write_npy(y_stream, sampling, "Y")


def _write_npz(path: Path, sampling: Sampling) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for label in LABELS:
            # A ZipInfo carries no time of day: the same seed gives the same bytes.
            member = zipfile.ZipInfo(f"{label}.npy")
            with archive.open(member, "w", force_zip64=True) as stream:
                _write_npy(stream, sampling, label)


def _write_npy(stream: IO[bytes], sampling: Sampling, label: Label) -> None:
    header = {"descr": "<f8", "fortran_order": False, "shape": sampling.shape(label)}
    np.lib.format.write_array_header_1_0(stream, header)
    for block in sampling.blocks(label):
        stream.write(np.ascontiguousarray(block, dtype="<f8").data)


def _check_space(folder: Path, sampling: Sampling) -> None:
    """Say so before the disk is full."""
    if not folder.is_dir():
        return  # writing will say it better
    free = shutil.disk_usage(folder).free
    if sampling.bytes > free:
        raise OutputError(
            f"cannot write {folder}: the examples need {sampling.bytes / 1e9:.3g} GB, "
            f"and {free / 1e9:.3g} GB are free"
        )
