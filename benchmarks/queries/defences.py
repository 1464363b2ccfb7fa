"""What an owner can do to the answers: the error of what is recovered against that of the veil."""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import gradine
from benchmarks.queries.planted import SCALE, figures
from benchmarks.store import Store
from benchmarks.text import markdown, seconds, short

__all__ = ["DEFENCES", "MEASURED_BY", "TITLE", "measure", "page"]

Record = dict[str, Any]

TITLE = "Defences"
MEASURED_BY = ("queries/planted.py", "queries/defences.py")
HEADS, DIM, SEEDS = 2, 16, 2


class Defence(NamedTuple):
    name: str
    veil: Callable[[gradine.AttentionLayer], Any]
    limit: gradine.Ball | None = None


DEFENCES = (
    Defence("none", copy),
    Defence("float32", partial(gradine.Rounded, dtype="float32")),
    Defence("float16", partial(gradine.Rounded, dtype="float16")),
    Defence("bfloat16", partial(gradine.Rounded, dtype="bfloat16")),
    Defence("3 decimals", partial(gradine.Rounded, decimals=3)),
    Defence("noise 0.001", partial(gradine.Noisy, sigma=1e-3)),
    Defence("noise 0.01", partial(gradine.Noisy, sigma=1e-2)),
    Defence("noise 0.1", partial(gradine.Noisy, sigma=1e-1)),
    Defence("noise 0.01, the same again", partial(gradine.Noisy, sigma=1e-2, same_again=True)),
    Defence("clipped at 1", partial(gradine.Clipped, largest=1.0)),
    Defence(
        "clipped at 1, tokens of norm 1",
        partial(gradine.Clipped, largest=1.0),
        gradine.Ball(1.0),
    ),
)


def trial(defence: Defence, seed: int) -> Record:
    """One layer behind one veil; the veil's own error is that of its answers to fresh tokens."""
    truth = gradine.plant(HEADS, DIM, SCALE, seed=seed)
    oracle = gradine.as_oracle(defence.veil(truth), DIM, limit=defence.limit)
    fit = gradine.learn_by_queries(oracle, seed=seed)
    X = gradine.sample_inputs(500, 4, DIM, "gaussian", seed=seed + 1000)
    Y, veiled = truth(X), gradine.as_oracle(defence.veil(truth), DIM).ask(X)
    own = float(np.linalg.norm(veiled - Y) / np.linalg.norm(Y))
    found = fit.candidate
    error = None if found is None else float(np.linalg.norm(found(X) - Y) / np.linalg.norm(Y))
    return figures(fit, truth, HEADS * DIM * 2) | {"own": own, "error": error}


def measure(store: Store, quick: bool) -> Record:
    rows = []
    for defence in DEFENCES[:2] if quick else DEFENCES:
        records = []
        seeds = range(1 if quick else SEEDS)
        store.ahead((partial(trial, defence, seed), (defence.name, seed)) for seed in seeds)
        for seed in seeds:
            record = store.once(partial(trial, defence, seed), defence.name, seed)
            records.append({k: v for k, v in record.items() if k not in ("build", "key")})
            print(
                f"{defence.name}, seed {seed}: {record['status']}, error {short(record['error'])}, "
                f"veil {short(record['own'])}, {record['seconds']:.1f} s",
                file=sys.stderr,
                flush=True,
            )
        rows.append({"defence": defence.name, "runs": records})
    return {"rows": rows}


def page(content: Record) -> str:
    header = (
        "defence",
        "its own error",
        "error of the recovered function",
        "recovered / own",
        "theta error",
        "rows / bound",
        "status",
        "seconds",
    )
    lines = [_line(row["defence"], row["runs"]) for row in content["rows"]]
    return (
        f"{markdown(header, lines)}\n\n"
        f"{HEADS} heads, dim {DIM}, scale {SCALE:g}; the worst of {SEEDS} layers. Errors are "
        "relative RMS errors on fresh standard Gaussian sequences of 4 tokens, against the layer "
        "itself: of the veiled answers, and of what was recovered from them (verified or not)."
    )


def _line(name: str, runs: list[Record]) -> list[str]:
    def worst(key: str) -> float | None:
        """None where a run has none: no answer is worse than any."""
        values = [run[key] for run in runs]
        return None if None in values else max(values)

    own, error = worst("own"), worst("error")
    ratio = None if error is None or not own else error / own
    statuses = sorted({run["status"] for run in runs})
    return [
        name,
        short(own),
        short(error),
        "-" if ratio is None else short(ratio),
        short(worst("theta_error")),
        short(worst("ratio")),
        ", ".join(f"{status} ({sum(r['status'] == status for r in runs)})" for status in statuses),
        seconds(worst("seconds")),
    ]
