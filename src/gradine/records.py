"""Phase results on disk: saved as each phase ends, read back when a run continues.

A record is a flat frozen dataclass, a flat tuple or list, an array or a number; its arrays become
tensors of a safetensors file and the rest JSON in the file's header. A fingerprint of the data and
the settings goes along, so that a record of another run is never mistaken for one of this.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from gradine.files import check_regular, parse_json, write_tensors

__all__ = [
    "RecordError",
    "assembled",
    "check_record",
    "fingerprint",
    "load_record",
    "save_record",
]

Record = TypeVar("Record")

DIGEST = "digest"


class RecordError(ValueError):
    """A file that should hold a phase result cannot be used."""


def fingerprint(*parts: Any) -> str:
    """A digest of arrays and of anything that JSON can hold.

    >>> fingerprint(np.ones(2), {"seed": 0}) == fingerprint(np.ones(2), {"seed": 1})
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(repr((part.shape, part.dtype.str)).encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            digest.update(json.dumps(part, sort_keys=True).encode())
    return digest.hexdigest()


def save_record(path: Path, record: Any, run: str, extra: Mapping[str, str] | None = None) -> None:
    """Write a result with the fingerprint of its run, atomically; ``extra`` goes to the header."""
    values = _parts(record)
    arrays = {
        k: np.ascontiguousarray(v).reshape(np.shape(v))  # that of a number is lost on the way
        for k, v in values.items()
        if isinstance(v, np.ndarray | np.generic)
    }
    plain = {k: v for k, v in values.items() if k not in arrays}
    header = {"record": type(record).__name__, "run": run, "fields": json.dumps(plain)}
    header = {**(extra or {}), **header}
    header[DIGEST] = _digest(header, arrays)
    write_tensors(path, arrays, header)


def _digest(header: Mapping[str, str], arrays: Mapping[str, Any]) -> str:
    """By it a record is known to be what was written: disks lose bits."""
    told = {key: value for key, value in header.items() if key != DIGEST}
    return fingerprint(told, sorted(arrays), *(arrays[name] for name in sorted(arrays)))


def _parts(record: Any) -> dict[str, Any]:
    """The members of a record by name, or by number."""
    if is_dataclass(record):
        return {item.name: getattr(record, item.name) for item in fields(record)}
    if isinstance(record, tuple) and hasattr(record, "_asdict"):
        return record._asdict()  # pyright: ignore[reportAttributeAccessIssue]
    members = record if isinstance(record, list | tuple) else [record]
    return {str(number): member for number, member in enumerate(members)}


def check_record(path: Path, run: str) -> dict[str, str]:
    """The header of a record; `RecordError` if it is damaged or belongs to another run."""
    with _opened(path) as file:
        header = file.metadata() or {}
    if header.get("run") != run:
        raise RecordError(f"{path}: belongs to other data or other settings")
    return header


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    try:
        check_regular(path)
        with safe_open(os.fspath(path), framework="numpy") as file:
            yield file
    except RecordError:
        raise
    except (SafetensorError, ValueError, KeyError) as error:
        raise RecordError(f"{path}: damaged ({error})") from error


def load_record(path: Path, kind: type[Record], run: str) -> Record:
    """Read a result back; `RecordError` if it is damaged or belongs to another run."""
    header = check_record(path, run)
    if header.get("record") != kind.__name__:
        raise RecordError(f"{path}: not a record of {kind.__name__}")
    with _opened(path) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if header.get(DIGEST) != _digest(header, tensors):
            raise RecordError(f"{path}: damaged (it is not what was written)")
        plain = parse_json(header["fields"])
    if not isinstance(plain, dict):
        raise RecordError(f"{path}: does not hold the fields of {kind.__name__}")
    # Of no dimension: a number of numpy, which has its type and is hashable, too.
    values = plain | {name: array if array.ndim else array[()] for name, array in tensors.items()}
    try:
        return assembled(kind, values)
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{path}: does not hold the fields of {kind.__name__}") from error


def assembled(kind: type[Record], values: dict[str, Any]) -> Record:
    """What `_parts` took apart; ``KeyError`` or ``TypeError`` where that cannot have been it."""
    if is_dataclass(kind) or hasattr(kind, "_asdict"):
        types = get_type_hints(kind)
        if set(values) != set(types):
            raise KeyError(kind.__name__)
        for name, value in values.items():
            if not _is_a(value, types[name]):
                raise TypeError(name)
        return kind(**values)
    members = [values[str(number)] for number in range(len(values))]
    if issubclass(kind, list | tuple):
        if not all(_is_a(member, np.ndarray | float) for member in members):
            raise TypeError(kind.__name__)
        return kind(members)  # pyright: ignore[reportCallIssue]
    if len(members) != 1 or not _is_a(members[0], kind):
        raise TypeError(kind.__name__)
    return members[0]


#: What may stand for a type where it is read back: numbers may have become those of numpy.
NUMBERS = {float: float | int | np.floating | np.integer, int: int | np.integer}


def _is_a(value: Any, wanted: Any) -> bool:
    """Whether a value that was read can be what an annotation says; shapes are not looked at."""
    origin, parts = get_origin(wanted) or wanted, get_args(wanted)
    if origin in (Union, UnionType):
        return any(_is_a(value, part) for part in parts)
    if origin is np.ndarray:
        number = get_args(parts[1])[0] if parts else np.generic
        return isinstance(value, np.ndarray | np.generic) and np.issubdtype(value.dtype, number)
    if origin in (list, tuple):
        return isinstance(value, origin) and all(_is_a(member, parts[0]) for member in value)
    if origin in NUMBERS:
        return isinstance(value, NUMBERS[origin]) and not isinstance(value, bool)
    return isinstance(value, bool | np.bool_ if origin in (bool, np.bool_) else origin)
