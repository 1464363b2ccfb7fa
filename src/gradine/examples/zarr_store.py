"""Examples in a zarr store: a folder, a zip file, or any address that fsspec knows.

The store is a group with arrays X and Y. What it says of itself is checked before anything is
read; a chunk that is missing is an error, and not a chunk of zeros; and what is unpacked is looked
at before.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine.examples.source import StoredExamples
from gradine.examples.stored import as_doubles, check_numeric
from gradine.examples.zarr_guard import Files, Guard, check_codecs, check_files
from gradine.files import atomic_folder, read_json
from gradine.memory import chunk_bytes, examples_in_block, in_words

__all__ = ["ZarrExamples", "check_new_store", "is_zarr", "write_zarr"]

Array = NDArray[np.float64]

MARK = {"gradine": "examples"}  # attributes of a store that was written here
MARKS = ("zarr.json", ".zgroup", ".zmetadata")  # of a store, in version 3 and in version 2


def is_zarr(path: Path) -> bool:
    """Whether a local path is a store: a folder that has the mark of one, or a zip file.

    >>> is_zarr(Path("data.npz"))
    False
    """
    if path.is_dir():
        return any((path / mark).exists() for mark in MARKS) or path.suffix == ".zarr"
    return path.suffix in (".zip", ".zarr") and path.is_file()


class ZarrExamples(StoredExamples):
    """A zarr store with arrays X and Y, of version 2 or 3, read by whole chunks.

    ``address`` is a path or an fsspec address such as ``s3://bucket/data.zarr``, and ``options``
    are those of its filesystem. ``memory`` is what the run may take: chunks must be small in it.
    """

    def __init__(
        self,
        address: str | os.PathLike[str],
        options: dict[str, Any] | None = None,
        memory: int | None = None,
    ) -> None:
        self.address, self._options, self._memory = os.fspath(address), options, memory
        with warnings.catch_warnings():  # of what else is there: what matters here is refused
            warnings.simplefilter("ignore")
            group, files = _open_group(self.address, options)
            X, Y = (_Chunked(self.address, group, label, memory, files) for label in ("X", "Y"))
        super().__init__(self.address, X, Y)
        self.piece = min(self.n, max(X.rows, Y.rows))

    def __reduce__(self) -> tuple[Any, ...]:
        address = self.address if "://" in self.address else os.path.abspath(self.address)
        return ZarrExamples, (address, self._options, self._memory)


class _Chunked:
    """One array of a store; whole chunks are read, and one is kept that the next block needs."""

    def __init__(
        self, address: str, group: Any, label: str, memory: int | None, files: Files
    ) -> None:
        import zarr

        try:
            found = group.get(label)
            if not isinstance(found, zarr.Array):
                held = ", ".join(sorted(group.keys())) or "nothing"
                raise ValueError(f"holds {held}; expected arrays X and Y")
            self._array, self.shape = found, tuple(found.shape)
            check_codecs(found.metadata.to_dict())
            check_numeric(np.dtype(found.dtype))
            if any(length < 1 for length in (*found.chunks, *(found.shards or ()))):
                raise ValueError(f"has chunks {found.chunks}; expected no empty ones")
        except Exception as error:  # metadata may be anything, and fail anywhere
            raise ValueError(f"{address}: {label} {_line(error)}") from error
        self._label = label
        self.rows = int(found.chunks[0]) if len(self.shape) == 3 else 1
        # Chunks may say that they are longer than the array, and are unpacked all the same.
        numbers = max(self.rows * math.prod(self.shape[1:]), math.prod(found.chunks))
        size = numbers * np.dtype(found.dtype).itemsize
        if size > chunk_bytes(memory):
            raise ValueError(
                f"{address}: {label} has chunks of {self.rows} examples, {in_words(size)}; "
                f"expected at most {in_words(chunk_bytes(memory))} (write smaller chunks, or allow "
                "more memory)"
            )
        self._guard = Guard(found, numbers, files)
        self._kept: tuple[int, NDArray] = (0, np.empty((0, *self.shape[1:])))

    def read(self, start: int, stop: int) -> Array:
        """Rows start:stop as contiguous float64."""
        first, kept = self._kept
        parts, begin = [], start
        if first <= start < first + len(kept):
            parts.append(kept[start - first : stop - first])
            begin = start + len(parts[0])
        if begin < stop:
            begin -= begin % self.rows
            end = min(-(-stop // self.rows) * self.rows, self.shape[0])
            rows = self._whole(begin, end)
            parts.append(rows[max(start - begin, 0) : stop - begin])
            last = (stop - 1) - (stop - 1) % self.rows
            self._kept = (last, rows[last - begin :].copy()) if stop < end else (0, rows[:0])
        return as_doubles(np.concatenate(parts))

    def _whole(self, start: int, stop: int) -> NDArray:
        try:
            self._check_present(start, stop)
            return np.asarray(self._array[start:stop])
        except MemoryError:
            raise
        except Exception as error:  # of codecs, of filesystems, of networks
            raise ValueError(f"{self._label} {_line(error)}") from error

    def _check_present(self, start: int, stop: int) -> None:
        """`ValueError` if a chunk is missing, which zarr would take for zeros, or is not sound."""
        from zarr.core.sync import sync

        array = self._array
        grid = array.shards or array.chunks
        axes = [range(start // grid[0], -(-stop // grid[0]))]
        axes += [range(-(-n // c)) for n, c in zip(self.shape[1:], grid[1:], strict=True)]
        keys = [array.metadata.encode_chunk_key(place) for place in itertools.product(*axes)]

        async def look() -> None:
            sizes = await asyncio.gather(*map(self._guard.size, keys))
            there = {key: size for key, size in zip(keys, sizes, strict=True) if size is not None}
            missing = [key for key in keys if key not in there]
            if missing:
                raise ValueError(f"has no chunk {missing[0]}")
            await asyncio.gather(*(self._guard.check(*item) for item in there.items()))

        sync(look())


def write_zarr(
    path: str | os.PathLike[str],
    shapes: Mapping[str, tuple[int, int, int]],
    blocks: Mapping[str, Iterable[Array]],
    *,
    overwrite: bool = False,
) -> None:
    """Write arrays of these shapes, from blocks of any size, to a store: all of it or nothing.

    A chunk holds as many examples as a block of theirs that is read. With ``overwrite`` a store
    that this wrote before is replaced.
    """
    if overwrite:
        check_new_store(Path(path), overwrite)
    zarr = _zarr(os.fspath(path))
    n, k = shapes["X"][:2]
    rows = examples_in_block(n, k * sum(shape[2] for shape in shapes.values()))
    with atomic_folder(path, replace=overwrite) as folder:
        group = zarr.open_group(str(folder), mode="w", attributes=MARK)
        for label, shape in shapes.items():
            array = group.create_array(
                label,
                shape=shape,
                chunks=(rows, *shape[1:]),
                dtype="<f8",
                config={"write_empty_chunks": True},
            )
            start = 0
            for chunk in _of_length(rows, blocks[label]):
                array[start : start + len(chunk)] = chunk
                start += len(chunk)


def check_new_store(path: Path, overwrite: bool) -> None:
    """Refuse to replace a store unasked, and whatever else is there in any case.

    >>> check_new_store(Path("no such store.zarr"), overwrite=False)
    """
    if not os.path.lexists(path):
        return
    if not _is_written_here(path):
        raise ValueError(
            f"{path}: is there, and no store that gradine sample wrote; "
            "choose another --out, or remove it yourself"
        )
    if not overwrite:
        raise ValueError(f"{path}: exists already; choose another --out, or --overwrite it")


def _is_written_here(path: Path) -> bool:
    """By its mark, and with nothing beside the arrays: a folder is taken away with all it holds."""
    if path.is_symlink() or not path.is_dir() or set(os.listdir(path)) != {"zarr.json", "X", "Y"}:
        return False
    try:
        return read_json(path / "zarr.json").get("attributes") == MARK
    except (ValueError, OSError):
        return False


def _of_length(rows: int, blocks: Iterable[Array]) -> Iterator[Array]:
    """The same rows, so many at a time."""
    held: list[Array] = []
    for block in blocks:
        held.append(block)
        if sum(map(len, held)) >= rows:
            joined = np.concatenate(held)
            whole = len(joined) - len(joined) % rows
            yield from (joined[start : start + rows] for start in range(0, whole, rows))
            held = [joined[whole:]]
    if sum(map(len, held)):
        yield np.concatenate(held)


def _open_group(address: str, options: dict[str, Any] | None) -> tuple[Any, Files]:
    zarr = _zarr(address)
    try:
        files = check_files(address)
        return zarr.open_group(_store(zarr, address, options), mode="r"), files
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{address}: no zarr group with arrays X and Y there") from error
    except ImportError as error:
        raise ValueError(f"{address}: {_line(error)}") from error
    except Exception as error:  # whatever is there instead
        raise ValueError(f"{address}: not a readable zarr store ({_line(error)})") from error


def _store(zarr: Any, address: str, options: dict[str, Any] | None) -> Any:
    if "://" in address:
        return zarr.storage.FsspecStore.from_url(address, options, read_only=True)
    if options:
        raise ValueError(f"options are {options}; expected none for a local path")
    if Path(address).is_file():
        return zarr.storage.ZipStore(address, mode="r")
    return zarr.storage.LocalStore(address, read_only=True)


def _zarr(address: str) -> Any:
    try:
        import fsspec  # noqa: F401
        import zarr
        import zarr.storage
    except ImportError as error:
        raise ValueError(
            f"{address}: zarr stores need an extra; install gradine[zarr] ({error})"
        ) from error
    return zarr


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
