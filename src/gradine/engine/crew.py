"""Work side by side, by any executor of `concurrent.futures`; what is lost is done again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import Any, TypeVar

from gradine.engine.parcel import Shipment
from gradine.engine.serial import BlockSource, Engine, Kernel, give_up, run_block, time_is_up
from gradine.engine.threads import pin_threads
from gradine.refusals import keep_whether_refusal

__all__ = ["Crew", "LostWorkerError"]

Result = TypeVar("Result")
Partial = TypeVar("Partial")

IN_FLIGHT = 3  # tasks for each worker that are under way, or done and waiting for their turn
MOST_LOSSES = 3  # workers that one task may lose before it is taken for the reason


class LostWorkerError(OSError):
    """Worker processes were ended from outside, most often because memory ran out."""


class Crew(Engine):
    """An engine whose work is done by an executor, which is started when it is first needed.

    Subclasses say how it is started, which errors mean that a worker is lost, and how to go on.
    """

    #: Errors of a future that say nothing of its task: the worker is gone.
    lost: tuple[type[BaseException], ...] = ()
    mapped = False  #: whether workers can map files of this machine
    patience: float | None = None  #: seconds after which a silent executor is looked at

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.generation = 0  #: how often the executor was replaced
        self._executor: Executor | None = None
        self._examples: Shipment | None = None

    @property
    def in_flight(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return IN_FLIGHT * self.workers

    @property
    def started(self) -> bool:
        return self._executor is not None

    def start(self) -> Executor:
        raise NotImplementedError

    def check(self) -> None:
        """Raise if those who should answer are gone."""

    def is_loss(self, error: BaseException) -> bool:
        """Whether an error of a future says nothing of its task."""
        return isinstance(error, self.lost)

    def submit(self, work: Callable[..., Any], task: tuple[Any, ...]) -> Future[Any]:
        if self._executor is None:
            self._executor = self.start()
        return self._executor.submit(call, work, *task)

    def renew(self, generation: int) -> None:
        """Replace the executor that was in use at that time, if nobody has done so."""
        if generation == self.generation:
            self.abandon()
            self.generation += 1

    def run(
        self,
        work: Callable[..., Result],
        tasks: Sequence[tuple[Any, ...]],
        *,
        blocks: bool = False,
        until: float | None = None,
    ) -> Iterator[tuple[int, Result]]:
        flight = _Flight(self, work, tasks, blocks)
        arrived: dict[int, Result] = {}
        begun = due = 0
        try:
            while due < len(tasks):
                if begun and time_is_up(until):
                    tasks = tasks[:begun]
                # What has arrived counts, too: nobody runs far ahead of a block that takes long.
                while begun < len(tasks) and begun - due < self.in_flight:
                    flight.send(begun)
                    begun += 1
                if flight.pending:
                    arrived |= flight.arrivals()
                ready = sorted(arrived) if not blocks else _unbroken(arrived, due)
                for place in ready:
                    due += 1
                    yield place, arrived.pop(place)
        finally:
            if flight.pending:  # left early: nobody waits for what is under way
                self.abandon()

    def blocks(
        self,
        examples: BlockSource,
        kernel: Kernel[Partial],
        ranges: Sequence[tuple[int, int]],
        until: float | None = None,
    ) -> Iterator[Partial]:
        if self._examples is None or self._examples.thing is not examples:
            self._drop_examples()
            self._examples = self.ship(examples)
        shipped = self.ship(kernel)
        try:
            tasks = [(self._examples.parcel, shipped.parcel, *ends) for ends in ranges]
            for _, partial in self.run(run_block, tasks, blocks=True, until=until):
                yield partial
        finally:
            self.unship(shipped)

    def ship(self, thing: Any) -> Shipment:
        return Shipment(thing, mapped=self.mapped)

    def unship(self, shipment: Shipment) -> None:
        shipment.close()

    def _drop_examples(self) -> None:
        if self._examples is not None:
            self.unship(self._examples)
            self._examples = None

    def close(self) -> None:
        self._drop_examples()
        self._executor = None


class _Flight:
    """Tasks that are under way."""

    def __init__(
        self,
        crew: Crew,
        work: Callable[..., Any],
        tasks: Sequence[tuple[Any, ...]],
        blocks: bool,
    ) -> None:
        self.crew, self.work, self.tasks, self.blocks = crew, work, tasks, blocks
        self.pending: dict[Future[Any], tuple[int, int]] = {}
        self._losses: Counter[int] = Counter()
        self._failures: Counter[int] = Counter()

    def send(self, place: int) -> None:
        while True:
            generation = self.crew.generation
            try:
                future = self.crew.submit(self.work, self.tasks[place])
            except self.crew.lost as error:
                self._lose(place, generation, error)
                continue
            self.pending[future] = (place, generation)
            return

    def arrivals(self) -> dict[int, Any]:
        """What has come of some tasks, at least of one; those that failed are begun again."""
        arrived: dict[int, Any] = {}
        while not arrived:
            done, _ = wait(self.pending, self.crew.patience, FIRST_COMPLETED)
            if not done:
                self.crew.check()
            for future in done:
                place, generation = self.pending.pop(future)
                try:
                    arrived[place] = future.result()
                except Exception as error:
                    if self.crew.is_loss(error):
                        self._lose(place, generation, error)
                    else:
                        self._failures[place] += 1
                        give_up(error, self.tasks[place], self._failures[place], self.blocks)
                    self.send(place)
        return arrived

    def _lose(self, place: int, generation: int, error: BaseException) -> None:
        self.crew.check()
        self._losses[place] += 1
        if self._losses[place] > MOST_LOSSES:
            what = "a piece of work"
            if self.blocks:
                start, stop = self.tasks[place][-2:]
                what = f"examples {start}:{stop}"
            raise LostWorkerError(
                f"worker processes were ended from outside {self._losses[place]} times "
                f"during {what} (out of memory? a script without a guard of its main part?)"
            ) from error
        self.crew.renew(generation)


def _unbroken(arrived: dict[int, Any], due: int) -> list[int]:
    """Those that are next in order, as far as they have arrived."""
    ready = []
    while due in arrived:
        ready.append(due)
        due += 1
    return ready


def call(work: Callable[..., Result], *task: Any) -> Result:
    """What a worker does with a task."""
    pin_threads()
    try:
        return work(*task)
    except ValueError as error:
        keep_whether_refusal(error)
        raise
