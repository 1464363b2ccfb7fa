"""What many examples cost on many workers: a model, from what is measured on one.

A run of the six phases makes a few passes over its examples. In each, workers make or read an
example and look at it, which takes c seconds of a core, and the main process merges what they
found, which takes b seconds an example and does not get faster with workers, but goes on while they
work: n examples take max(n c / (w s), n b) on w workers, with s the share of their time that two
workers keep of one's. Between the passes the main process is alone: linear programs, then
the net. That does not grow with the examples, but with the sixth power of d.

All parts are measured by processor time, in runs on one worker. At dimensions that take hours here,
the part of the main process is extrapolated by its growth between smaller ones. The prediction is
checked by the wall time of other runs, on one worker and on two.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

import gradine
from benchmarks.clock import clock
from benchmarks.scale.rates import screening
from benchmarks.text import markdown
from gradine.engine import Engine, one_thread, open_engine
from gradine.examples import ArrayExamples, FittingData, GeneratedExamples, Split, survey
from gradine.fit import LearnConfig
from gradine.learn import learn_examples
from gradine.progress import Listener
from gradine.sculpt.config import SculptConfig
from gradine.sculpt.crude_sum import crude_sum
from gradine.sculpt.proxy import large_margin_rows

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


def pass_seconds(dim: int, examples: int, seed: int = 0) -> dict[str, float]:
    """Seconds of one core for one example, in each kind of pass."""
    truth = gradine.plant(3, dim, SCALE, seed=seed)
    made = GeneratedExamples(truth, examples, SEQ_LEN, "boolean", seed + 1)
    X, Y = made.block(0, examples)
    none, config = np.zeros(0, dtype=np.intp), SculptConfig()
    data = FittingData(ArrayExamples(X, Y), Split(examples, none, none, seed))
    screen, count = screening(truth), int(config.margin_rows_per_unknown * dim)
    works = {
        MAKING: lambda: made.block(0, examples),
        "survey": lambda: survey(data.examples),
        "crude_sum": lambda: crude_sum(data, config),
        "sculpt": lambda: screen(X, Y, 0),
        "proxy": lambda: large_margin_rows(X, Y, truth.theta.mean(axis=0), count).widest(count),
    }
    with one_thread():
        return {
            name: min(_spent(work) for _ in range(3)) / examples for name, work in works.items()
        }


def _spent(work: Any) -> float:
    began = clock()
    work()
    return clock() - began


class _MainClock(Listener):
    """Processor time of the main process: in the passes, and between them."""

    def __init__(self) -> None:
        self.merging: dict[str, float] = {}  #: by kind of pass, for each example
        self.alone: dict[str, float] = {}  #: by phase
        self._began, self._first, self._last = clock(), None, (0.0, 0)

    def phase_started(self, name: str, total: int) -> None:
        self._began, self._first = clock(), None

    def examples_seen(self, seen: int) -> None:
        self._last = clock(), seen
        self._first = self._first or self._last

    def phase_ended(self, name: str, figures: dict[str, Any], recalled: bool) -> None:
        spent = clock() - self._began
        if self._first is not None:
            # From one block to the last: what came before the first one is no merging.
            merged, examples = (b - a for a, b in zip(self._first, self._last, strict=True))
            kind = next(kind for kind in PASSES if name.startswith(kind))
            self.merging[kind] = max(merged / max(examples, 1), self.merging.get(kind, 0.0))
            spent -= merged
        self.alone[name] = spent


def run(heads: int, dim: int, examples: int, engine: Engine) -> dict[str, Any]:
    """The six phases on an engine: wall time, and what the main process spent where."""
    truth = gradine.plant(heads, dim, SCALE, seed=0)
    made = GeneratedExamples(truth, examples, SEQ_LEN, "boolean", 1)
    listener, wall = _MainClock(), time.perf_counter()
    fit = learn_examples(made, heads, "sculpt", 0, config=CONFIG, engine=engine, listener=listener)
    names = list(fit.phases)
    again = {kind: sum(name.startswith(kind) for name in names) for kind in ("sculpt", "proxy")}
    return {
        "heads": heads,
        "dim": dim,
        "examples": examples,
        "workers": engine.workers,
        "status": fit.status.code,
        "wall": time.perf_counter() - wall,
        "merging": listener.merging,
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
        list(engine.run(math.sqrt, [(1.0,)] * 4 * workers))
        return run(heads, dim, examples, engine)


def fetched(examples: float, piece: int) -> float:
    """Examples that are made to fetch single ones: all of a piece in which one of them lies."""
    pieces = max(examples / piece, 1.0)
    return sum(
        examples * -math.expm1(count * math.log1p(-1.0 / (pieces + 1.0))) for count in FETCHED
    )


def predicted_seconds(
    seconds: dict[str, float],
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
        count
        * examples
        * max((seconds[MAKING] + seconds[kind]) / speed, main["merging"].get(kind, 0.0))
        for kind, count in main["passes"].items()
    )
    passes += fetched(examples, piece) * seconds[MAKING] / speed
    return {"passes": passes, "alone": sum(main["alone"].values())}


def alone_at(dim: int, smaller: list[dict[str, Any]], like: dict[str, Any]) -> dict[str, Any]:
    """The main process at a dimension that was not run, from two that were.

    It grows as it does between the last two of ``smaller``; ``like`` is the run with the heads in
    question at the larger of these.
    """
    before, after = smaller[-2:]
    totals = [sum(part["alone"].values()) for part in (before, after)]
    power = math.log(totals[1] / totals[0]) / math.log(after["dim"] / before["dim"])
    growth = (dim / like["dim"]) ** power
    # What is merged are slabs: as many as unknowns, each as long as two tokens.
    merging = {kind: each * dim / like["dim"] for kind, each in like["merging"].items()}
    alone = {name: growth * spent for name, spent in like["alone"].items()}
    return {**like, "dim": dim, "alone": alone, "merging": merging, "power": power}


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
                f"{parts[0]['alone'] / 60:,.3g}{'*' if 'power' in case['main'] else ''}",
                *(f"{part['passes'] / 60:,.3g}" for part in parts),
            ]
        )
    header = ["heads", "dim", "examples", "main process, min"]
    header += [f"passes, {count:,} worker{'s' * (count > 1)}" for count in (1, *WORKERS)]
    return markdown(header, lines)
