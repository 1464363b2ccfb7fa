"""Planted layers with vector outputs: exact recovery, and rows over the counting bound."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any, NamedTuple

import gradine
from benchmarks.store import Store
from benchmarks.text import markdown, seconds, short

__all__ = ["INSTANCES", "MEASURED_BY", "TITLE", "Planted", "figures", "measure", "page"]

Record = dict[str, Any]

TITLE = "Planted layers, vector outputs"
MEASURED_BY = ("queries/planted.py",)
SCALE = 2.0
EXACT = 1e-9  # largest theta error that counts as exact
TARGET, AIM = 4.0, 1.5  # rows to learn over the counting bound


class Planted(NamedTuple):
    """A layer to be found by asking."""

    seed: int
    heads: int
    dim: int
    constant: bool

    @property
    def name(self) -> str:
        return f"{self.heads} {self.dim}{' biases' if self.constant else ''}"

    def truth(self) -> gradine.AttentionLayer:
        return gradine.plant(self.heads, self.dim, SCALE, seed=self.seed, constant=self.constant)

    def bound(self) -> float:
        """Rows with as many numbers as can be known of the layer."""
        return self.heads * (self.dim + self.constant) * 2


#: Every number of heads at every dimension comes once before any comes again, but for biases. Seeds
#: are none that a setting of the learner was chosen by.
INSTANCES = tuple(
    Planted(100 + i, 1 + i % 8, (16, 32, 64)[i % 3], (i // 3) % 2 == 1) for i in range(20)
)


def figures(fit: gradine.Fit, truth: gradine.AttentionLayer, bound: float) -> Record:
    """What a run reached and cost; errors are those of the candidate, verified or not."""
    asking = fit.asking
    assert asking is not None
    match = None if fit.candidate is None else gradine.compare(fit.candidate, truth)
    rows = asking.rows_used - asking.verify_rows
    return {
        "status": fit.status.code,
        "heads": fit.heads,
        "theta_error": None if match is None else float(match.theta_error.max()),
        "w_error": None if match is None else float(match.w_error.max()),
        "function_error": None if match is None else match.function_error,
        "queries": asking.queries_used - asking.verify_queries,
        "verify_queries": asking.verify_queries,
        "rows": rows,
        "bound": bound,
        "ratio": rows / bound,
        "noise": asking.noise,
        "seconds": fit.seconds,
        "answering": asking.seconds,
    }


def trial(instance: Planted) -> Record:
    truth = instance.truth()
    return figures(gradine.learn_by_queries(truth, seed=instance.seed), truth, instance.bound())


def measure(store: Store, quick: bool) -> Record:
    records, instances = [], INSTANCES[: 2 if quick else None]
    store.ahead((partial(trial, each), (each.name, each.seed)) for each in instances)
    for instance in instances:
        record = store.once(partial(trial, instance), instance.name, instance.seed)
        records.append(instance._asdict() | {"found": record["heads"]} | _without_key(record))
        print(
            f"planted {instance.name}: {record['status']}, theta {short(record['theta_error'])}, "
            f"rows {record['ratio']:.2f} times the bound, {record['seconds']:.1f} s",
            file=sys.stderr,
            flush=True,
        )
    return {"rows": records}


def _without_key(record: Record) -> Record:
    return {name: record[name] for name in record if name not in ("build", "key", "heads")}


def exact(record: Record) -> bool:
    error = record["theta_error"]
    return record["status"] == "learned" and error is not None and error <= EXACT


def page(content: Record) -> str:
    rows = content["rows"]
    header = (
        "heads, dim",
        "status",
        "theta error",
        "W error",
        "queries to learn",
        "rows to learn",
        "counting bound",
        "rows / bound",
        "seconds",
        "of these answering",
    )
    lines = [
        [
            f"{row['heads']}, {row['dim']}{', biases' if row['constant'] else ''}",
            row["status"],
            short(row["theta_error"]),
            short(row["w_error"]),
            short(row["queries"]),
            short(row["rows"]),
            short(row["bound"]),
            f"{row['ratio']:.2f}",
            seconds(row["seconds"]),
            seconds(row["answering"]),
        ]
        for row in sorted(rows, key=lambda row: (row["dim"], row["heads"], row["constant"]))
    ]
    ratios = sorted(row["ratio"] for row in rows)
    done = sum(map(exact, rows))
    within = sum(ratio <= TARGET for ratio in ratios)
    return (
        f"{markdown(header, lines)}\n\n"
        f"Exact (learned, theta error at most {EXACT:g}): {done} of {len(rows)}. Rows over the "
        f"counting bound: median {ratios[len(ratios) // 2]:.2f}, largest {ratios[-1]:.2f}; at most "
        f"{TARGET:g} in {within} of {len(rows)} (aim {AIM:g}). Rows to learn include those of the "
        f"first look and of finding out how exact answers are; another 200 queries of 4 tokens "
        "verify. The number of heads was not told."
    )
