"""Arrays that stay on disk: rows of an .npy file, alone or inside an .npz, read as needed."""

from __future__ import annotations

import lzma
import math
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "DAMAGED_ZIP",
    "Rows",
    "StoredArray",
    "as_doubles",
    "check_member",
    "check_numeric",
    "open_npy",
    "open_npz_member",
]

Array = NDArray[np.float64]

MAX_UNPACKED_BYTES = 2**31  # a compressed array must be unpacked into memory as a whole
LOCAL_HEADER = struct.Struct("<4s22xHH")  # of a zip member: signature, name and extra lengths
ENCRYPTED = 0x1
#: What zipfile raises where a file is not what it says.
DAMAGED_ZIP = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(EOFError, OverflowError, NotImplementedError, UnicodeDecodeError),
)


class Rows(Protocol):
    """An array of which leading rows can be read: what a file and an array have in common."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def read(self, start: int, stop: int) -> Array: ...


@dataclass(frozen=True)
class StoredArray:
    """A C-ordered array whose numbers begin at byte ``offset`` of a file."""

    path: Path
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype

    def read(self, start: int, stop: int) -> Array:
        """Rows start:stop as a float64 copy.

        Read, and not mapped: a map of a file that shrinks, or of a disk that goes away, ends the
        process without a word.
        """
        row_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        offset, count = self.offset + start * row_bytes, (stop - start) * math.prod(self.shape[1:])
        rows = np.fromfile(self.path, self.dtype, count, offset=offset)
        if len(rows) != count:
            raise ValueError(f"{self.path}: changed while being read (it has become shorter)")
        return as_doubles(rows.reshape(stop - start, *self.shape[1:]))


@dataclass(frozen=True)
class LoadedArray:
    """An array that had to be brought into memory, with the same face as a stored one."""

    array: NDArray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def read(self, start: int, stop: int) -> Array:
        """Rows start:stop as contiguous float64."""
        return as_doubles(self.array[start:stop])


def as_doubles(numbers: NDArray) -> Array:
    """Contiguous float64. What is not finite is no warning here: the survey says where it is."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.ascontiguousarray(numbers, dtype=np.float64)


def check_numeric(dtype: np.dtype) -> None:
    """Refuse everything but real numbers; object arrays would have to be unpickled."""
    if dtype.kind not in "fiu":
        raise ValueError(f"has dtype {dtype}; expected real numbers")


def open_npy(path: Path) -> StoredArray:
    """The array of an .npy file, checked against the size of the file."""
    try:
        with path.open("rb") as file:
            shape, dtype = _read_header(file)
            # Absolute: a worker may have another working directory.
            stored = StoredArray(path.absolute(), file.tell(), shape, dtype)
        _check_size(path.stat().st_size - stored.offset, shape, dtype)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return stored


def open_npz_member(path: Path, archive: zipfile.ZipFile, name: str) -> Rows:
    """Array ``name`` of an .npz: read in place if stored plainly, unpacked if compressed."""
    member = archive.getinfo(f"{name}.npy")
    try:
        check_member(member, path.stat().st_size)
        if member.compress_type == zipfile.ZIP_STORED:
            return _stored_member(path, member)
        return _unpacked_member(archive, member)
    except DAMAGED_ZIP as error:
        raise ValueError(f"{path}: {name} is damaged ({error})") from error
    except ValueError as error:
        raise ValueError(f"{path}: {name} {error}") from error


def check_member(member: zipfile.ZipInfo, archive_bytes: int) -> None:
    """Refuse what the directory of a zip cannot mean: zipfile makes room for all that it says."""
    if member.flag_bits & ENCRYPTED:
        raise ValueError("is encrypted; expected plain members")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # zipfile unpacks these without a bound.
        raise ValueError(f"is packed by method {member.compress_type}; expected stored or deflated")
    if member.compress_size > archive_bytes:
        raise ValueError(
            f"is damaged ({member.compress_size} bytes in a file of {archive_bytes}, by the "
            "directory of the zip)"
        )
    if member.compress_type == zipfile.ZIP_STORED and member.file_size != member.compress_size:
        raise ValueError(
            f"is damaged ({member.compress_size} bytes that are not packed are said to unpack to "
            f"{member.file_size})"
        )


def _stored_member(path: Path, member: zipfile.ZipInfo) -> StoredArray:
    with path.open("rb") as file:
        # The directory at the end of a zip says where a member begins, but only its own header
        # says how long that header is.
        file.seek(member.header_offset)
        signature, name_length, extra_length = LOCAL_HEADER.unpack(
            _exactly(file, LOCAL_HEADER.size)
        )
        if signature != b"PK\x03\x04":
            raise ValueError("is damaged (no zip member where the directory says)")
        file.seek(name_length + extra_length, 1)
        begin = file.tell()
        shape, dtype = _read_header(file)
        offset = file.tell()
    available = min(member.file_size, path.stat().st_size - begin) - (offset - begin)
    _check_size(available, shape, dtype)
    return StoredArray(path.absolute(), offset, shape, dtype)


def _unpacked_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> LoadedArray:
    # Sizes are compared before anything is unpacked, so that a small file cannot ask for
    # memory without bound.
    if member.file_size > MAX_UNPACKED_BYTES:
        raise ValueError(
            f"unpacks to {member.file_size} bytes, expected at most {MAX_UNPACKED_BYTES}; "
            "save it uncompressed (np.savez) to have it read in blocks"
        )
    with archive.open(member) as file:
        shape, dtype = _read_header(file)
        _check_size(member.file_size - file.tell(), shape, dtype)
        data = _exactly(file, math.prod(shape) * dtype.itemsize)
    return LoadedArray(np.frombuffer(data, dtype=dtype).reshape(shape))


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and dtype from an .npy header; the file then stands at the first number."""
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
        else:
            raise ValueError(f"version {version}")
    except Exception as error:  # the parser meets arbitrary bytes and fails in many ways
        detail = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"is not a readable .npy array ({detail})") from error
    check_numeric(dtype)
    if any(length < 0 or isinstance(length, bool) for length in shape):
        raise ValueError(f"has shape {shape}; expected whole numbers, none negative")
    if fortran and len(shape) > 1:
        raise ValueError("is in Fortran order; expected C order (save np.ascontiguousarray of it)")
    return shape, dtype


def _check_size(available: int, shape: tuple[int, ...], dtype: np.dtype) -> None:
    needed = math.prod(shape) * dtype.itemsize
    if available < needed:
        raise ValueError(f"is truncated: {available} bytes of numbers, expected {needed}")


def _exactly(file: IO[bytes], count: int) -> bytes:
    data = file.read(count)
    if len(data) != count:
        raise ValueError(f"is truncated: {len(data)} bytes, expected {count}")
    return data
