"""A first look: how many heads there are, how sharp they are, and whether there are biases.

One sequence tells most of it. Its tokens are 0, small multiples e b_1 .. e b_r of random b_i, and a
(all of them about the center). To first order in e the row of e b_i differs from that of 0 by

    e b_i^T R,    R = sum_h p_h (1 - p_h) (Theta_h a) (a W_h),

where p_h is the weight that head h gives to a from the query 0. R has rank m: the singular values
of r rows fall by orders of magnitude after the m-th, if r is larger. Beside the row of 0, which is
sum_h p_h a W_h, its rows say how large the logits b^T Theta_h a are. Without a query bias
p_h = 1 / (r + 2), which the answer to a alone tells; the answer to 0 alone is the output bias.

For answers that are rounded, tokens come with both signs: the error is then of second order in e,
and e can be larger.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine.queries.oracle import Oracle
from gradine.queries.precision import Precision
from gradine.queries.tokens import allowed_size, pulled_in
from gradine.status import NotLearned, Status

__all__ = ["Scouted", "scout"]

Array = NDArray[np.float64]

FIRST = 4  # small tokens of the first sequence; they are doubled until the heads have an end
EXACT = 1e-13  # relative noise below which one sign does
ABOVE = 10.0  # a head shows this many times above what rounding and the step leave,
ABOVE_NOISE = 3.0  # or so many, where noise is large: it is known, and weak heads are near it
FLAT, SHARP = 0.03, 30.0  # spreads of logits from and to which a look is a good one
LOOKS = 3  # other sizes of a that are tried before one is taken as it is
NO_BIAS = 1e-6  # of an answer: smaller biases are found by the fit, which fails without them


@dataclass(frozen=True, eq=False)
class Scouted:
    """What the first look says."""

    heads: int  #: that show; heads with equal Theta show as one, and one with W = 0 not at all
    sure: bool  #: whether a gap follows them; else there may be more
    values: Array  #: singular values, relative to the largest
    floor: float  #: what rounding and the step leave of them, relative as well
    logit: float  #: spread of a logit of two tokens with standard Gaussian entries
    constant: bool  #: whether there are biases, seen from the center
    out_dim: int
    queries: int
    rows: int
    seconds: float


class _Look(NamedTuple):
    """What one sequence shows."""

    values: Array
    floor: float
    heads: int
    logit: float  #: at the size of a
    biased: bool


def scout(oracle: Oracle, precision: Precision, seed: int) -> Scouted:
    """Look at a layer by a few short sequences."""
    began, before = time.perf_counter(), oracle.usage
    rng = np.random.default_rng([seed, 1])
    toward = rng.standard_normal(oracle.dim)
    size, largest = allowed_size(oracle, 1.0), allowed_size(oracle)
    alone = _alone(oracle, size * toward)
    look = _look(oracle, precision, alone, size * toward, size, FIRST, rng)
    for _ in range(LOOKS):
        if FLAT <= look.logit <= SHARP or (look.logit < FLAT and size >= largest):
            break
        size = min(largest, size / math.sqrt(np.clip(look.logit, 1e-6, 1e6)))
        alone = _alone(oracle, size * toward)
        look = _look(oracle, precision, alone, size * toward, size, FIRST, rng)
    most = min(oracle.dim, alone.shape[1])
    few = FIRST
    while look.heads >= min(few, most) and few < most:
        few = min(2 * few, most + 1)
        look = _look(oracle, precision, alone, size * toward, size, few, rng)
    after = oracle.usage
    largest_value = max(float(look.values[0]), np.finfo(float).tiny)
    return Scouted(
        heads=max(look.heads, 1),
        sure=1 <= look.heads < min(few, most),
        values=look.values / largest_value,
        floor=float(look.floor / largest_value),
        logit=look.logit / size**2,
        constant=look.biased or bool(oracle.center.any()),
        out_dim=alone.shape[1],
        queries=after.queries_used - before.queries_used,
        rows=after.rows_used - before.rows_used,
        seconds=time.perf_counter() - began,
    )


def _alone(oracle: Oracle, a: Array) -> Array:
    """The answers to the center alone and to a alone: (2, d_out)."""
    center = oracle.center
    Y = oracle.ask(np.stack([center, center + pulled_in(oracle, a)])[:, None])[:, 0]
    if not Y.any():
        raise NotLearned(Status.NOTHING_TO_SEE, "the answers to single tokens are all zero")
    return Y


def _look(
    oracle: Oracle,
    precision: Precision,
    alone: Array,
    a: Array,
    size: float,
    few: int,
    rng: np.random.Generator,
) -> _Look:
    """One sequence with ``few`` small tokens; answers to the center and to a alone are known."""
    a = pulled_in(oracle, a)
    typical = float(np.sqrt(np.mean(alone**2)))
    noise = max(precision.noise(typical), np.finfo(float).eps * typical)
    one_sign = noise <= EXACT * typical
    step = (noise / typical) ** (1.0 / 2.0 if one_sign else 1.0 / 3.0)
    b = pulled_in(oracle, size * rng.standard_normal((few, len(a))))
    small = step * b if one_sign else step * np.concatenate([b, -b])
    tokens = np.concatenate([np.zeros((1, len(a))), small, a[None]])
    Y = oracle.ask((oracle.center + tokens)[None])[0]
    if one_sign:
        rows = (Y[1 : few + 1] - Y[0]) / step
    else:
        rows = (Y[1 : few + 1] - Y[few + 1 : 2 * few + 1]) / (2.0 * step)
    values = np.asarray(np.linalg.svd(rows, compute_uv=False), dtype=np.float64)
    moved = float(np.linalg.norm(Y[0] - alone[0]))  # by a, from the center
    share = 1.0 / len(tokens)
    linear = float(np.linalg.norm(alone[1] - alone[0]))
    height = float(np.sqrt(np.mean(np.sum(rows**2, axis=1))))
    logit = height / max((1.0 - share) * max(moved, 0.1 * share * linear), np.finfo(float).tiny)
    # A random matrix of noise has this norm; what is left of the next order is relative.
    left = noise / step * (math.sqrt(few) + math.sqrt(rows.shape[1]))
    next_order = step * logit if one_sign else (step * logit) ** 2
    floor = left + min(next_order, 1.0) * float(values[0])
    # Without biases the row of the center is the mean of all tokens, and the answer to it zero.
    slack = max(NO_BIAS, 100.0 * step if one_sign else 100.0 * noise / typical) * linear
    mean = alone[0] + share * (alone[1] - alone[0])
    biased = bool(np.linalg.norm(alone[0]) > slack or np.linalg.norm(Y[0] - mean) > share * slack)
    above = ABOVE if one_sign else ABOVE_NOISE
    heads = int(np.sum(values > above * floor))
    return _Look(values, floor, heads, logit, biased)
