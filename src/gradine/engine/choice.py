"""Which engine: the one that is asked for, or the one that a pass is worth."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from gradine.checks import whole_number
from gradine.engine.cluster import DaskCluster
from gradine.engine.pool import Pool
from gradine.engine.serial import BlockSource, Engine, Kernel, time_is_up
from gradine.engine.threads import usable_cores

__all__ = ["ENGINES", "Auto", "open_engine"]

Result = TypeVar("Result")
Partial = TypeVar("Partial")

ENGINES = ("auto", "serial", "pool", "dask")

# The rule by which a pass goes to a pool unasked, in seconds that are left of it in this process.
WORTH_STARTING = 6.0  # where workers have to be started, which takes a second or two
WORTH_SENDING = 0.5  # where they are there

MOST_PER_CORE = 16  # processes: more only take memory from each other


class Auto(Engine):
    """This process, until what is left of a pass is worth a pool on the other cores.

    The first block of a pass tells. Answers do not depend on who computes them, so that neither
    do they on how fast the first block was.
    """

    name = "auto"

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool = Pool(workers)

    def run(
        self,
        work: Callable[..., Result],
        tasks: Sequence[tuple[Any, ...]],
        *,
        blocks: bool = False,
        until: float | None = None,
    ) -> Iterator[tuple[int, Result]]:
        many = len(tasks) > 1 and self.workers > 1
        return (self._pool if many else super()).run(work, tasks, blocks=blocks, until=until)

    def blocks(
        self,
        examples: BlockSource,
        kernel: Kernel[Partial],
        ranges: Sequence[tuple[int, int]],
        until: float | None = None,
    ) -> Iterator[Partial]:
        here = Engine()
        for place in range(len(ranges)):
            if place and time_is_up(until):
                return
            began = time.perf_counter()
            yield from here.blocks(examples, kernel, ranges[place : place + 1])
            left = (time.perf_counter() - began) * (len(ranges) - place - 1)
            worth = WORTH_SENDING if self._pool.started else WORTH_STARTING
            if self.workers > 1 and left > worth:
                yield from self._pool.blocks(examples, kernel, ranges[place + 1 :], until)
                return

    def abandon(self) -> None:
        self._pool.abandon()

    def close(self) -> None:
        self._pool.close()


def open_engine(
    name: str = "auto", workers: int | None = None, scheduler: str | None = None
) -> Engine:
    """An engine by name, to be closed after use.

    ``serial`` is this process, ``pool`` processes on this machine (as many as cores, if
    ``workers`` is None), ``dask`` a Dask cluster, by the address of its scheduler or a local one.
    ``auto`` begins here and uses a pool where that is worth it.

    >>> with open_engine("pool", workers=2) as engine:
    ...     engine.name, engine.workers
    ('pool', 2)
    """
    if name not in ENGINES:
        raise ValueError(f"engine is {name!r}; expected one of {', '.join(ENGINES)}")
    _check_workers(workers)
    if scheduler is not None and name != "dask":
        raise ValueError(f"scheduler is for engine 'dask'; leave it out with {name!r}")
    if scheduler is not None and workers is not None:
        raise ValueError(f"workers is {workers}; leave it out: the cluster has its own")
    if name == "serial":
        if workers not in (None, 1):
            raise ValueError(f"workers is {workers}; expected 1 with engine 'serial'")
        return Engine()
    if name == "dask":
        return DaskCluster(workers, scheduler)
    count = usable_cores() if workers is None else workers
    return Pool(count) if name == "pool" else Auto(count)


def _check_workers(workers: int | None) -> None:
    if workers is None:
        return
    most = MOST_PER_CORE * usable_cores()
    if whole_number("workers", workers, 1) > most:
        raise ValueError(
            f"workers is {workers}; expected at most {most}, which is {MOST_PER_CORE} for each core"
        )
