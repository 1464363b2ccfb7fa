"""Phase results on disk: saved as each phase ends, read back when a run continues.

A record is a flat frozen dataclass, a flat tuple or list, an array or a number; its arrays become
tensors of a safetensors file and the rest JSON in the file's header. A fingerprint of the data and
the settings goes along, so that a record of another run is never mistaken for one of this.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from gradine.files import write_bytes

__all__ = ["RecordError", "check_record", "fingerprint", "load_record", "save_record"]

Record = TypeVar("Record")


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
    from safetensors.numpy import save

    values = _parts(record)
    arrays = {
        k: np.ascontiguousarray(v).reshape(np.shape(v))  # that of a number is lost on the way
        for k, v in values.items()
        if isinstance(v, np.ndarray | np.generic)
    }
    plain = {k: v for k, v in values.items() if k not in arrays}
    header = {"record": type(record).__name__, "run": run, "fields": json.dumps(plain)}
    write_bytes(path, save(arrays, metadata={**(extra or {}), **header}))


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
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
    except SafetensorError as error:
        raise RecordError(f"{path}: damaged ({error})") from error
    if header.get("run") != run:
        raise RecordError(f"{path}: belongs to other data or other settings")
    return header


def load_record(path: Path, kind: type[Record], run: str) -> Record:
    """Read a result back; `RecordError` if it is damaged or belongs to another run."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            if header.get("record") != kind.__name__:
                raise RecordError(f"{path}: not a record of {kind.__name__}")
            if header.get("run") != run:
                raise RecordError(f"{path}: belongs to other data or other settings")
            plain = json.loads(header["fields"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise RecordError(f"{path}: damaged ({error})") from error
    # Of no dimension: a number of numpy, which has its type and is hashable, too.
    values = plain | {name: array if array.ndim else array[()] for name, array in tensors.items()}
    try:
        return _assembled(kind, values)
    except (KeyError, TypeError) as error:
        raise RecordError(f"{path}: does not hold the fields of {kind.__name__}") from error


def _assembled(kind: type[Record], values: dict[str, Any]) -> Record:
    """What `_parts` took apart."""
    if is_dataclass(kind):
        if set(values) != {item.name for item in fields(kind)}:
            raise KeyError(kind.__name__)
        return kind(**values)
    if hasattr(kind, "_asdict"):
        return kind(**values)
    members = [values[str(number)] for number in range(len(values))]
    return kind(members) if issubclass(kind, list | tuple) else members[0]  # pyright: ignore
