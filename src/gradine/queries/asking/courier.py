"""Who carries the questions: batches, budget, retries, and the log of what came back."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gradine.queries.asking.batch import Batch
from gradine.queries.asking.config import OracleConfig
from gradine.queries.asking.errors import BudgetSpent, MisuseError, OracleFailed
from gradine.queries.asking.log import AnswerLog
from gradine.queries.asking.readout import Readout
from gradine.queries.asking.sources import Answerer
from gradine.status import NotLearned

__all__ = ["Courier", "Usage"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

BATCH_BYTES = 64 * 2**20  # tokens of one call
SAVE_EVERY = 1.0  # seconds between writes of a batch whose answers come one at a time


@dataclass(frozen=True)
class Usage:
    """What asking has cost; with a log, in the run that is resumed, too."""

    queries_used: int = 0  #: sequences sent, those sent again after a failure too
    queries_recalled: int = 0  #: of these, how many an earlier run had sent
    rows_used: int = 0  #: rows of the answers that are visible
    failures: int = 0  #: calls that failed, or left some of their questions without an answer
    seconds: float = 0.0  #: spent in the oracle, without the waits between retries


class Courier:
    """Takes questions that may be sent to the source, and brings the answers."""

    usage: Usage
    budget: int | None
    name: str
    out_dim: int | None

    def __init__(
        self,
        source: Answerer,
        readout: Readout,
        config: OracleConfig,
        on_answer: Callable[[int], None] | None,
        sleep: Callable[[float], None],
    ) -> None:
        self.usage = Usage()
        self.budget = config.max_queries
        self.name = source.name
        self.out_dim = source.out_dim if readout.output is None else 1
        self.log: AnswerLog | None = None
        self._source = source
        self._readout = readout
        self._config = config
        self._on_answer = on_answer
        self._sleep = sleep
        self._saved_at = time.monotonic()

    def answers(self, X: Array) -> Array:
        """The answers to all of X; only questions that the log does not hold are sent."""
        Y: Array | None = None
        done = 0
        while done < len(X):
            batch = self._next_batch(X[done:])
            self._complete(batch, to_follow=len(X) - done - len(batch.X))
            if Y is None:
                Y = np.empty((len(X), *batch.answers.shape[1:]))
            Y[done : done + len(batch.X)] = batch.answers
            done += len(batch.X)
        assert Y is not None  # X is not empty
        return Y

    def _next_batch(self, X: Array) -> Batch:
        """The next batch of the log with the answers it holds, or one of the usual size."""
        rows = self._readout.n_rows(X.shape[1])
        logged = None if self.log is None else self.log.recall(X, rows, self.out_dim)
        if logged is None:
            fit = BATCH_BYTES // (8 * X.shape[1] * X.shape[2])
            return Batch(X[: max(1, min(self._config.batch_size, fit))])
        self._count(
            queries_used=logged.sent,
            queries_recalled=logged.sent,
            rows_used=int(logged.answered.sum()) * logged.Y.shape[1],
            failures=logged.failures,
            seconds=logged.seconds,
        )
        self.out_dim = logged.Y.shape[2]
        self._tell()
        return Batch(X[: len(logged.Y)], logged)

    def _complete(self, batch: Batch, to_follow: int) -> None:
        """Send what has no answer until it has one; ``to_follow`` more questions come after."""
        idle = 0  # calls in a row that brought nothing
        try:
            while missing := len(batch.missing()):
                # All of a question block or nothing: half of a design is of no use.
                self._check_budget(missing + to_follow)
                failure = self._send(batch)
                if failure is None:
                    continue
                batch.failures += 1
                self._count(failures=1)
                idle = idle + 1 if len(batch.missing()) == missing else 0
                if idle > self._config.retries:
                    raise OracleFailed(f"{self.name}: {_in_words(failure)}") from failure
                pause = self._config.wait * 2.0 ** min(max(idle - 1, 0), 60)
                self._sleep(min(pause, self._config.longest_wait))
            self._save(batch)
        except BaseException:  # an impatient user is no reason to lose answers, either
            with suppress(OSError):
                self._save(batch)
            raise

    def _check_budget(self, needed: int) -> None:
        used = self.usage.queries_used
        if self.budget is not None and used + needed > self.budget:
            raise BudgetSpent(
                f"{used} of {self.budget} queries are used, and the next block takes {needed}",
                queries_used=used,
                max_queries=self.budget,
                needed=needed,
            )

    def _send(self, batch: Batch) -> Exception | None:
        """Send what is missing once; what went wrong, if something did."""
        which = batch.missing()
        if not self._source.one_at_a_time:
            return self._call(batch, which)
        for i in which:
            failure = self._call(batch, np.array([i]))
            if failure is not None:
                return failure  # the others wait: an oracle that is down is not hammered
            if time.monotonic() - self._saved_at > SAVE_EVERY:
                self._save(batch)
        return None

    def _call(self, batch: Batch, which: Indices) -> Exception | None:
        tokens = batch.X[which]  # a copy, whatever the source does to it
        if self._source.one_at_a_time:
            tokens = tokens[0]
        batch.sent += len(which)
        self._count(queries_used=len(which))
        began = time.perf_counter()
        try:
            answer = self._source.call(tokens)
        except (NotLearned, MisuseError):
            raise  # of an oracle that is asked by this one: it has tried
        except Exception as failure:
            return failure
        except SystemExit as left:
            return RuntimeError(f"it called sys.exit({left.code!r})")
        finally:
            seconds = time.perf_counter() - began
            batch.seconds += seconds
            self._count(seconds=seconds)
        Y = self._readout.read(answer, tokens.shape, self.name)
        taken = batch.take(which, Y, self.out_dim, self.name)
        self.out_dim = Y.shape[2]
        self._count(rows_used=taken * Y.shape[1])
        self._tell()
        if taken == len(which):
            return None
        return ArithmeticError(f"{len(which) - taken} of {len(which)} answers are not finite")

    def _save(self, batch: Batch) -> None:
        if self.log is None or not batch.unsaved:
            return
        self.log.keep(batch.to_log(), again=batch.logged)
        batch.logged, batch.unsaved = True, False
        self._saved_at = time.monotonic()

    def _count(self, **more: float) -> None:
        totals = {name: getattr(self.usage, name) + value for name, value in more.items()}
        self.usage = replace(self.usage, **totals)

    def _tell(self) -> None:
        if self._on_answer is not None:
            self._on_answer(self.usage.queries_used)


def _in_words(failure: Exception) -> str:
    if isinstance(failure, ArithmeticError) and type(failure) is ArithmeticError:
        return str(failure)
    text = " ".join(str(failure).split())
    return f"{type(failure).__name__}: {text}" if text else type(failure).__name__
