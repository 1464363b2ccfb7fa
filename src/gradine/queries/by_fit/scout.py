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
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gradine.queries.asking.oracle import Oracle
from gradine.queries.asking.precision import Precision
from gradine.queries.asking.tokens import allowed_size, pulled_in
from gradine.status import NotLearned, Status

__all__ = ["Scouted", "scout"]

Array = NDArray[np.float64]

FIRST = 4  # small tokens of the first sequence; they are doubled until the heads have an end
EXACT = 1e-13  # relative noise below which one sign does
ABOVE = 10.0  # a head shows this many times above what rounding and the step leave,
ABOVE_NOISE = 3.0  # or so many, where noise is large: it is known, and weak heads are near it
FLAT, SHARP = 0.03, 30.0  # spreads of logits from and to which a look is a good one
LOOKS = 3  # other sizes of a that are tried before one is taken as it is
DOUBTFUL = 10.0  # a spread above this is looked at in another way
BENT, BENDING, BENDS = 0.3, 0.1, 8  # a row bends by about a tenth of the square of its logit
FLATTEST = 1e-9  # spread of the logits of heads that do not look at anything
SMALLEST = float(np.finfo(float).tiny)
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


@dataclass(frozen=True, eq=False)
class _Look:
    """What one sequence shows."""

    values: Array
    noise: float  #: norm of what rounding leaves in the rows, for answers as large as they are
    spread: float  #: the same where a W_h cancel, for a unit of them
    height: float  #: of a row
    step: float
    one_sign: bool
    logit: float  #: at the size of a
    biased: bool

    @property
    def floor(self) -> float:
        """What rounding and the next order of the step leave of the singular values."""
        relative = self.step * self.logit
        relative = relative if self.one_sign else relative**2
        noise = max(self.noise, self.spread * self.height / self.logit)
        return noise + min(relative, 1.0) * float(self.values[0])

    @property
    def heads(self) -> int:
        above = ABOVE if self.one_sign else ABOVE_NOISE
        return int(np.sum(self.values > above * self.floor))


def scout(oracle: Oracle, precision: Precision, seed: int) -> Scouted:
    """Look at a layer by a few short sequences."""
    began, before = time.perf_counter(), oracle.usage
    rng = np.random.default_rng([seed, 1])
    toward = rng.standard_normal(oracle.dim)
    size, largest = allowed_size(oracle, 1.0), allowed_size(oracle)
    alone, look = _first(oracle, precision, size, toward, rng)
    for _ in range(LOOKS):
        if FLAT <= look.logit <= SHARP or (look.logit < FLAT and size >= largest):
            break
        size = min(largest, size / math.sqrt(np.clip(look.logit, 1e-6, 1e6)))
        alone, look = _first(oracle, precision, size, toward, rng)
    most = min(oracle.dim, alone.shape[1])
    few = FIRST
    while look.heads >= min(few, most) and few < most:
        few = min(2 * few, most + 1)
        more = _look(oracle, precision, alone, size * toward, size, few, rng)
        look = replace(more, logit=look.logit)  # which was doubted, if it had to be
    after = oracle.usage
    largest_value = max(float(look.values[0]), SMALLEST)
    return Scouted(
        heads=max(look.heads, 1),
        sure=1 <= look.heads < min(few, most),
        values=look.values / largest_value,
        floor=float(look.floor) / largest_value,
        logit=float(look.logit / size**2),
        constant=look.biased or bool(oracle.center.any()),
        out_dim=alone.shape[1],
        queries=after.queries_used - before.queries_used,
        rows=after.rows_used - before.rows_used,
        seconds=time.perf_counter() - began,
    )


def _first(
    oracle: Oracle, precision: Precision, size: float, toward: Array, rng: np.random.Generator
) -> tuple[Array, _Look]:
    """The answers to the center alone and to a alone, (2, d_out), and a look with few tokens."""
    center, a = oracle.center, pulled_in(oracle, size * toward)
    alone = oracle.ask(np.stack([center, center + a])[:, None])[:, 0]
    look = _look(oracle, precision, alone, size * toward, size, FIRST, rng)
    if not alone.any() and not look.values.any():
        raise NotLearned(Status.NOTHING_TO_SEE, "the answers so far are all zero")
    if look.logit > DOUBTFUL:
        b = pulled_in(oracle, size * rng.standard_normal(oracle.dim))
        bent = _by_bending(oracle, precision, a, b)
        look = look if bent > look.logit / DOUBTFUL else replace(look, logit=bent)
    return alone, look


def _by_bending(oracle: Oracle, precision: Precision, a: Array, b: Array) -> float:
    """The spread of logits by the size of tokens at which attention stops being linear in them.

    Rows against the mean row say nothing where the W_h sum to nearly zero. But the odd part of the
    row of b grows with the third power of all tokens, as long as logits are small.
    """

    def odd_part(share: float) -> Array:
        tokens = share * np.stack([np.zeros_like(a), b, -b, a])
        Y = oracle.ask((oracle.center + tokens)[None])[0]
        return (Y[1] - Y[2]) / (2.0 * share**3)

    here, shares = odd_part(1.0), 4.0 ** -np.arange(1.0, BENDS + 1)
    share, bend = 1.0, 0.0
    for smaller in shares:
        below = odd_part(float(smaller))
        bend = float(np.linalg.norm(here - below) / max(np.linalg.norm(below), SMALLEST))
        if bend < BENT or precision.noise(1.0) > smaller:
            break
        here, share = below, float(smaller)
    return max(math.sqrt(bend / BENDING) / share**2, FLATTEST)


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
    typical = max(float(np.sqrt(np.mean(alone**2))), SMALLEST)
    noise = max(precision.noise(typical), np.finfo(float).eps * typical)
    one_sign = noise <= EXACT * typical
    step = min(noise / typical, 1.0) ** (1.0 / 2.0 if one_sign else 1.0 / 3.0)
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
    logit = height / max((1.0 - share) * max(moved, 0.1 * share * linear), SMALLEST)
    # A random matrix of noise has this norm.
    left = noise / step * (math.sqrt(few) + math.sqrt(rows.shape[1]))
    spread = left / noise * max(precision.relative, np.finfo(float).eps)
    # Without biases the row of the center is the mean of all tokens, and the answer to it zero.
    slack = max(NO_BIAS, 100.0 * step if one_sign else 100.0 * noise / typical)
    slack *= max(linear, float(np.linalg.norm(Y[-1])))
    mean = alone[0] + share * (alone[1] - alone[0])
    biased = bool(np.linalg.norm(alone[0]) > slack or np.linalg.norm(Y[0] - mean) > share * slack)
    logit = max(logit, FLATTEST)
    return _Look(values, left, spread, height, step, one_sign, logit, biased)
