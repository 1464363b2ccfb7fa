"""What many examples cost on many workers: a model, from measured rates.

A run of the six phases passes over its examples a fixed number of times. With c seconds of one core
for each example, all passes together, n examples take n c / w seconds on w workers, times what was
measured that two workers lose against one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gradine
from benchmarks.scale.rates import screening, timed
from benchmarks.text import markdown
from gradine.engine import one_thread
from gradine.examples import ArrayExamples, FittingData, Split, survey
from gradine.sculpt.config import SculptConfig
from gradine.sculpt.crude_sum import crude_sum
from gradine.sculpt.proxy import large_margin_rows

__all__ = ["capacity_table", "pass_seconds", "predicted_seconds", "wanted_examples"]

HEADS, DIMS, WORKERS = (3, 4, 5), (32, 64), (10, 100, 1000)
SEQ_LEN, SCALE = 3, 4.0
#: Passes of each kind that a run makes: phase 4 carves and refines again, mostly once.
PASSES = {"survey": 1, "crude_sum": 1, "sculpt": 2, "proxy": 2}


def pass_seconds(dim: int, examples: int, seed: int = 0) -> dict[str, float]:
    """Seconds of one core for one example, in each kind of pass."""
    truth = gradine.plant(3, dim, SCALE, seed=seed)
    X = gradine.sample_inputs(examples, SEQ_LEN, dim, seed=seed + 1)
    Y, none, config = truth(X), np.zeros(0, dtype=np.intp), SculptConfig()
    data = FittingData(ArrayExamples(X, Y), Split(examples, none, none, seed))
    screen, count = screening(truth), int(config.margin_rows_per_unknown * dim)
    works = {
        "survey": lambda: survey(data.examples),
        "crude_sum": lambda: crude_sum(data, config),
        "sculpt": lambda: screen(X, Y, 0),
        "proxy": lambda: large_margin_rows(X, Y, truth.theta.mean(axis=0), count),
    }
    with one_thread():
        return {name: min(timed(work) for _ in range(3)) / examples for name, work in works.items()}


def predicted_seconds(
    seconds: dict[str, float], examples: float, workers: int, lost: float
) -> float:
    """Of a run on so many workers; ``lost`` is the share that they lose against one."""
    each = sum(count * seconds[name] for name, count in PASSES.items())
    return examples * each / workers / (1.0 - lost * (workers > 1))


def wanted_examples(heads: int, dim: int) -> int | None:
    """What `gradine plan` says that the six phases take; None: they cannot do it."""
    budget = gradine.plan(heads, dim, seq_len=SEQ_LEN, scale=SCALE, confidence=0.9).sculpt
    return None if budget is None else budget.examples


def capacity_table(found: dict[str, Any]) -> str:
    """Hours of each layer on so many workers; ``found`` is what the benchmark has measured."""
    lines = []
    for case in found["cases"]:
        seconds = found["pass_seconds"][str(case["dim"])]
        hours = [
            "-"
            if case["examples"] is None
            else f"{predicted_seconds(seconds, case['examples'], count, found['lost']) / 3600:,.3g}"
            for count in WORKERS
        ]
        examples = "none" if case["examples"] is None else f"{case['examples']:,}"
        lines.append([str(case["heads"]), str(case["dim"]), examples, *hours])
    header = ["heads", "dim", "examples", *(f"hours, {count:,} workers" for count in WORKERS)]
    return markdown(header, lines)
