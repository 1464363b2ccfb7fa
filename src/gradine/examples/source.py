"""Examples (X, Y) that are handed out in blocks, whether they live in memory or on disk."""

from __future__ import annotations

import errno
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from numpy.typing import NDArray

from gradine.examples.errors import BadBlock, BlockError, one_line
from gradine.examples.stored import (
    DAMAGED_ZIP,
    LoadedArray,
    Rows,
    check_numeric,
    open_npy,
    open_npz_member,
)
from gradine.files import check_regular
from gradine.memory import examples_in_block

__all__ = ["ArrayExamples", "Examples", "FolderExamples", "NpzExamples", "StoredExamples"]

Array = NDArray[np.float64]
Shape = tuple[int, ...]

MOST_NAMES = 10  # of what a file holds, in a message


class Examples:
    """n sequences X (n, k, d) and what the layer made of them, Y (n, k, d_out).

    Whatever the source, ``block(start, stop)`` gives contiguous float64 arrays, and nothing
    outside the block is held in memory on its account. ``name`` says where the examples are. All
    sources can be pickled; those that are not arrays become a description, such as a path or a
    seed, which is opened again where it arrives.
    """

    n: int
    seq_len: int
    dim: int
    out_dim: int
    #: An array of the library and device that should do the arithmetic; None: numpy.
    like: Any = None
    #: Examples that are best read together; a bad one among them makes all of them bad.
    piece: int = 1024
    #: Blocks that were left out on the way here; they are not counted in ``n``.
    left_out: tuple[BadBlock, ...] = ()

    def __init__(self, name: str, x_shape: Shape, y_shape: Shape) -> None:
        self.name = name
        for label, shape in (("X", x_shape), ("Y", y_shape)):
            if len(shape) != 3 or 0 in shape:
                raise ValueError(
                    f"{name}: {label} has shape {shape}; expected three axes, (n, k, d), none empty"
                )
        if x_shape[:2] != y_shape[:2]:
            raise ValueError(
                f"{name}: X has shape {x_shape} and Y {y_shape}; "
                "expected the same number of examples and of tokens"
            )
        if x_shape[1] < 2:
            raise ValueError(f"{name}: sequences have 1 token; expected at least 2")
        self.n, self.seq_len, self.dim = x_shape
        self.out_dim = y_shape[2]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.name!r}, n={self.n}, seq_len={self.seq_len}, "
            f"dim={self.dim}, out_dim={self.out_dim})"
        )

    def block(self, start: int, stop: int) -> tuple[Array, Array]:
        """Examples start:stop as X (stop - start, k, d) and Y (stop - start, k, d_out).

        `BlockError`, which is a ``ValueError``, if they are not what they should be. ``OSError`` if
        they cannot be read this time: an engine tries once more.
        """
        if not 0 <= start < stop <= self.n:
            raise ValueError(
                f"block is {start}:{stop}; expected a non-empty range within 0:{self.n}"
            )
        try:
            return self._read(start, stop)
        except BlockError:
            raise
        except ValueError as error:
            reason = one_line(error).removeprefix(f"{self.name}: ")
            raise BlockError(self.name, BadBlock(start, stop, reason)) from error

    def block_size(self, memory: int | None = None) -> int:
        """Examples in a block where ``memory`` bytes are allowed in all; None: as for 2 GiB.

        >>> ArrayExamples(np.ones((5000, 3, 2)), np.zeros((5000, 3, 1))).block_size(32 * 2**20)
        1024
        """
        return examples_in_block(self.n, self.seq_len * (self.dim + self.out_dim), memory)

    def _read(self, start: int, stop: int) -> tuple[Array, Array]:
        raise NotImplementedError


class StoredExamples(Examples):
    """Examples whose X and Y can each be read by rows."""

    def __init__(self, name: str, X: Rows, Y: Rows) -> None:
        super().__init__(name, X.shape, Y.shape)
        self._X, self._Y = X, Y

    def _read(self, start: int, stop: int) -> tuple[Array, Array]:
        return self._X.read(start, stop), self._Y.read(start, stop)


class ArrayExamples(StoredExamples):
    """Examples that are in memory already.

    >>> ArrayExamples(np.ones((5, 3, 2)), np.zeros((5, 3, 1)))
    ArrayExamples('arrays', n=5, seq_len=3, dim=2, out_dim=1)
    """

    arrays: tuple[Any, Any]  #: X and Y as numpy arrays of their own types

    def __init__(self, X: Any, Y: Any) -> None:
        held = _in_memory("X", X), _in_memory("Y", Y)
        super().__init__("arrays", *held)
        self.arrays = held[0].array, held[1].array
        self.like = X if is_torch_array(X) else None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"like": None}  # workers compute with numpy


class FolderExamples(StoredExamples):
    """A folder with X.npy and Y.npy, memory-mapped one block at a time."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        folder = Path(path)
        if not any((folder / name).exists() for name in ("X.npy", "Y.npy")):
            raise ValueError(f"{folder}: holds no examples; expected X.npy and Y.npy, or a store")
        for file in (folder / "X.npy", folder / "Y.npy"):
            check_regular(file)
        super().__init__(str(folder), open_npy(folder / "X.npy"), open_npy(folder / "Y.npy"))
        self.path = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return FolderExamples, (self.path.absolute(),)


class NpzExamples(StoredExamples):
    """An .npz file with X and Y, read block by block unless it is compressed.

    ``np.savez`` stores plainly, so its files may be larger than memory; what
    ``np.savez_compressed`` wrote is unpacked once, after its size was checked.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        file = Path(path)
        check_regular(file)
        try:
            with zipfile.ZipFile(file) as archive:
                if not {"X.npy", "Y.npy"} <= set(archive.namelist()):
                    names = sorted(name.removesuffix(".npy") for name in archive.namelist())
                    held = ", ".join(names[:MOST_NAMES]) or "nothing"
                    raise ValueError(f"{file}: holds {held}; expected arrays X and Y")
                X, Y = (open_npz_member(file, archive, name) for name in ("X", "Y"))
        except DAMAGED_ZIP as error:
            raise ValueError(f"{file}: not an .npz file, or truncated ({error})") from error
        except OSError as error:
            if error.errno != errno.EINVAL:  # that a place lies before the file: it says so
                raise
            raise ValueError(f"{file}: is damaged ({error})") from error
        super().__init__(str(file), X, Y)
        self.path = file

    def __reduce__(self) -> tuple[Any, ...]:
        return NpzExamples, (self.path.absolute(),)


def _in_memory(label: str, value: Any) -> LoadedArray:
    array = _from_torch(label, value) if is_torch_array(value) else np.asarray(value)
    try:
        check_numeric(array.dtype)
    except ValueError as error:
        raise ValueError(f"{label} {error}") from error
    return LoadedArray(array)


def _from_torch(label: str, tensor: Any) -> NDArray:
    """A tensor as a numpy array; short floats grow, as numpy has no bfloat16."""
    short = tensor.is_floating_point() and tensor.element_size() < 4
    try:
        return np.asarray((tensor.double() if short else tensor).detach().cpu())
    except (TypeError, RuntimeError) as error:
        raise ValueError(f"{label} is {tensor.layout}; expected a dense tensor") from error
