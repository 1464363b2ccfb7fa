"""One run at a time in a folder; the lock of a run that was killed is nobody's."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["LOCK", "only_run"]

LOCK = ".lock"
#: File systems that know no locks: better a run that is not guarded than none.
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}

_held: set[tuple[Path, int]] = set()


@contextmanager
def only_run(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the folder for the time of the body; ``ValueError`` if another run holds it.

    The system keeps the lock, and gives it back when the process ends in whatever way. The file
    itself names the process, for people. Within one thread, a body may hold what it holds already.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with only_run(folder):
    ...         before = os.listdir(folder)
    ...     before, os.listdir(folder)
    (['.lock'], [])
    """
    path = Path(folder).resolve() / LOCK
    held = (path, threading.get_ident())
    if held in _held:
        yield
        return
    descriptor = _taken(path)
    _held.add(held)
    try:
        yield
    finally:
        _held.discard(held)
        with suppress(OSError):
            path.unlink()  # before it is given back: whoever waits for it looks for it again
        os.close(descriptor)


def _taken(path: Path) -> int:
    while True:
        # A link is not followed: what it leads to is not ours to empty.
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(path, flags, 0o666)
        try:
            _lock(descriptor)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f"{os.getpid()}\n".encode())
                return descriptor
        except FileNotFoundError:
            pass  # who held it has ended, and taken the file away
        except BlockingIOError:
            owner = os.read(descriptor, 20).decode(errors="replace").strip()
            os.close(descriptor)
            whose = f" (process {owner})" if owner else ""
            raise ValueError(
                f"{path.parent}: another run{whose} is at work in it; "
                "wait for it, or choose another folder"
            ) from None
        except OSError as error:
            if error.errno in NO_LOCKS:
                return descriptor
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    """`BlockingIOError` if somebody else has it."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # pyright: ignore
        except PermissionError as error:
            raise BlockingIOError from error
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
