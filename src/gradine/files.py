"""The one path by which Gradine writes a file, complete or not at all, and reads JSON."""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = [
    "OutputError",
    "atomic_folder",
    "atomic_write",
    "check_new",
    "check_regular",
    "check_replaceable",
    "finite",
    "parse_json",
    "read_json",
    "write_bytes",
    "write_json",
    "write_tensors",
    "write_text",
]

JSON_BYTES = 64 * 2**20  # an index of a large model has a few megabytes
LONGEST_NAME = 200  # bytes of it that a temporary name keeps: file systems allow 255


class OutputError(OSError):
    """A file could not be written; the message names the file and the reason."""


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; move it there once the body has succeeded.

    A reader sees the old file or the whole new one, never a part. The temporary name keeps the
    suffix, because numpy and matplotlib choose or change a format by it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder, "note.txt")
    ...     with atomic_write(target) as temporary:
    ...         _ = temporary.write_text("carved")
    ...     print(target.read_text(), len(os.listdir(folder)))
    carved 1
    """
    target = Path(path)
    check_replaceable(target)  # before anything is written beside it
    temporary = _beside(target)
    try:
        # Created by hand rather than by `tempfile`, whose files only their owner may read.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield temporary
        _flush_to_disk(temporary)
        os.replace(temporary, target)
    except OutputError:
        raise
    except OSError as error:
        # An error about another file (an input read inside the body) is not ours to rename.
        if error.filename not in (None, temporary, str(temporary)):
            raise
        raise OutputError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def atomic_folder(path: str | os.PathLike[str], *, replace: bool = False) -> Iterator[Path]:
    """Yield a temporary folder beside ``path``, a new one; move it there once the body succeeded.

    With ``replace`` a folder that is there is taken away then, with all that it holds.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_folder(Path(folder, "data")) as temporary:
    ...         write_text(temporary / "note.txt", "carved")
    ...     print(*os.listdir(folder), *os.listdir(Path(folder, "data")))
    data note.txt
    """
    target = Path(path)
    if os.path.lexists(target) and not replace:
        raise OutputError(f"cannot write {target}: it exists already")
    temporary, earlier = _beside(target), _beside(target)
    try:
        temporary.mkdir()
        yield temporary
        if replace and target.is_dir():
            os.rename(target, earlier)
        os.rename(temporary, target)
    except OutputError:
        raise
    except OSError as error:
        if error.filename is not None and not str(error.filename).startswith(str(temporary)):
            raise  # about another file
        raise OutputError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if earlier.exists() and not os.path.lexists(target):  # stopped between the two
            os.rename(earlier, target)
        shutil.rmtree(earlier, ignore_errors=True)


def _beside(target: Path) -> Path:
    """A name of its own for what is to become ``target``; no longer than a name may be."""
    if not target.name:
        raise OutputError(f"cannot write {target}: is a folder")
    stem = os.fsdecode(os.fsencode(target.stem)[: LONGEST_NAME - len(os.fsencode(target.suffix))])
    return target.with_name(f".{stem}.{secrets.token_hex(6)}{target.suffix}")


def _flush_to_disk(path: Path) -> None:
    """Ask for the bytes to be on the disk before the name points to them."""
    # Opened for writing: some systems refuse to flush a read-only descriptor.
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def printable(name: str) -> str:
    r"""A name of a file as text that can be written as UTF-8, whatever bytes it is made of.

    >>> printable("bad\udcff.npz")
    'bad\\xff.npz'
    """
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write ``data`` to ``path`` atomically."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` to ``path`` atomically, as UTF-8 with the line ends it came with."""
    write_bytes(path, text.encode("utf-8"))


def write_tensors(
    path: str | os.PathLike[str], arrays: Mapping[str, Any], metadata: Mapping[str, str]
) -> None:
    """Write a safetensors file; the same content gives the same bytes.

    The library writes metadata in an order that differs from process to process.
    """
    from safetensors.numpy import save

    data = save(dict(arrays), metadata=dict(metadata))
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # numbers are aligned
    write_bytes(path, len(text).to_bytes(8, "little") + text + data[begin:])


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write ``value`` as indented JSON; numpy scalars and arrays become numbers and lists.

    NaN and infinity are no JSON: they raise ``ValueError`` before anything is written.
    """
    try:
        text = json.dumps(value, indent=2, allow_nan=False, default=_plain)
    except ValueError as error:
        raise ValueError(f"value for {path} is not JSON: {error}") from error
    write_text(path, text + "\n")


def finite(value: Any) -> Any:
    """The same with None for every NaN and infinity, which JSON cannot hold.

    >>> finite({"gap": float("inf"), "losses": [1.0, float("nan")]})
    {'gap': None, 'losses': [1.0, None]}
    """
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_new(path: Path, overwrite: bool) -> None:
    """Refuse to replace a file unasked."""
    # A link that leads nowhere is there, too.
    if os.path.lexists(path) and not path.is_dir() and not overwrite:
        raise ValueError(f"{path}: exists already; choose another --out, or --overwrite it")
    if not path.is_dir():  # of a folder, the command itself knows whether it can be
        check_replaceable(path)


def check_replaceable(path: Path) -> None:
    """Refuse to put a file in the place of a folder, or of a device or a pipe: others need those.

    >>> check_replaceable(Path("no such file"))
    """
    if path.is_dir():
        raise OutputError(f"cannot write {path}: is a folder")
    if path.exists() and not path.is_file():
        raise OutputError(f"cannot write {path}: is no plain file")


def check_regular(path: Path) -> None:
    """Refuse what is no plain file: a pipe may never end, and neither does /dev/zero."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    if not path.is_file():
        raise ValueError(f"{path}: not a file")


def parse_json(text: str | bytes) -> Any:
    """What JSON text says; ``ValueError`` for all that is wrong with it, nested too deep as well.

    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ValueError: nested too deep
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object of a file, or a ``ValueError`` naming the file."""
    check_regular(path)
    if path.stat().st_size > JSON_BYTES:
        raise ValueError(f"{path}: is larger than {JSON_BYTES >> 20} MiB; expected a JSON object")
    try:
        value = parse_json(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error})") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path}: holds a {type(value).__name__}; expected a JSON object")
    return value


def _plain(value: Any) -> Any:
    # Asked by its method: the command line writes files before it needs numpy.
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
