"""One layer of one dial: check it, learn it, and see whether the check was right."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradine
from gradine.hard import dial
from gradine.theory.judgement import Learner

__all__ = ["DATA", "DIM", "EXAMPLES", "HEADS", "SEQ_LEN", "SUCCESS", "Record", "trial"]

HEADS, DIM, SEQ_LEN = 2, 10, 3
EXAMPLES: dict[Learner, int] = {"sculpt": 20_000, "exact": 2_000}
DATA = 4_000  # examples that the check from data alone gets to see
SUCCESS = 1e-6  # theta_error of a layer that counts as found

Record = dict[str, Any]


def trial(name: str, turn: float, learner: Learner, seed: int) -> Record:
    """Check one layer and learn it, told the number of heads as the theorem is.

    A learner that refuses has failed.
    """
    layer = dial(name, turn, HEADS, DIM, seed)
    n = EXAMPLES[learner]
    X = gradine.sample_inputs(n, SEQ_LEN, layer.dim, seed=np.random.default_rng([seed, 1]))
    Y = layer(X)
    checked = gradine.check(layer, SEQ_LEN, examples=n, seed=seed)
    seen = gradine.check_examples(X[:DATA], Y[:DATA])
    record: Record = {
        "holds": checked.holds_for(learner),
        "failing": [condition.name for condition in checked.failing(learner)],
        "values": {condition.name: condition.value for condition in checked.conditions},
        "data_holds": seen.holds_for(learner),
        "data_failing": [condition.name for condition in seen.failing(learner)],
    }
    try:
        fit = gradine.learn(X, Y, layer.n_heads, learner, seed)
    except ValueError as error:
        return record | {"learned": False, "status": f"refused: {error}", "seconds": 0.0}
    return record | {
        "learned": _found(fit, layer),
        "status": fit.status.code,
        "seconds": fit.seconds,
    }


def _found(fit: gradine.Fit, layer: gradine.AttentionLayer) -> bool:
    """Whether the run claims the heads, all of them, and is right.

    Heads that are equal are one head to a comparison; here they count as not told apart.
    """
    if fit.layer is None or fit.status is gradine.Status.LEARNED_FUNCTION:
        return False
    match = gradine.compare(fit.layer, layer, seq_len=SEQ_LEN)
    return fit.heads == layer.n_heads and float(np.max(match.theta_error)) <= SUCCESS
