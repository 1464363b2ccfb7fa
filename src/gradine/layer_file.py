"""A layer on disk: safetensors, never pickle, read only after its header has been checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine.attention_functions import SOFTMAX, AttentionFunction, attention_function
from gradine.checks import some_path
from gradine.factors import Factors
from gradine.files import write_tensors

__all__ = ["read_layer", "write_layer"]

FORMAT = "gradine.layer"
FORMAT_VERSION = "1"
#: Of layers whose attention is not softmax: to a reader that knows only softmax they must be
#: unreadable, and not another layer.
NAMED_VERSION = "2"

#: Tensors of every file with their axes, those of one with factors, and of one with a bias, too.
HEADS = {"theta": 3, "w": 3}
FACTORS = {"queries": 3, "keys": 3, "values": 3, "outputs": 3}
BIAS = {"bias": 1}


def write_layer(
    path: str | os.PathLike[str],
    theta: NDArray,
    w: NDArray,
    constant: bool,
    factors: Factors | None = None,
    function: AttentionFunction = SOFTMAX,
    notes: Mapping[str, str] | None = None,
) -> None:
    """Write theta, w, and factors if they are known; the file appears whole or not at all.

    ``notes`` are further strings of its metadata, for people: nothing here reads them.
    """
    metadata = dict(notes or {}) | {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "constant": "true" if constant else "false",
    }
    if function is not SOFTMAX:
        metadata |= {"format_version": NAMED_VERSION, "attention": function.name}
    tensors = {"theta": np.ascontiguousarray(theta), "w": np.ascontiguousarray(w)}
    if factors is not None:
        values = {name: getattr(factors, name) for name in FACTORS | BIAS}
        tensors |= {name: value for name, value in values.items() if value is not None}
    write_tensors(path, tensors, metadata)


def read_layer(
    path: str | os.PathLike[str],
) -> tuple[NDArray, NDArray, bool, Factors | None, str]:
    """Read (theta, w, constant, factors, attention); all but a layer file is a ``ValueError``."""
    from safetensors import SafetensorError, safe_open

    some_path("path", path, "a gradine layer file")
    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: no such file")
    if not Path(path).is_file():
        raise ValueError(f"{path}: not a file; expected a gradine layer file")
    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            constant, attention = _check_header(file)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        theta, w = (tensors.pop(name) for name in HEADS)
        return theta, w, constant, Factors(**tensors) if tensors else None, attention
    except SafetensorError as error:
        raise ValueError(f"{path}: not a gradine layer file, or damaged ({error})") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _check_header(file: Any) -> tuple[bool, str]:
    """Refuse a safetensors file that is not a layer of ours; its constant flag and attention."""
    metadata = file.metadata() or {}
    if metadata.get("format") != FORMAT:
        raise ValueError("not a gradine layer file")
    version = metadata.get("format_version")
    if version not in (FORMAT_VERSION, NAMED_VERSION):
        expected = f"{FORMAT_VERSION!r} or {NAMED_VERSION!r}"
        raise ValueError(f"layer format version {version!r}; expected {expected}")
    named = metadata.get("attention") if version == NAMED_VERSION else SOFTMAX.name
    attention = attention_function(named).name
    if metadata.get("constant") not in ("true", "false"):
        raise ValueError(f"constant is {metadata.get('constant')!r}; expected 'true' or 'false'")
    names = set(file.keys())
    layouts: list[dict[str, int]] = [HEADS, HEADS | FACTORS, HEADS | FACTORS | BIAS]
    layout = next((layout for layout in layouts if set(layout) == names), None)
    if layout is None:
        expected = f"{list(HEADS)}, or these with {list(FACTORS)} and at most 'bias'"
        raise ValueError(f"holds {sorted(names)}; expected {expected}")
    # Single precision is good enough for heads; factors must multiply to them in double.
    types = ("F64", "F32") if layout is HEADS else ("F64",)
    for name, axes in layout.items():
        header = file.get_slice(name)
        if header.get_dtype() not in types:
            expected = " or ".join(types)
            raise ValueError(f"{name} has dtype {header.get_dtype()}; expected {expected}")
        if len(header.get_shape()) != axes:
            number = {1: "one axis", 3: "three axes"}[axes]
            raise ValueError(f"{name} has shape {header.get_shape()}; expected {number}")
    return metadata["constant"] == "true", attention
