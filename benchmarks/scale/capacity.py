"""What many examples cost on many workers: a model, from what is measured on one.

A run of the six phases makes a few passes over its examples. In each, workers make or read an
example, look at it and send what they found, which takes c seconds of a core, and the main process
merges it, which takes b seconds an example. That does not get faster with workers, but goes on
while they work: n examples take max(n c / (w s), n b) on w workers, with s the share of their time
that two workers keep of one's. Between the passes the main process is alone: linear programs, then
the net. That does not grow with the examples, but steeply with d.

All parts are measured by processor time, with one worker. At dimensions that take hours here, the
part of the main process alone is extrapolated by its growth between smaller ones. The prediction is
checked by the wall time of other runs, on one worker and on two.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gradine
from benchmarks.clock import clock
from benchmarks.scale.rates import screening
from benchmarks.text import markdown
from gradine.engine import Engine, open_engine
from gradine.examples import FirstExamples, FittingData, GeneratedExamples, Split, survey
from gradine.fit import LearnConfig
from gradine.learn import learn_examples
from gradine.progress import Listener
from gradine.sculpt.certify import Slabs
from gradine.sculpt.config import SculptConfig
from gradine.sculpt.crude_sum import crude_sum
from gradine.sculpt.proxy import Choosing, MarginRows

__all__ = [
    "alone_at",
    "capacity_table",
    "checked",
    "main_part",
    "pass_seconds",
    "predicted_seconds",
    "wanted_examples",
]

HEADS, DIMS, WORKERS = (3, 4, 5), (32, 64), (10, 100, 1000)
SEQ_LEN, SCALE = 3, 4.0
MAKING = "making"
#: Passes of each kind that a run makes: phase 4 carves and refines again, mostly once.
PASSES = {"survey": 1, "crude_sum": 1, "sculpt": 2, "proxy": 2}
#: All examples are looked at, also those that would no longer make the body smaller. The hull comes
#: from the spectrum alone: chords are a check, and take 8 linear programs for each head. No polish:
#: it is beyond the theorem, and grows with the cube of all parameters.
CONFIG = LearnConfig(sculpt=SculptConfig(shrinking=0.0, chords=False, polish=False))
#: Single examples that are fetched after the passes: for the net, its check, the certificate, and
#: the size of typical outputs.
FETCHED = (CONFIG.sculpt.net_examples, 2000, 2000, 2000)


def pass_seconds(dim: int, examples: int, seed: int = 0) -> dict[str, dict[str, float]]:
    """Seconds for one example in each kind of pass: of the worker, and of the main process."""
    truth = gradine.plant(3, dim, SCALE, seed=seed)
    made = GeneratedExamples(truth, examples, SEQ_LEN, "boolean", seed + 1)
    none, config = np.zeros(0, dtype=np.intp), SculptConfig()
    screen = screening(truth).screening
    choosing = Choosing(truth.theta.mean(axis=0), int(config.margin_rows_per_unknown * dim))
    with open_engine("pool", 1) as engine:
        data = FittingData(made, Split(examples, none, none, seed), engine=engine)
        works = {
            MAKING: lambda: data.reduce(_count, int.__add__, int),
            "survey": lambda: survey(made, engine=engine),
            "crude_sum": lambda: crude_sum(data, config),
            "sculpt": lambda: data.reduce(screen, screen.merged, Slabs),
            "proxy": lambda: data.reduce(choosing, choosing.merged, MarginRows),
        }
        works[MAKING]()  # the worker is there, and has imported what it needs
        return {name: _spent(work, engine, examples) for name, work in works.items()}


def _count(X: Any, Y: Any) -> int:
    return len(X)


def _spent(work: Callable[[], Any], engine: Engine, examples: int) -> dict[str, float]:
    import psutil

    def clocks() -> tuple[float, float]:
        workers = [psutil.Process(pid).cpu_times() for pid in getattr(engine, "processes", ())]
        return sum(times.user + times.system for times in workers), clock()

    before = clocks()
    work()
    worker, main = (b - a for a, b in zip(before, clocks(), strict=True))
    return {"worker": worker / examples, "main": main / examples}


class _MainClock(Listener):
    """Processor time of the main process outside of passes, by phase."""

    def __init__(self) -> None:
        self.alone: dict[str, float] = {}
        self._began, self._first, self._last = clock(), 0.0, 0.0

    def phase_started(self, name: str, total: int) -> None:
        self._began, self._first = clock(), 0.0

    def examples_seen(self, seen: int) -> None:
        self._last = clock()
        self._first = self._first or self._last

    def phase_ended(self, name: str, figures: dict[str, Any], recalled: bool) -> None:
        passing = self._last - self._first if self._first else 0.0
        self.alone[name] = clock() - self._began - passing


def run(heads: int, dim: int, examples: int, engine: Engine) -> dict[str, Any]:
    """The six phases on an engine: wall time, and what the main process spent where."""
    truth = gradine.plant(heads, dim, SCALE, seed=0)
    made = GeneratedExamples(truth, examples, SEQ_LEN, "boolean", 1)
    survey(FirstExamples(made, 1000), 100, engine=engine)  # workers are there
    listener, wall = _MainClock(), time.perf_counter()
    fit = learn_examples(made, heads, "sculpt", 0, config=CONFIG, engine=engine, listener=listener)
    wall = time.perf_counter() - wall
    names = list(fit.phases)
    again = {kind: sum(name.startswith(kind) for name in names) for kind in ("sculpt", "proxy")}
    error = None
    if fit.theorem is not None:
        error = float(gradine.compare(fit.theorem, truth, seq_len=SEQ_LEN).function_error)
    return {
        "heads": heads,
        "dim": dim,
        "examples": examples,
        "workers": engine.workers,
        "status": fit.status.code,
        "error": error,
        "wall": wall,
        "alone": listener.alone,
        "passes": {"survey": 1, "crude_sum": 1, **again},
    }


def main_part(heads: int, dim: int, examples: int) -> dict[str, Any]:
    """`run` on one worker, for what the main process does."""
    with open_engine("pool", 1) as engine:
        return run(heads, dim, examples, engine)


def checked(heads: int, dim: int, examples: int, workers: int) -> dict[str, Any]:
    """`run` on so many workers that are there already, for its wall time."""
    with open_engine("pool", workers) as engine:
        return run(heads, dim, examples, engine)


def fetched(examples: float, piece: int) -> float:
    """Examples that are made to fetch single ones: all of a piece in which one of them lies."""
    pieces = max(examples / piece, 1.0)
    return sum(
        examples * -math.expm1(count * math.log1p(-1.0 / (pieces + 1.0))) for count in FETCHED
    )


def predicted_seconds(
    seconds: dict[str, dict[str, float]],
    main: dict[str, Any],
    examples: float,
    workers: int,
    lost: float,
    piece: int = 256,
) -> dict[str, float]:
    """Of a run on so many workers: passes, and the main process alone.

    ``lost`` is the share of their time that workers lose beside others.
    """
    speed = workers * (1.0 - lost * (workers > 1))
    passes = sum(
        count * examples * max(seconds[kind]["worker"] / speed, seconds[kind]["main"])
        for kind, count in main["passes"].items()
    )
    passes += fetched(examples, piece) * seconds[MAKING]["worker"] / speed
    return {"passes": passes, "alone": sum(main["alone"].values())}


def alone_at(dim: int, smaller: list[dict[str, Any]], like: dict[str, Any]) -> dict[str, Any]:
    """The main process at a dimension that was not run, from two that were.

    Each phase grows as it does between the last two of ``smaller``; ``like`` is the run with the
    heads in question at the larger of these. Linear programs grow faster than the net, so that the
    sum of all grows faster the larger it is.
    """
    before, after = smaller[-2:]
    powers = {
        name: math.log(after["alone"][name] / spent) / math.log(after["dim"] / before["dim"])
        for name, spent in before["alone"].items()
        if name in after["alone"]
    }
    alone = {
        name: spent * (dim / like["dim"]) ** powers.get(name, max(powers.values()))
        for name, spent in like["alone"].items()
    }
    return {**like, "dim": dim, "alone": alone, "powers": powers}


def wanted_examples(heads: int, dim: int) -> int | None:
    """What `gradine plan` says that the six phases take; None: they cannot do it."""
    budget = gradine.plan(heads, dim, seq_len=SEQ_LEN, scale=SCALE, confidence=0.9).sculpt
    return None if budget is None else budget.examples


def capacity_table(cases: list[dict[str, Any]], lost: float) -> str:
    """Minutes of each layer on so many workers; a case has its examples and its measured parts."""
    lines = []
    for case in cases:
        parts = [
            predicted_seconds(case["seconds"], case["main"], case["examples"], count, lost)
            for count in (1, *WORKERS)
        ]
        lines.append(
            [
                str(case["heads"]),
                str(case["dim"]),
                f"{case['examples']:,}",
                f"{parts[0]['alone'] / 60:,.3g}{'*' if 'powers' in case['main'] else ''}",
                *(f"{part['passes'] / 60:,.3g}" for part in parts),
            ]
        )
    header = ["heads", "dim", "examples", "main process, min"]
    header += [f"passes, {count:,} worker{'s' * (count > 1)}" for count in (1, *WORKERS)]
    return markdown(header, lines)
