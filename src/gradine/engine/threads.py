"""Cores and threads: linear algebra by one thread has the same last bit everywhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

__all__ = ["one_thread", "pin_threads", "usable_cores"]

#: What the usual libraries of linear algebra read when they are loaded.
SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def usable_cores() -> int:
    """Processor cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not every system tells
        return os.cpu_count() or 1


@contextmanager
def one_thread(*, torch: bool = False) -> Iterator[None]:
    """Linear algebra by one thread within the body; with ``torch``, PyTorch too.

    Products summed by one thread have the same last bit wherever they are computed, and workers
    side by side do not wait for each other's threads.
    """
    import scipy.linalg  # noqa: F401 (only what is loaded can be limited)
    from threadpoolctl import threadpool_limits

    before = None
    if torch:
        import torch as library

        before = library.get_num_threads()
        library.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        if torch and before is not None:
            library.set_num_threads(before)  # pyright: ignore[reportPossiblyUnboundVariable]


@cache
def pin_threads() -> None:
    """Linear algebra by one thread for as long as this process lives: it is a worker's.

    Not for the time of a task: where a worker has several threads, the first to end its task would
    give the threads back in the middle of another's.
    """
    os.environ.update(dict.fromkeys(SETTINGS, "1"))  # for what is loaded later
    import scipy.linalg  # noqa: F401 (only what is loaded can be limited)
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
