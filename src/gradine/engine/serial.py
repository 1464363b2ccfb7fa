"""The engine that needs nothing, and what all engines have in common."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from gradine.engine.parcel import Parcel

__all__ = [
    "BlockSource",
    "Engine",
    "FailedBlockError",
    "Kernel",
    "ReadingKernel",
    "run_all",
    "run_block",
]

Array = NDArray[np.float64]
Task = TypeVar("Task")
Result = TypeVar("Result")
Partial = TypeVar("Partial")


@runtime_checkable
class ReadingKernel(Protocol):
    """A kernel that reads its block itself, because it needs little of what is there."""

    def read(self, examples: Any, start: int, stop: int) -> Any: ...


#: Called with X, Y and the index of the first example.
Kernel = Callable[[Array, Array, int], Partial] | ReadingKernel

TRIES = 2  # of a block: a disk or a network may fail once


class FailedBlockError(OSError):
    """A block of examples failed more than once; the message names it."""


class BlockSource(Protocol):
    """What a pass needs to know of the examples (``gradine.examples.Examples`` has it all)."""

    @property
    def n(self) -> int: ...
    @property
    def seq_len(self) -> int: ...
    @property
    def dim(self) -> int: ...
    @property
    def out_dim(self) -> int: ...
    def block(self, start: int, stop: int) -> tuple[Array, Array]: ...


class Engine:
    """Who runs the work. This one does: in this process, one piece after another.

    An engine is opened and closed like a file. Its answers are the same to the last bit as those
    of any other: it may not choose the blocks, nor the order in which they are merged.
    """

    name = "serial"
    workers = 1
    in_flight = 1  #: blocks that may be under way, or done and waiting for their turn
    note = ""  #: what people should know of it, such as where a cluster shows itself

    def run(
        self,
        work: Callable[..., Result],
        tasks: Sequence[tuple[Any, ...]],
        *,
        blocks: bool = False,
        until: float | None = None,
    ) -> Iterator[tuple[int, Result]]:
        """``work(*task)`` of every task: its place among the tasks, and what came of it.

        They come as they are done; with ``blocks``, in order. Then the last two members of a task
        are the first and the last example of a block, and a block that fails is tried once more.
        After the time ``until``, by `time.monotonic`, none is begun but the first.
        """
        for place, task in enumerate(tasks):
            if place and time_is_up(until):
                return
            failures = 0
            while True:
                try:
                    result = work(*task)
                    break
                except Exception as error:
                    failures += 1
                    give_up(error, task, failures, blocks)
            yield place, result

    def blocks(
        self,
        examples: BlockSource,
        kernel: Kernel[Partial],
        ranges: Sequence[tuple[int, int]],
        until: float | None = None,
    ) -> Iterator[Partial]:
        """What the kernel makes of each block, in order."""
        tasks = [(examples, kernel, *ends) for ends in ranges]
        for _, partial in self.run(run_block, tasks, blocks=True, until=until):
            yield partial

    def close(self) -> None:
        """End the workers, once they have done what they were given."""

    def abandon(self) -> None:
        """End the workers in the middle of what they do; others are started when needed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.abandon()
        self.close()


def check_engine(engine: Any) -> None:
    """Raise if this is something else than an engine, or None."""
    if engine is not None and not isinstance(engine, Engine):
        raise ValueError(
            f"engine is {engine!r}; expected None or what gradine.engine.open_engine opens"
        )


def time_is_up(until: float | None) -> bool:
    return until is not None and time.monotonic() > until


def run_block(
    examples: BlockSource | Parcel, kernel: Kernel[Partial] | Parcel, start: int, stop: int
) -> Partial:
    """What the kernel makes of one block, wherever that is."""
    source: Any = examples.open() if isinstance(examples, Parcel) else examples
    function: Any = kernel.open() if isinstance(kernel, Parcel) else kernel
    if isinstance(function, ReadingKernel):
        return function.read(source, start, stop)
    return function(*source.block(start, stop), start)


def give_up(error: Exception, task: tuple[Any, ...], failures: int, blocks: bool) -> None:
    """Raise what a task has failed with, unless it is worth another try."""
    # Examples that make no sense will not make more of it the second time.
    if not blocks or isinstance(error, ValueError):
        raise error
    if failures >= TRIES:
        start, stop = task[-2:]
        reason = str(error) or type(error).__name__
        raise FailedBlockError(
            f"examples {start}:{stop} failed {failures} times: {reason}"
        ) from error


def run_all(
    work: Callable[[Task], Result], tasks: Sequence[Task], engine: Engine | None = None
) -> Iterator[tuple[int, Result]]:
    """``work`` of every task, as each is done: its place among the tasks, and what came of it.

    Without an engine that is this process itself. Where it is others, ``work`` must be a function
    of a module, and tasks and results must be picklable. Who leaves the loop early, by an
    exception or by Ctrl-C, ends what is under way at once.

    >>> sorted(run_all(abs, [3, -4]))
    [(0, 3), (1, 4)]
    """
    return (engine or Engine()).run(work, [(task,) for task in tasks])
