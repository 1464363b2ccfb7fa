"""Parity layers: right on every input, and certified by nobody who has not learned them."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.store import Store
from benchmarks.text import markdown
from gradine.atlas import MapConfig, Setting, run_trial
from gradine.hard import sparse_parity

__all__ = ["all_inputs", "measure", "page", "worst_error"]

Record = dict[str, Any]

DIMS, BITS = range(2, 13), range(1, 7)
QUICK_DIMS = range(2, 6)
RIGHT = 1e-6
BLOCK = 2**16  # inputs at a time
LEARNERS, LEARNED_DIM, EXAMPLES, SEEDS = ("exact", "sculpt"), 8, 8_000, 2
QUICK_EXAMPLES = 60
NEAR = 0.1  # function error of a parity that counts as learned


def all_inputs(dim: int, start: int, stop: int) -> NDArray[np.float64]:
    """Numbers start:stop of the 4^d sequences of two tokens, by their bits.

    >>> sorted(map(tuple, all_inputs(1, 0, 4)[:, :, 0].tolist()))
    [(-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0)]
    """
    bits = np.arange(start, stop)[:, None] >> np.arange(2 * dim) & 1
    return (2.0 * bits - 1.0).reshape(-1, 2, dim)


def worst_error(dim: int, t: int) -> Record:
    """Of the layer against the function it hides, over all inputs."""
    hidden, worst = sparse_parity(dim, t, seed=[dim, t]), 0.0
    for start in range(0, 4**dim, BLOCK):
        X = all_inputs(dim, start, min(start + BLOCK, 4**dim))
        worst = max(worst, float(np.abs(hidden.layer(X) - hidden(X)).max()))
    return {"dim": dim, "t": t, "inputs": 4**dim, "error": worst}


def _attempt(learner: str, t: int, examples: int, seed: int) -> Record:
    setting = Setting(dim=LEARNED_DIM, t=t, examples=examples)
    return asdict(run_trial(setting, learner, seed, MapConfig(NEAR))) | {"t": t}


def measure(store: Store, quick: bool = False) -> Record:
    sizes = [(d, t) for d in (QUICK_DIMS if quick else DIMS) for t in BITS if t < d]
    keys = [(learner, t) for learner in LEARNERS for t in (BITS[:1] if quick else BITS)]
    examples = QUICK_EXAMPLES if quick else EXAMPLES
    tries = [(*key, examples, seed) for key in keys for seed in range(1 if quick else SEEDS)]
    works = [(partial(worst_error, *size), ("right", *size)) for size in sizes]
    works += [(partial(_attempt, *each), ("hidden", *each)) for each in tries]
    store.ahead(works)
    records = [store.once(work, *key) for work, key in works]
    return {"right": records[: len(sizes)], "tried": records[len(sizes) :]}


def page(found: Record) -> str:
    right = found["right"]
    worst = max(record["error"] for record in right)
    inputs = sum(record["inputs"] for record in right)
    verdict = "holds" if worst <= RIGHT else "MISSED"
    lines = []
    for learner, t in dict.fromkeys((trial["learner"], trial["t"]) for trial in found["tried"]):
        mine = [r for r in found["tried"] if (r["learner"], r["t"]) == (learner, t)]
        ended = ", ".join(sorted({trial["status"] for trial in mine}))
        cells = [sum(bool(trial[key]) for trial in mine) for key in COUNTED]
        lines.append([learner, str(t), f"{len(mine)}", *map(str, cells), ended])
    false = sum(bool(trial["false_certificate"]) for trial in found["tried"])
    header = ["learner", "t", "layers", "learned", "certified", "false certificates", "ended as"]
    return (
        f"Parity layers of 2 to {max(r['dim'] for r in right)} coordinates and 1 to "
        f"{max(r['t'] for r in right)} bits, all {inputs:,} inputs: the largest error is "
        f"{worst:.1e} (at most {RIGHT:g}: {verdict}).\n\n"
        f"Learners on {found['tried'][0]['examples']:,} examples, {LEARNED_DIM} coordinates; "
        f"learned is a function error of {NEAR}:\n\n{markdown(header, lines)}\n\n"
        f"False certificates: {false} (none: {'holds' if not false else 'MISSED'})."
    )


COUNTED = ("success", "certified", "false_certificate")
