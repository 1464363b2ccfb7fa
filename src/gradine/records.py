"""Phase results on disk: saved as each phase ends, read back when a run continues.

A record is a flat frozen dataclass; its arrays become tensors of a safetensors file and the rest
JSON in the file's header. A fingerprint of the data and the settings goes along, so that a record
of another run is never mistaken for one of this.
"""

from __future__ import annotations

import hashlib
import json
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


def save_record(path: Path, record: Any, run: str) -> None:
    """Write a result with the fingerprint of its run, atomically."""
    from safetensors.numpy import save

    values = {item.name: getattr(record, item.name) for item in fields(record)}
    arrays = {k: np.ascontiguousarray(v) for k, v in values.items() if isinstance(v, np.ndarray)}
    plain = {k: v for k, v in values.items() if k not in arrays}
    header = {"record": type(record).__name__, "run": run, "fields": json.dumps(plain)}
    write_bytes(path, save(arrays, metadata=header))


def check_record(path: Path, run: str) -> None:
    """`RecordError` if a record is damaged or belongs to another run."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
    except SafetensorError as error:
        raise RecordError(f"{path}: damaged ({error})") from error
    if header.get("run") != run:
        raise RecordError(f"{path}: belongs to other data or other settings")


def load_record(path: Path, kind: type[Record], run: str) -> Record:
    """Read a result back; `RecordError` if it is damaged or belongs to another run."""
    from safetensors import SafetensorError, safe_open

    if not is_dataclass(kind):
        raise TypeError(f"kind is {kind!r}; expected a dataclass")
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            if header.get("record") != kind.__name__:
                raise RecordError(f"{path}: not a record of {kind.__name__}")
            if header.get("run") != run:
                raise RecordError(f"{path}: belongs to other data or other settings")
            plain = json.loads(header["fields"])
            values = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise RecordError(f"{path}: damaged ({error})") from error
    expected = {item.name for item in fields(kind)}
    if set(plain) | set(values) != expected:
        raise RecordError(f"{path}: does not hold the fields of {kind.__name__}")
    return kind(**plain, **values)
