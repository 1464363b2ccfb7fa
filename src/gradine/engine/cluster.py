"""Workers of a Dask cluster: one that is there already, or one that is started on this machine."""

from __future__ import annotations

import logging
import os
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from contextlib import contextmanager, suppress
from typing import Any

from gradine.engine.crew import Crew
from gradine.engine.parcel import Parcel, Shipment
from gradine.engine.threads import usable_cores

__all__ = ["DaskCluster", "LostSchedulerError"]

JOINING = 60.0  # seconds in which a worker must have joined
CONNECTING = 10.0  # seconds in which a scheduler must answer, also after a broken connection
RETURNING = "MALLOC_TRIM_THRESHOLD_"
CLIENT_EXECUTOR = "distributed.cfexecutor"
SCATTERED = 2**20  # bytes from which a parcel is put on the workers instead of sent with each block


class LostSchedulerError(OSError):
    """The scheduler of a cluster cannot be reached, or no longer."""


class DaskCluster(Crew):
    """Through `Client.get_executor`; ``scheduler`` is an address, None starts a local cluster.

    Workers of a cluster need Gradine in the same version. They should have as many threads as
    cores: each block takes one.
    """

    name = "dask"
    patience: float | None = 5.0

    def __init__(self, workers: int | None = None, scheduler: str | None = None) -> None:
        distributed = _distributed()
        from distributed.scheduler import KilledWorker

        # A task is cancelled when data it needs went with a worker, or the scheduler with all.
        self.lost = (KilledWorker, CancelledError, distributed.client.FutureCancelledError)
        self._put: dict[str, Any] = {}  # parcels on the workers, by token
        self._large: dict[str, Parcel] = {}
        self._cluster = None
        self._address = scheduler
        if scheduler is None:
            with _for_long_blocks():
                self._cluster = distributed.LocalCluster(
                    n_workers=workers or usable_cores(),
                    threads_per_worker=1,
                    dashboard_address=":0",
                    silence_logs=logging.CRITICAL,
                )
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it is said in one line here
        try:
            self._client = distributed.Client(self._cluster or scheduler, timeout=CONNECTING)
            self._client.wait_for_workers(1, timeout=JOINING)
            self._check_versions()
        except (OSError, TimeoutError, ValueError) as error:
            self._end()
            if isinstance(error, ValueError) and "version" in str(error):
                raise
            raise LostSchedulerError(
                f"scheduler is {scheduler!r}; expected the address of a Dask scheduler "
                f"with a worker ({str(error) or type(error).__name__})"
            ) from error
        super().__init__(self._threads())
        self.note = f"Dask dashboard: {self._client.dashboard_link}"

    def _threads(self) -> int:
        return max(1, sum(self._client.nthreads().values()))

    def _check_versions(self) -> None:
        from gradine import __version__

        try:
            found = set(self._client.run(_version).values())
        except ImportError as error:
            raise ValueError(f"workers have no gradine; expected version {__version__}") from error
        if found != {__version__}:
            raise ValueError(
                f"workers have gradine {', '.join(sorted(found))}; expected version {__version__}"
            )

    def start(self) -> Executor:
        self.workers = self._threads()  # others may have joined
        return self._client.get_executor(pure=False)

    def submit(self, work: Callable[..., Any], task: tuple[Any, ...]) -> Future[Any]:
        there = [
            self._put.get(item.token, item) if isinstance(item, Parcel) else item for item in task
        ]
        return super().submit(work, tuple(there))

    def ship(self, thing: Any) -> Shipment:
        shipment = super().ship(thing)
        parcel = shipment.parcel
        if len(parcel.stream) >= SCATTERED:
            self._large[parcel.token] = parcel
            self._put[parcel.token] = self._client.scatter(parcel, broadcast=True, hash=False)
        return shipment

    def unship(self, shipment: Shipment) -> None:
        self._large.pop(shipment.parcel.token, None)
        self._put.pop(shipment.parcel.token, None)
        super().unship(shipment)

    def check(self) -> None:
        until = time.monotonic() + CONNECTING
        while self._client.status == "connecting" and time.monotonic() < until:
            time.sleep(0.1)
        if self._client.status != "running":
            where = f" at {self._address}" if self._address else ""
            raise LostSchedulerError(f"the Dask scheduler{where} went away")

    def is_loss(self, error: BaseException) -> bool:
        # When the connection breaks while an outcome is handed on, Dask's executor takes the one
        # error of a cancelled task apart as if it were the three parts of a failed one.
        return super().is_loss(error) or (
            isinstance(error, ValueError) and _raised_in(error) == CLIENT_EXECUTOR
        )

    def abandon(self) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            with suppress(Exception):  # a scheduler that is gone has nothing left to cancel
                executor.shutdown(wait=False)

    def renew(self, generation: int) -> None:
        """Tasks under way are Dask's to save; what was put on workers may be gone with them."""
        if generation == self.generation:
            self.generation += 1
            for token, parcel in self._large.items():
                self._put[token] = self._client.scatter(parcel, broadcast=True, hash=False)

    def close(self) -> None:
        self.abandon()
        super().close()
        self._end()

    def _end(self) -> None:
        for thing in (getattr(self, "_client", None), self._cluster):
            if thing is not None:
                with suppress(Exception):  # what is gone needs no closing
                    thing.close()


@contextmanager
def _for_long_blocks() -> Iterator[None]:
    """A cluster that is started within is made for few tasks that take long, not for many.

    Workers do not give memory back to the system after every array, as Dask asks of them by
    default: blocks are arrays of one size, one after the other, and asking for each of them anew
    takes up to two thirds of the time of the block itself. And no worker has a block waiting: at
    the end of a pass it would wait there while another worker has nothing to do.
    """
    import dask.config

    name = "distributed.nanny.pre-spawn-environ"
    kept = {key: value for key, value in dask.config.get(name).items() if key != RETURNING}
    os.environ.pop(RETURNING, None)  # where an earlier cluster of this process has left it
    with dask.config.set({name: kept, "distributed.scheduler.worker-saturation": 1.0}):
        yield


def _raised_in(error: BaseException) -> str | None:
    """The module whose code raised an error."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return frames[-1].f_globals.get("__name__") if frames else None


def _version() -> str:
    from gradine import __version__

    return __version__


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise ValueError(
            "engine 'dask' needs dask.distributed: pip install 'gradine[cluster]'"
        ) from None
    return distributed
