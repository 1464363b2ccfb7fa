"""How many examples a learner needs: the lowest rung of a ladder on which most trials succeed."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.store import Store
from gradine.atlas import MapConfig, Setting, run_trial

__all__ = ["Climb", "Needed", "fit_growth", "ladder", "needed", "trials"]

Record = dict[str, Any]


@dataclass(frozen=True)
class Climb:
    """One learner on one kind of layer, and the numbers of examples that are tried."""

    learner: str
    setting: Setting
    rungs: tuple[int, ...]  #: numbers of examples, rising
    config: MapConfig
    found: Callable[[Record], bool]  #: whether a trial counts as a success
    trials: int = 3

    @property
    def most(self) -> int:
        """Successes that are needed: more than half."""
        return self.trials // 2 + 1


@dataclass(frozen=True)
class Needed:
    """What was found; None: not with any number that was tried."""

    examples: int | None
    seconds: float | None  #: median of one processor core, at that number
    false_certificates: int


def ladder(low: float, high: float, step: float) -> tuple[int, ...]:
    """Numbers from ``low`` to about ``high``, each ``step`` times the one before, rounded up.

    >>> ladder(10, 45, 2.0)
    (10, 20, 40)
    """
    count = math.floor(math.log(high / low) / math.log(step) + 1e-9) + 1
    return tuple(dict.fromkeys(math.ceil(low * step**i - 1e-9) for i in range(count)))


def needed(climb: Climb, store: Store) -> Needed:
    """Bisection: on the rung that is found more than half of the trials succeed, on the one below
    they do not."""
    low, high = -1, len(climb.rungs)  # fails, succeeds
    reached: dict[int, list[Record]] = {}
    while high - low > 1:
        middle = (low + high) // 2
        reached[middle] = trials(climb, climb.rungs[middle], store)
        if sum(map(climb.found, reached[middle])) >= climb.most:
            high = middle
        else:
            low = middle
    false = sum(bool(r["false_certificate"]) for rung in reached.values() for r in rung)
    if high == len(climb.rungs):
        return Needed(None, None, false)
    seconds = [r["seconds"] for r in reached[high] if climb.found(r)]
    return Needed(climb.rungs[high], statistics.median(seconds), false)


def trials(climb: Climb, n: int, store: Store) -> list[Record]:
    """Trials with n examples, as many as it takes to know which way most of them go."""
    setting, records = replace(climb.setting, examples=n), []
    works = [
        (
            partial(_trial, setting, climb.learner, seed, climb.config),
            (climb.learner, str(setting), str(climb.config), seed),
        )
        for seed in range(climb.trials)
    ]
    store.ahead(works[: climb.most])  # fewer never tell
    for seed, (work, key) in enumerate(works):
        record = store.once(work, *key)
        records.append(record)
        good = sum(map(climb.found, records))
        print(
            f"{climb.learner} m={setting.n_heads} d={setting.dim} n={n} seed {seed}: "
            f"{record['status']}, {'found' if climb.found(record) else 'not found'} "
            f"({record['seconds']:.1f} s)",
            file=sys.stderr,
            flush=True,
        )
        if good >= climb.most or len(records) - good > climb.trials - climb.most:
            break
    return records


def _trial(setting: Setting, learner: str, seed: int, config: MapConfig) -> Record:
    return asdict(run_trial(setting, learner, seed, config))


def fit_growth(x: Sequence[float], n: Sequence[float]) -> dict[str, float]:
    """Least squares of log n against log x (polynomial) and against x (exponential).

    The exponent of the one, the factor a unit of the other, and what each leaves (root mean square
    of log n): the smaller one describes the numbers better. With two points both leave nothing.

    >>> found = fit_growth([1, 2, 4], [3, 12, 48])
    >>> round(found["exponent"], 6), found["power_leaves"] < 1e-9 < found["exponential_leaves"]
    (2.0, True)
    """
    logs = np.log(np.asarray(n, dtype=float))
    left = {}
    for name, along in (("power", np.log(x)), ("exponential", np.asarray(x, dtype=float))):
        A = np.stack([along, np.ones_like(logs)], axis=1)
        slope = np.linalg.lstsq(A, logs, rcond=None)[0]
        left[name] = float(slope[0]), float(np.sqrt(np.mean((A @ slope - logs) ** 2)))
    return {
        "exponent": left["power"][0],
        "power_leaves": left["power"][1],
        "factor": math.exp(left["exponential"][0]),
        "exponential_leaves": left["exponential"][1],
    }
