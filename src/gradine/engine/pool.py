"""A pool of processes on this machine, of one thread each."""

from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any

from gradine.engine.crew import Crew

__all__ = ["Pool"]

UNGUARDED = (
    "gradine: workers read this script, too, and must not start others; "
    'put what it does below a line  if __name__ == "__main__":'
)


class Pool(Crew):
    """Processes started afresh: what they run must be picklable, and a script that uses them must
    guard its main part by ``if __name__ == "__main__"``.

    >>> with Pool(2) as pool:
    ...     sorted(pool.run(abs, [(3,), (-4,)]))
    [(0, 3), (1, 4)]
    """

    name = "pool"
    lost: tuple[type[BaseException], ...] = (BrokenProcessPool,)
    mapped = True
    patience = 2.0

    def start(self) -> Executor:
        import multiprocessing

        # A worker reads the script that started it; one that starts workers there has no guard.
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            sys.exit(UNGUARDED)
        # Not forked: a fork in the middle of threads, such as those of PyTorch, may wait for ever.
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.workers, mp_context=context, initializer=_begin)

    @property
    def processes(self) -> list[int]:
        """Process ids of the workers."""
        return [] if self._executor is None else [one.pid for one in _workers(self._executor)]

    def check(self) -> None:
        """End the executor if one of its workers has ended and it has not noticed.

        A worker that is killed while it sends a result leaves half a message, and the executor
        waits for the rest of it for ever. Its tasks are lost then, as with any worker.
        """
        if self._executor is not None and _some_ended(self._executor):
            _end_workers(self._executor)

    def abandon(self) -> None:
        executor, self._executor = self._executor, None
        if executor is None:
            return
        _end_workers(executor)
        # Its own thread joins the workers. Two that join one process get in each other's way, and
        # it would count as alive for a moment longer.
        executor.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
        super().close()


def _workers(executor: Executor) -> list[Any]:
    # Python 3.14 has methods for this; before, only the executor knows its processes.
    return list((getattr(executor, "_processes", None) or {}).values())


def _some_ended(executor: Executor) -> bool:
    from multiprocessing.connection import wait

    try:
        return bool(wait([process.sentinel for process in _workers(executor)], timeout=0.0))
    except ValueError:  # one has been closed already
        return True


def _end_workers(executor: Executor) -> None:
    """None is left to send, and the executor's thread reads the end of what they have sent."""
    for process in _workers(executor):
        with suppress(ValueError):  # it has been closed already
            process.terminate()
    writer = getattr(getattr(executor, "_result_queue", None), "_writer", None)
    if writer is not None:
        with suppress(OSError):
            writer.close()


def _begin() -> None:
    """Ctrl-C is for the process that asked; and none is left behind when that one is killed. What
    functions of users print is for people: standard output has the answer alone."""
    sys.stdout = sys.stderr
    with suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
