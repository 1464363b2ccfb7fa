"""What tests have workers do: functions that can be pickled, some of which fail on purpose."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np


def total(X, Y, start):
    """Sums whose last bits depend on the order in which they are made."""
    return [X.reshape(-1, X.shape[2]).T @ Y.reshape(-1, Y.shape[2]), np.array(float(len(X)))]


def add(a, b):
    return [x + y for x, y in zip(a, b, strict=True)]


def rows(X, Y, start):
    return X[:, 0, 0].tolist()


@dataclass(frozen=True)
class Slow:
    """Rows of a block; one block takes long, so that others arrive before it."""

    slow: int
    seconds: float

    def __call__(self, X, Y, start):
        time.sleep(self.seconds if start == self.slow else 0.0)
        return rows(X, Y, start)


@dataclass(frozen=True)
class FailsOnce:
    """Fails at one block until a file is there."""

    at: int
    folder: Path
    how: str = "raise"

    def __call__(self, X, Y, start):
        with (self.folder / f"{start}.begun").open("a") as file:
            file.write("x")
        mark = self.folder / "failed"
        if start == self.at and not mark.exists():
            mark.touch()
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("the disk hiccupped")
        return rows(X, Y, start)


@dataclass(frozen=True)
class Fails:
    """Always fails at one block."""

    at: int
    error: str

    def __call__(self, X, Y, start):
        if start == self.at and self.error == "kill":
            os._exit(1)
        if start == self.at:
            raise {"value": ValueError, "other": RuntimeError}[self.error](
                f"example {start} is bad"
            )
        return rows(X, Y, start)


def threads(*_):
    """Threads that the linear algebra of this process uses."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}
