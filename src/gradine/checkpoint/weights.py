"""The tensors of a saved model: one safetensors file, or several with an index; never pickle."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine.factors import finite_array
from gradine.files import check_regular, parse_json, read_json

__all__ = ["Weights", "find_weights"]

Array = NDArray[np.float64]

WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"}
DTYPES = ("F64", "F32", "F16", "BF16")


@dataclass(frozen=True)
class Weights:
    """Which tensors there are, and in which file each of them is."""

    path: Path  #: the file that lists them
    files: dict[str, Path]

    def check(self, name: str, shape: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """The shape of a tensor, by its header; ``ValueError`` if it is not as expected."""
        if name not in self.files:
            raise ValueError(f"{self.path}: has no tensor {name}")
        with _opened(self.files[name]) as file:
            if name not in file.keys():  # noqa: SIM118
                raise ValueError(f"has no tensor {name}, though {self.path.name} says so")
            header = file.get_slice(name)
            if header.get_dtype() not in DTYPES:
                expected = f"{', '.join(DTYPES[:-1])} or {DTYPES[-1]}"
                raise ValueError(f"{name} has dtype {header.get_dtype()}; expected {expected}")
            found = tuple(header.get_shape())
            if shape is not None and found != shape:
                raise ValueError(f"{name} has shape {found}; expected {shape}")
            return found

    def read(self, name: str) -> Array:
        """The numbers of a tensor that was checked, in float64."""
        path = self.files[name]
        with _opened(path) as file:
            header = file.get_slice(name)
            if header.get_dtype() == "BF16":
                array = _read_bfloat16(path, name, tuple(header.get_shape()))
            else:
                array = file.get_tensor(name)
            return finite_array(name, array, array.ndim)


def find_weights(path: str | os.PathLike[str]) -> Weights:
    """The tensors of a safetensors file, an index of several, or a folder with either."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    if path.is_dir():
        path = _in_folder(path)
    if path.suffix in PICKLES:
        raise ValueError(f"{path}: pickle can run code and is not read; convert it to safetensors")
    if path.suffix == ".json":
        return Weights(path, _read_index(path))
    with _opened(path) as file:
        return Weights(path, dict.fromkeys(file.keys(), path))


def _in_folder(folder: Path) -> Path:
    for name in (WHOLE, INDEX):
        if (folder / name).is_file():
            return folder / name
    pickles = [path for path in sorted(folder.iterdir()) if path.suffix in PICKLES]
    if pickles:
        return pickles[0]  # refused by its name
    raise ValueError(f"{folder}: holds neither {WHOLE} nor {INDEX}")


def _read_index(path: Path) -> dict[str, Path]:
    """File of each tensor; every file must lie beside the index, whatever it says."""
    weight_map = read_json(path).get("weight_map")
    if not isinstance(weight_map, dict):
        raise ValueError(f"{path}: has no weight_map; expected the index of a sharded model")
    for name in weight_map.values():
        plain = isinstance(name, str) and not set(name) & set("/\\:\0")
        if not plain or not name.endswith(".safetensors"):
            raise ValueError(f"{path}: names the file {name!r}; expected a .safetensors beside it")
    return {tensor: path.parent / name for tensor, name in weight_map.items()}


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A safetensors file whose header has been checked; ``ValueError`` names the file."""
    from safetensors import SafetensorError, safe_open

    check_regular(path)
    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            yield file
    except SafetensorError as error:
        raise ValueError(f"{path}: not a safetensors file, or damaged ({error})") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _read_bfloat16(path: Path, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Numbers of a type that numpy does not have: the upper half of a float32.

    The place of the tensor stands in the JSON at the start of the file, whose length is in the
    first eight bytes.
    """
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        start, stop = parse_json(file.read(length))[name]["data_offsets"]
        file.seek(8 + length + start)
        halves = np.frombuffer(file.read(stop - start), dtype="<u2")
    if len(halves) != math.prod(shape):
        raise ValueError(f"{name} is cut short; expected {math.prod(shape)} numbers")
    return (halves.astype(np.uint32) << 16).view(np.float32).reshape(shape)
