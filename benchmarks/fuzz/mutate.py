"""Files that lie: sound bytes made wrong, at random or where it hurts."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import zipfile
from random import Random
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from gradine.records import _digest

__all__ = [
    "Payload",
    "forged",
    "json_bytes",
    "npy_bytes",
    "npz_bytes",
    "safetensors_bytes",
    "spoiled",
]

#: Numbers at which sizes overflow, or become negative.
SIZES = (0, 1, 2, 7, -1, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1)
DTYPES = (
    *("<f8", ">f8", "<f4", "<f2", "<f16", "<i8", "|i1", "<u4", "|b1", "<c16", "|O", "|V8", "|S5"),
    *("<U3", "<M8[s]", "<m8[ns]", "f", "x8", "", "<f8<f8", "float64", "O8", "<f9", "object"),
)
NAMES = (
    "X.npy",
    "Y.npy",
    "X",
    "x.npy",
    "../X.npy",
    "/tmp/X.npy",
    "X.npy/",
    "\\X.npy",
    "X.npy\0",
    "é",
)
#: Types of tensors, and what is none.
KINDS = ("F64", "F32", "F16", "BF16", "I64", "BOOL", "U8", "F8", "", "f64")
EVIL = (*("1" * 5000, "1e999", "-1e999", "NaN", "Infinity", '"\\ud800"', "-0", "[]", "1.", "0x1"),)
DEEP = 100_000  # brackets within brackets


class Payload:
    """What unpickling it would do: leave a mark that shows that code ran."""

    mark = ""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.mark,)


def spoiled(rng: Random, data: bytes) -> bytes:
    """A few bytes changed, lost, or too many."""
    how, at = rng.randrange(8), rng.randrange(len(data) + 1)
    length = rng.choice((1, 2, 4, 8, 64))
    if how == 0:
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 8))):
            changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(changed)
    if how == 1:
        return data[:at]
    if how == 2:
        return data[:at] + rng.randbytes(length) + data[at + length :]
    if how == 3:
        return data[:at] + rng.choice((b"\0", b"\xff")) * length + data[at + length :]
    if how == 4:
        return data[:at] + struct.pack("<q", _signed(rng.choice(SIZES))) + data[at + 8 :]
    if how == 5:
        return data[:at] + data[at + length :]
    if how == 6:
        return data[:at] + rng.randbytes(length) + data[at:]
    return rng.randbytes(rng.choice((0, 1, 10, 300)))


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def npy_bytes(rng: Random, array: np.ndarray) -> bytes:
    """An .npy file, in most cases with a header that lies."""
    stream = io.BytesIO()
    np.save(stream, _numbers(rng, array))
    how = rng.randrange(6)
    if how == 0:
        return stream.getvalue()
    if how == 1:
        return spoiled(rng, stream.getvalue())
    if how == 2:  # numpy would have to unpickle it
        objects = np.empty(3, dtype=object)
        objects[:] = [Payload(), 1, None]
        stream = io.BytesIO()
        np.save(stream, objects, allow_pickle=True)
        return stream.getvalue()
    if how == 3:
        return pickle.dumps(Payload())
    header = {"descr": rng.choice(DTYPES), "fortran_order": False, "shape": array.shape}
    header["shape"] = rng.choice((array.shape, array.shape, _shape(rng, array.shape)))
    header["fortran_order"] = rng.choice((False, False, True, 3))
    if rng.random() < 0.5:
        header["descr"] = "<f8"
    if rng.random() < 0.1:
        header[rng.choice(("extra", "descr", "shape"))] = rng.choice(
            (None, [], "x", [("a", "<f8")])
        )
    text = repr(header) if rng.random() < 0.9 else rng.choice(("(" * 5000, "9" * 9000, "{}", "'"))
    encoded = (text + rng.choice(("\n", "", " " * 70))).encode()
    length = rng.choice((len(encoded), len(encoded), rng.choice(SIZES) % 2**16))
    version = rng.choice((b"\1\0", b"\1\0", b"\2\0", b"\3\0", b"\xff\0"))
    size = struct.pack("<H" if version[0] == 1 else "<I", length)
    return b"\x93NUMPY" + version + size + encoded + array.tobytes()


def _numbers(rng: Random, array: np.ndarray) -> np.ndarray:
    """The same array, or with numbers that are none, or far away."""
    if rng.random() < 0.5:
        return array
    changed = array.copy()
    changed.flat[rng.randrange(changed.size)] = rng.choice(
        (np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 1e200)
    )
    with np.errstate(all="ignore"):
        other = changed.astype(rng.choice(("<f4", ">f8", "i8", "f2")))
    return changed if rng.random() < 0.7 else other


def _shape(rng: Random, shape: tuple[int, ...]) -> Any:
    changed: list[Any] = list(shape)
    how = rng.randrange(5)
    if how == 0:
        changed[rng.randrange(len(changed))] = rng.choice(SIZES)
    elif how == 1:
        changed[rng.randrange(len(changed))] = rng.choice((1.5, "3", None, True, (2,), 10**100))
    elif how == 2:
        changed = [rng.choice(SIZES) for _ in range(rng.choice((0, 1, 2, 3, 40)))]
    elif how == 3:
        changed.reverse()
    else:
        return rng.choice((3, "abc", None, [2, 3], {}))
    return tuple(changed)


def npz_bytes(rng: Random, arrays: dict[str, np.ndarray], bomb: bytes) -> bytes:
    """An .npz file: members that lie, twice, misnamed, packed, or of a size they do not have."""
    stream = io.BytesIO()
    plainly, packed = zipfile.ZIP_STORED, (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    kind = rng.choice((plainly, plainly, zipfile.ZIP_DEFLATED, *packed))
    with zipfile.ZipFile(stream, "w", kind) as file:
        for label, array in arrays.items():
            name = f"{label}.npy" if rng.random() < 0.85 else rng.choice(NAMES)
            plain = io.BytesIO()
            np.save(plain, array)
            data = plain.getvalue() if rng.random() < 0.5 else npy_bytes(rng, array)
            for _ in range(1 if rng.random() < 0.95 else 2):
                file.writestr(zipfile.ZipInfo(name), data, compress_type=file.compression)
    data = stream.getvalue()
    how = rng.randrange(8)
    if how == 0:
        return spoiled(rng, data)
    if how == 1:
        return _patched_zip(rng, data)
    if how == 2:
        return _patched_zip(rng, _patched_zip(rng, data))
    if how == 3 and rng.random() < 0.1:
        return bomb
    return data


def _patched_zip(rng: Random, data: bytes) -> bytes:
    """A field of the directory, or of a member's own header, that says something else."""
    mark = rng.choice((b"PK\1\2", b"PK\1\2", b"PK\3\4", b"PK\5\6"))
    places = [at for at in range(len(data)) if data.startswith(mark, at)]
    if not places:
        return data
    at = rng.choice(places) + rng.choice((4, 6, 8, 10, 16, 18, 20, 22, 24, 26, 28, 30, 42))
    width = rng.choice((2, 4))
    value = rng.choice(SIZES) % 2 ** (8 * width)
    return data[:at] + value.to_bytes(width, "little") + data[at + width :]


def safetensors_bytes(rng: Random, data: bytes) -> bytes:
    """A safetensors file whose header lies of its tensors, of itself, or is no JSON."""
    (length,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    how = rng.randrange(5)
    if how == 0:
        return spoiled(rng, data)
    if how == 1:
        text = json_bytes(rng, header)
    else:
        name = rng.choice(list(header))
        part = header[name]
        if name == "__metadata__":
            key = rng.choice([*part, "other"])
            part[key] = rng.choice(("", "1", "2", "true", "x" * 9999, "é\0"))
        elif how == 2:
            part["dtype"] = rng.choice(KINDS)
        elif how == 3:
            part["shape"] = list(part["shape"])
            part["shape"][rng.randrange(len(part["shape"])) if part["shape"] else 0 :] = [
                rng.choice(SIZES)
            ]
        else:
            part["data_offsets"] = [rng.choice((*SIZES, *part["data_offsets"])) for _ in range(2)]
        text = json.dumps(header).encode()
    said = len(text) if rng.random() < 0.9 else rng.choice(SIZES) % 2**64
    if rng.random() < 0.2:
        nans = np.full(len(body) // 8, np.nan).tobytes()
        body = rng.choice((b"", body[:-8], body + b"\0" * 8, nans))
    return struct.pack("<Q", said) + text + body


def json_bytes(rng: Random, value: Any) -> bytes:
    """JSON of almost the same value, or what is almost JSON."""
    how = rng.randrange(8)
    text = json.dumps(_changed(rng, json.loads(json.dumps(value))))
    if how == 0:
        return spoiled(rng, text.encode())
    if how == 1:
        return text.encode(rng.choice(("utf-16", "utf-32", "utf-8-sig", "utf-7", "cp037")))
    if how == 2:
        deep = rng.choice(("[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP, "[" * DEEP))
        return text.replace("null", deep, 1).encode() if "null" in text else deep.encode()
    if how == 3:
        return text.replace("null", rng.choice(EVIL)).encode() + rng.choice((b"", b"x", b"\xff"))
    return text.encode()


def _changed(rng: Random, value: Any) -> Any:
    """One node of a JSON value replaced, renamed or gone."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        how = rng.randrange(10)
        if how == 0:
            del value[key]
        elif how == 1:
            value[rng.choice(("", "key", "é", "x" * 5000))] = value.pop(key)
        else:
            value[key] = _changed(rng, value[key])
        return value
    if isinstance(value, list) and value and rng.random() < 0.85:
        at = rng.randrange(len(value))
        value[at] = _changed(rng, value[at])
        return value if rng.random() < 0.9 else value * 2
    evil = (None, None, True, 0, -1, 10**30, 1.5, -1e300, "", "x", "../x", "/etc/passwd", [], {})
    return rng.choice((*evil, [None], {"a": None}, float("nan"), "\ud800", "x" * 10_000, [[]] * 50))


def forged(rng: Random, data: bytes) -> bytes:
    """A record of a run whose numbers are others, and whose digest is that of the others."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])["__metadata__"]
    tensors = load(data)
    if tensors and rng.random() < 0.6:
        name = rng.choice(sorted(tensors))
        tensors[name] = _forged_array(rng, tensors[name])
    else:
        header["fields"] = json_bytes(rng, json.loads(header["fields"])).decode(errors="replace")
    if "blocks" in header and rng.random() < 0.3:
        header["blocks"] = str(rng.choice((*SIZES, "", "x", "\u0663")))
    header["digest"] = _digest(header, tensors)
    return save(tensors, metadata=header)


def _forged_array(rng: Random, array: np.ndarray) -> np.ndarray:
    changes = (
        lambda: array * 0.5,
        lambda: array * np.nan,
        lambda: array.astype(np.float32),
        lambda: array.ravel(),
        lambda: array[..., None],
        lambda: array[:0] if array.ndim else array,
        lambda: array[..., :1] if array.ndim else array,
        lambda: np.zeros((2, 2)),
        lambda: np.ascontiguousarray(array.T) * 2,
        lambda: np.array(-1),
        lambda: array.astype(bool),
    )
    return np.ascontiguousarray(rng.choice(changes)())
