"""What many examples cost on many workers: a model, from measured rates.

A run of the six phases passes over its examples a fixed number of times. With c seconds of one core
for each example, all passes together, each of which makes or reads it anew, n examples take n c / w
seconds on w workers, times what was measured that two workers lose against one. What does not grow
with the examples, such as the linear programs, is left out.

The prediction is checked by runs here, on one worker and on two: what twice the examples take more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gradine
from benchmarks.scale.rates import screening, timed
from benchmarks.text import markdown
from gradine.engine import one_thread, open_engine
from gradine.examples import ArrayExamples, FittingData, GeneratedExamples, Split, survey
from gradine.fit import LearnConfig
from gradine.learn import learn_examples
from gradine.sculpt.config import SculptConfig
from gradine.sculpt.crude_sum import crude_sum
from gradine.sculpt.proxy import large_margin_rows

__all__ = ["capacity_table", "checked", "pass_seconds", "predicted_seconds", "wanted_examples"]

HEADS, DIMS, WORKERS = (3, 4, 5), (32, 64), (10, 100, 1000)
SEQ_LEN, SCALE = 3, 4.0
MAKING = "making"
#: Passes of each kind that a run makes: phase 4 carves and refines again, mostly once.
PASSES = {"survey": 1, "crude_sum": 1, "sculpt": 2, "proxy": 2}


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
        "proxy": lambda: large_margin_rows(X, Y, truth.theta.mean(axis=0), count),
    }
    with one_thread():
        return {name: min(timed(work) for _ in range(3)) / examples for name, work in works.items()}


def predicted_seconds(
    seconds: dict[str, float],
    examples: float,
    workers: int,
    lost: float,
    passes: dict[str, int] | None = None,
) -> float:
    """Of a run on so many workers; ``lost`` is the share that they lose against one."""
    passes = passes or PASSES
    each = sum(count * (seconds[MAKING] + seconds[name]) for name, count in passes.items())
    return examples * each / workers / (1.0 - lost * (workers > 1))


def checked(dim: int, examples: int, workers: int) -> dict[str, Any]:
    """What twice the examples take more, by runs of the six phases; and the passes of these."""
    truth, config = (
        gradine.plant(3, dim, SCALE, seed=0),
        LearnConfig(sculpt=SculptConfig(shrinking=0.0)),
    )
    seconds, passes = [], {}
    for n in (examples, 2 * examples):
        made = GeneratedExamples(truth, n, SEQ_LEN, "boolean", 1)
        with open_engine("pool", workers) as engine:
            fits = []
            seconds.append(
                timed(
                    lambda made=made, crew=engine, fits=fits: fits.append(
                        learn_examples(made, 3, "sculpt", 0, config=config, engine=crew)
                    )
                )
            )
        names = list(fits[0].phases)
        again = {kind: sum(name.startswith(kind) for name in names) for kind in ("sculpt", "proxy")}
        passes = {"survey": 1, "crude_sum": 1, **again}
    return {"examples": examples, "workers": workers, "seconds": seconds, "passes": passes}


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
