"""A layer on disk: safetensors, never pickle, read only after its header has been checked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine.files import write_bytes

__all__ = ["read_layer", "write_layer"]

FORMAT = "gradine.layer"
FORMAT_VERSION = "1"


def write_layer(path: str | os.PathLike[str], theta: NDArray, w: NDArray, constant: bool) -> None:
    """Write theta (m, D, D) and w (m, D, d_out); the file appears whole or not at all."""
    from safetensors.numpy import save

    metadata = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "constant": "true" if constant else "false",
    }
    tensors = {"theta": np.ascontiguousarray(theta), "w": np.ascontiguousarray(w)}
    write_bytes(path, save(tensors, metadata=metadata))


def read_layer(path: str | os.PathLike[str]) -> tuple[NDArray, NDArray, bool]:
    """Read (theta, w, constant); what is no layer file of ours is a ``ValueError`` naming it."""
    from safetensors import SafetensorError, safe_open

    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: no such file")
    if not Path(path).is_file():
        raise ValueError(f"{path}: not a file; expected a gradine layer file")
    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            constant = _check_header(file)
            return file.get_tensor("theta"), file.get_tensor("w"), constant
    except SafetensorError as error:
        raise ValueError(f"{path}: not a gradine layer file, or damaged ({error})") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _check_header(file: Any) -> bool:
    """Refuse a safetensors file that is not a layer of ours; return its ``constant`` flag."""
    metadata = file.metadata() or {}
    if metadata.get("format") != FORMAT:
        raise ValueError("not a gradine layer file")
    if metadata.get("format_version") != FORMAT_VERSION:
        version = metadata.get("format_version")
        raise ValueError(f"layer format version {version!r}; expected {FORMAT_VERSION!r}")
    if metadata.get("constant") not in ("true", "false"):
        raise ValueError(f"constant is {metadata.get('constant')!r}; expected 'true' or 'false'")
    if sorted(file.keys()) != ["theta", "w"]:
        raise ValueError(f"holds {sorted(file.keys())}; expected ['theta', 'w']")
    for name in ("theta", "w"):
        header = file.get_slice(name)
        if header.get_dtype() not in ("F64", "F32"):
            raise ValueError(f"{name} has dtype {header.get_dtype()}; expected F64 or F32")
        if len(header.get_shape()) != 3:
            raise ValueError(f"{name} has shape {header.get_shape()}; expected three axes")
    return metadata["constant"] == "true"
