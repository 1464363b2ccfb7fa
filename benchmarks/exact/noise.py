"""Noisy labels: the error of our answer over that of a fit started at the truth."""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import numpy as np

import gradine
from benchmarks.exact.instances import CURVE, Instance, with_noise
from benchmarks.exact.ours import HELD_OUT, figures, ours
from benchmarks.exact.scope import Scope, tell
from benchmarks.text import markdown, seconds, short
from gradine.solvers.levenberg import levenberg_marquardt

__all__ = ["measure", "page"]

Record = dict[str, Any]

MEASURED_BY = ("exact/instances.py", "exact/ours.py", "exact/noise.py")
INSTANCES = (Instance(2, 4, 8, 2.0), CURVE)
DECIBELS, RATIO, SEEDS = 20.0, 20.0, 20
TARGET = 1.2


def trial(instance: Instance, seed: int) -> Record:
    """Both fits see the same noisy examples."""
    truth = instance.truth(seed)
    X = instance.inputs(instance.examples_at(RATIO) + HELD_OUT, seed)
    Y = with_noise(truth(X), DECIBELS, seed)
    answer = ours(X, Y, instance.heads, seed)
    X, Y = X[answer.fitted], Y[answer.fitted]
    best = levenberg_marquardt(X, Y, truth.theta, truth.w)
    reference = _theta_error(gradine.AttentionLayer(best.theta, best.w), truth)
    error = None if answer.layer is None else _theta_error(answer.layer, truth)
    return {
        **figures(answer, truth),
        "error": error,
        "reference": reference,
        "ratio": None if error is None else error / reference,
        "error_bar": answer.error_bar,
        "examples": len(X),
    }


def _theta_error(layer: gradine.AttentionLayer, truth: gradine.AttentionLayer) -> float:
    """Root mean square over the heads: the largest would follow the luck of one head."""
    return float(np.sqrt(np.mean(gradine.compare(layer, truth, examples=1).theta_error ** 2)))


def measure(scope: Scope) -> Record:
    store = scope.store("noise", MEASURED_BY)
    rows = []
    for instance in INSTANCES[: 1 if scope.quick else None]:
        records = []
        seeds = range(scope.repeats(SEEDS, 3))
        store.ahead((partial(trial, instance, seed), (instance.name, seed)) for seed in seeds)
        for seed in seeds:
            record = store.once(partial(trial, instance, seed), instance.name, seed)
            tell(f"noise {instance.name} seed {seed}, ratio {short(record['ratio'])}", record)
            records.append(record)
        rows.append({"name": instance.name, **_summarise(records)})
    return {"build": store.build, "rows": rows}


def _summarise(records: list[Record]) -> Record:
    """A run without an answer counts as infinitely bad; None stands for that in the file."""
    ratios = sorted(float("inf") if r["ratio"] is None else r["ratio"] for r in records)
    bars = [r["error_bar"] / r["reference"] for r in records if r["error_bar"] is not None]
    middle, worst = statistics.median(ratios), ratios[-1]
    return {
        "seeds": len(records),
        "examples": records[0]["examples"],
        "learned": sum(record["learned"] for record in records),
        "reference": statistics.median(record["reference"] for record in records),
        "ratio": None if np.isinf(middle) else middle,
        "worst": None if np.isinf(worst) else worst,
        "bar": statistics.median(bars) if bars else None,
        "seconds": statistics.median(record["seconds"] for record in records),
    }


def page(summary: Record) -> str:
    header = (
        "instance",
        "examples",
        "theta_error from the truth",
        "ours over it, median",
        "worst",
        "error bar over it, median",
        "called learned",
        "ours, s",
        f"target: median at most {TARGET:g}",
    )
    lines = [
        [
            row["name"],
            f"{row['examples']:,}",
            short(row["reference"]),
            "none" if row["ratio"] is None else f"{row['ratio']:.3f}",
            "none" if row["worst"] is None else f"{row['worst']:.3f}",
            short(row["bar"]),
            f"{row['learned']} of {row['seeds']}",
            seconds(row["seconds"]),
            "holds" if row["ratio"] is not None and row["ratio"] <= TARGET else "MISSED",
        ]
        for row in summary["rows"]
    ]
    said = (
        f"Gaussian noise on the labels, {DECIBELS:g} dB below them; {RATIO:g} times the counting "
        "bound is fitted. The fit from the truth is Levenberg-Marquardt over all parameters on the "
        "same examples. Errors are root mean squares over the heads."
    )
    return f"{markdown(header, lines)}\n\n{said}"
