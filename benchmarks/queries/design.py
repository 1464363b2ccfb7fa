"""Which questions make the fit easy: tokens of a sequence, and spread of the logits."""

from __future__ import annotations

import math
import sys
import time
from functools import partial
from typing import Any

import numpy as np

import gradine
from benchmarks.queries.planted import SCALE
from benchmarks.store import Store
from benchmarks.text import markdown
from gradine.exact.heads import FitTask, fit_heads, unknowns
from gradine.fit import ExactConfig

__all__ = ["MEASURED_BY", "TITLE", "measure", "page"]

Record = dict[str, Any]

TITLE = "Which questions: fits at 1.5 times the counting bound"
MEASURED_BY = ("queries/planted.py", "queries/design.py")
DIM, RATIO, STARTS, SEEDS = 16, 1.5, 2, 5
HEADS, TOKENS, LOGITS = (1, 4), (4, 8, 16), (0.1, 0.35, 2.0)
RIGHT = 1e-6  # theta error up to which a fit has found the heads


def trial(heads: int, tokens: int, logit: float, seed: int) -> Record:
    """One fit to random questions; the number of heads is told."""
    truth = gradine.plant(heads, DIM, SCALE, seed=seed)
    n = math.ceil(RATIO * unknowns(heads, DIM, DIM, DIM, None) / (tokens * DIM))
    rng = np.random.default_rng([seed, 1])
    X = math.sqrt(logit / SCALE) * rng.standard_normal((n + 1, tokens, DIM))
    Y = truth(X)
    scale = 0.5 * math.sqrt(SCALE / logit)  # the fit sees tokens of the same size
    Z, began = scale * X, time.perf_counter()
    task = FitTask(Z[:n], Y[:n], Z[n:], Y[n:], DIM, ExactConfig(starts=STARTS), seed)
    fit = fit_heads(task, heads)
    found = gradine.AttentionLayer(fit.theta * scale**2, fit.w * scale)
    error = float(gradine.compare(found, truth).theta_error.max())
    return {"theta_error": error, "exact": fit.exact, "seconds": time.perf_counter() - began}


def measure(store: Store, quick: bool) -> Record:
    rows = []
    for heads in HEADS[:1] if quick else HEADS:
        for tokens in TOKENS[1:2] if quick else TOKENS:
            for logit in LOGITS[1:2] if quick else LOGITS:
                keys = [(heads, tokens, logit, seed) for seed in range(2 if quick else SEEDS)]
                store.ahead((partial(trial, *key), key) for key in keys)
                runs = [store.once(partial(trial, *key), *key) for key in keys]
                rows.append(
                    {
                        "heads": heads,
                        "tokens": tokens,
                        "logit": logit,
                        "right": sum(run["theta_error"] <= RIGHT for run in runs),
                        "wrong_but_exact": sum(
                            run["exact"] and run["theta_error"] > RIGHT for run in runs
                        ),
                        "runs": len(runs),
                        "seconds": sum(run["seconds"] for run in runs) / len(runs),
                    }
                )
                print(f"design {rows[-1]}", file=sys.stderr, flush=True)
    return {"rows": rows}


def page(content: Record) -> str:
    logits = sorted({row["logit"] for row in content["rows"]})
    found = {(row["heads"], row["tokens"], row["logit"]): row for row in content["rows"]}
    header = ["heads", "tokens of a sequence", *(f"logits of {logit:g}" for logit in logits)]
    lines = [
        [str(heads), str(tokens), *(_cell(found[heads, tokens, logit]) for logit in logits)]
        for heads, tokens in sorted({key[:2] for key in found})
    ]
    return (
        f"{markdown(header, lines)}\n\n"
        f"Fits that found the heads (theta error at most {RIGHT:g}), of {STARTS} starts each, at "
        f"dim {DIM}; the spread of the logits is set by the size of the tokens. A fit may be exact "
        "and wrong where sequences are so short that rows say too little of attention."
    )


def _cell(row: Record) -> str:
    wrong = f" ({row['wrong_but_exact']} exact and wrong)" if row["wrong_but_exact"] else ""
    return f"{row['right']} of {row['runs']}{wrong}, {row['seconds']:.1f} s"
