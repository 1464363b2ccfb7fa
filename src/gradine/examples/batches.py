"""Examples from an iterator: spooled to a folder as they come, as learners pass several times."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from gradine.checks import in_short
from gradine.examples.errors import BadBlock, BlockError, first_not_finite
from gradine.examples.source import ArrayExamples, FolderExamples
from gradine.files import OutputError, atomic_folder

__all__ = ["IteratorExamples", "from_batches"]


class IteratorExamples(FolderExamples):
    """A folder that `from_batches` wrote; a temporary one goes when this is no longer used.

    ``left_out`` has the batches that were bad, by the examples that came before them.
    """

    def __init__(
        self,
        path: Path,
        left_out: tuple[BadBlock, ...],
        temporary: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        super().__init__(path)
        self.left_out = left_out
        self._temporary = temporary  # lives as long as this


def from_batches(
    batches: Iterable[tuple[Any, Any]],
    folder: str | os.PathLike[str] | None = None,
    bad_blocks: Literal["stop", "skip"] = "stop",
) -> IteratorExamples:
    """Spool batches of (X, Y) to X.npy and Y.npy in ``folder``, a new one, and open that.

    One batch is in memory at a time. The first says how many tokens, coordinates and outputs there
    are, and of which type; a batch that does not fit, or has a number that is not finite, is named,
    and no folder comes to be; or, with ``bad_blocks="skip"``, it is left out and counted. Without
    ``folder`` a temporary one is used: it needs the room of all examples.

    >>> batches = ((np.ones((4, 3, 2)), np.zeros((4, 3, 1))) for _ in range(5))
    >>> examples = from_batches(batches)
    >>> examples.n, examples.block(3, 5)[0].shape
    (20, (2, 3, 2))
    """
    if not isinstance(batches, Iterable):
        raise ValueError(f"batches is {in_short(batches)}; expected an iterable of (X, Y)")
    if bad_blocks not in ("stop", "skip"):
        raise ValueError(f"bad_blocks is {bad_blocks!r}; expected 'stop' or 'skip'")
    if folder is not None:
        return IteratorExamples(Path(folder), _spool(batches, Path(folder), bad_blocks))
    temporary = tempfile.TemporaryDirectory(prefix="gradine-")
    inside = Path(temporary.name, "examples")
    return IteratorExamples(inside, _spool(batches, inside, bad_blocks), temporary)


def _spool(
    batches: Iterable[tuple[Any, Any]], folder: Path, bad_blocks: str
) -> tuple[BadBlock, ...]:
    left_out: list[BadBlock] = []
    seen = 0
    with atomic_folder(folder) as inside, ExitStack() as stack:
        files: tuple[_Growing, _Growing] | None = None
        for number, batch in enumerate(batches):
            try:
                X, Y = _checked(batch, files)
            except _BatchError as error:
                block = BadBlock(seen, seen + error.length, f"batch {number}: {error}")
                if bad_blocks == "stop":
                    raise BlockError(str(folder), block) from error
                left_out.append(block)
                seen += error.length
                continue
            if files is None:
                opened = [stack.enter_context((inside / f"{s}.npy").open("wb")) for s in "XY"]
                files = (_Growing(opened[0], X), _Growing(opened[1], Y))
            for file, rows in zip(files, (X, Y), strict=True):
                file.append(rows)
            seen += len(X)
        if files is None:
            first = f"; the first: {left_out[0].reason}" if left_out else ""
            raise ValueError(f"batches has no batch to learn from; expected at least one{first}")
        for file in files:
            file.finish()
    return tuple(left_out)


class _BatchError(ValueError):
    """A batch that cannot be used, of so many examples as far as that can be said."""

    def __init__(self, reason: str, length: int) -> None:
        super().__init__(reason)
        self.length = length


def _checked(
    batch: Any, files: tuple[_Growing, _Growing] | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """X and Y of a batch in the types of the first; `_BatchError` for what is not like it."""
    length = 0
    try:
        X, Y = batch
        length = len(X)
        examples = ArrayExamples(X, Y)  # which has all the checks of shapes and types
        arrays = examples.arrays
        for label, file, array in zip("XY", files or (), arrays, strict=False):
            file.check(label, array)
        found = first_not_finite(*arrays, 0)
        if found is not None:
            raise ValueError(found[1])
    except (ValueError, TypeError) as error:
        raise _BatchError(str(error).removeprefix("arrays: "), length) from error
    return arrays


class _Growing:
    """An .npy file that grows: its header is written again when its length is known."""

    def __init__(self, file: IO[bytes], first: NDArray[Any]) -> None:
        self._file, self._rows = file, first.shape[1:]
        self._dtype = first.dtype
        self._n = 0
        self._header()
        self._begin = file.tell()

    def check(self, label: str, array: NDArray[Any]) -> None:
        if array.shape[1:] != self._rows:
            raise ValueError(
                f"{label} has shape {array.shape}; expected (b, {self._rows[0]}, {self._rows[1]})"
            )
        if not np.can_cast(array.dtype, self._dtype, "safe"):
            raise ValueError(
                f"{label} has dtype {array.dtype}; expected {self._dtype}, as the first"
            )

    def append(self, rows: NDArray[Any]) -> None:
        try:
            self._file.write(np.ascontiguousarray(rows, dtype=self._dtype).data)
        except OSError as error:
            raise OutputError(
                f"cannot write {self._file.name}: {error.strerror or error}"
            ) from error
        self._n += len(rows)

    def finish(self) -> None:
        self._file.seek(0)
        self._header()
        # numpy leaves room for a length of any size, for this very purpose.
        assert self._file.tell() == self._begin
        self._file.flush()
        os.fsync(self._file.fileno())

    def _header(self) -> None:
        header = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self._n, *self._rows),
        }
        np.lib.format.write_array_header_1_0(self._file, header)
