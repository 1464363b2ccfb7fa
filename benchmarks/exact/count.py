"""Are the heads counted right? Planted layers of all sizes, the number of heads not given."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.exact.instances import Instance
from benchmarks.exact.ours import figures, ours
from benchmarks.exact.scope import Scope, tell
from benchmarks.text import markdown

__all__ = ["measure", "page"]

Record = dict[str, Any]

MEASURED_BY = ("exact/instances.py", "exact/ours.py", "exact/count.py")
LAYERS, QUICK_LAYERS = 100, 4
EXAMPLES, QUICK_EXAMPLES = 20_000, 5_000
MOST_HEADS, DIMS, SCALES, SEQ_LEN = 8, (16, 32), (1.0, 4.0), 8
TARGET = 0.95


def planted(number: int) -> Instance:
    """Layer ``number``: heads, dimension and scale at random."""
    rng = np.random.default_rng([number, MOST_HEADS])
    heads = int(rng.integers(1, MOST_HEADS + 1))
    return Instance(heads, SEQ_LEN, int(rng.choice(DIMS)), float(rng.uniform(*SCALES)))


def trial(number: int, examples: int) -> Record:
    instance = planted(number)
    truth, X = instance.truth(number), instance.inputs(examples, number)
    answer = ours(X, truth(X), "auto", number, few=False)
    about = {"true_heads": instance.heads, "dim": instance.dim, "scale": instance.scale}
    return {**figures(answer, truth), **about}


def measure(scope: Scope) -> Record:
    store = scope.store("count", MEASURED_BY)
    examples = QUICK_EXAMPLES if scope.quick else EXAMPLES
    records = []
    numbers = range(scope.repeats(LAYERS, QUICK_LAYERS))
    store.ahead((partial(trial, number, examples), (examples, number)) for number in numbers)
    for number in numbers:
        record = store.once(partial(trial, number, examples), examples, number)
        tell(f"layer {number}, {record['true_heads']} heads, dim {record['dim']}", record)
        records.append(record)
    right = sum(record["heads"] == record["true_heads"] for record in records)
    confusion = np.zeros((MOST_HEADS, MOST_HEADS + 2), dtype=int)
    for record in records:
        # The first column is for no answer, the last for more heads than any layer has.
        confusion[record["true_heads"] - 1, min(record["heads"] or 0, MOST_HEADS + 1)] += 1
    return {
        "build": store.build,
        "examples": examples,
        "layers": len(records),
        "right": right,
        "learned": sum(record["learned"] for record in records),
        "success": sum(record["success"] for record in records),
        "confusion": confusion.tolist(),
        "wrong": [
            {name: record[name] for name in ("true_heads", "heads", "dim", "scale", "status")}
            for record in records
            if record["heads"] != record["true_heads"]
        ],
    }


def page(summary: Record) -> str:
    layers, right = summary["layers"], summary["right"]
    header = ["heads", "no answer", *(str(m) for m in range(1, MOST_HEADS + 1)), "more"]
    lines = [
        [str(m + 1), *(str(count) if count else "" for count in row)]
        for m, row in enumerate(summary["confusion"])
    ]
    held = "holds" if right >= TARGET * layers else "MISSED"
    said = (
        f"Counted right: {right} of {layers} (target {TARGET:.0%}: {held}); called learned: "
        f"{summary['learned']}; learned to 1e-6: {summary['success']}. {summary['examples']:,} "
        f"examples of {SEQ_LEN} tokens, heads uniform in 1 to {MOST_HEADS}, dim 16 or 32, scale "
        "uniform in 1 to 4. Lines: the truth; columns: heads of the answer, verified or not."
    )
    wrong = [
        f"- {w['true_heads']} heads, dim {w['dim']}, scale {w['scale']:.2f}: found {w['heads']}, "
        f"{w['status']}"
        for w in summary["wrong"]
    ]
    return "\n\n".join([said, markdown(header, lines), *(["\n".join(wrong)] if wrong else [])])
