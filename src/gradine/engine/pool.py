"""Independent pieces of work, side by side in processes of one thread each."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from gradine.checks import whole_number

__all__ = ["LostWorkerError", "one_thread", "run_all", "usable_cores"]

Task = TypeVar("Task")
Result = TypeVar("Result")


class LostWorkerError(OSError):
    """A worker process was ended from outside, most often because memory ran out."""


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


def run_all(
    work: Callable[[Task], Result], tasks: Sequence[Task], workers: int = 1
) -> Iterator[tuple[int, Result]]:
    """``work`` of every task, as each is done: its place among the tasks, and what came of it.

    One worker is this process itself. More are processes of their own, started afresh: ``work``
    must be a function of a module, and tasks and results must be picklable. Who leaves the loop
    early, by an exception or by Ctrl-C, ends the workers at once.

    >>> sorted(run_all(abs, [3, -4]))
    [(0, 3), (1, 4)]
    """
    workers = min(whole_number("workers", workers, 1), len(tasks))
    if workers <= 1:
        yield from ((place, work(task)) for place, task in enumerate(tasks))
        return
    yield from _in_processes(work, tasks, workers)


def _in_processes(
    work: Callable[[Task], Result], tasks: Sequence[Task], workers: int
) -> Iterator[tuple[int, Result]]:
    import multiprocessing
    from concurrent.futures import Future, ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

    others = set(multiprocessing.active_children())
    # Not forked: a fork in the middle of threads, such as those of PyTorch, may wait for ever.
    context = multiprocessing.get_context("spawn")
    places: dict[Future[Result], int] = {}
    executor = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin)
    try:
        places |= {executor.submit(work, task): place for place, task in enumerate(tasks)}
        for future in as_completed(list(places)):
            yield places[future], future.result()
            del places[future]  # only now: whoever leaves in between leaves early
    except BrokenProcessPool:
        raise LostWorkerError("a worker process was ended from outside (out of memory?)") from None
    finally:
        left = [child for child in multiprocessing.active_children() if child not in others]
        if places:  # left early: nobody waits for what is under way
            for child in left:
                child.terminate()
        # Its own thread joins the workers. Two that join one process get in each other's way, and
        # it would count as alive for a moment longer.
        executor.shutdown(wait=True, cancel_futures=True)


def _begin() -> None:
    """Ctrl-C is for the process that asked; and none is left behind when that one is killed."""
    with suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
