"""Learn heads by queries, in closed form: no search, and no start to be lucky with.

1. A single token z has the answer z sum_h W_h.
2. Long keys make answers jump along a path of queries, and the jumps are the W_h (`paths`). Where
   tokens must not be so long, short symmetric sequences show the spaces that narrow heads write to
   (`symmetric`, `separate`): the part of sum_h W_h in such a space is W_h. Both count the heads.
3. With W, short sequences show how each head attends, and this is linear in Theta (`patterns`).
4. W may still be rough. But a rough Theta tells where long tokens make each head look at one token
   alone, and there W is exact (`saturated`); then step 3 again, with the answers that are there
   already, is as exact as these are.
5. Where answers are rounded or noisy, a fit of narrow heads averages over many of them (`polish`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine.layer import AttentionLayer
from gradine.progress import Tell
from gradine.queries.asking.oracle import Oracle
from gradine.queries.asking.precision import Precision
from gradine.queries.closed_form.around import Around
from gradine.queries.closed_form.paths import OtherHeads, read_values
from gradine.queries.closed_form.patterns import design_patterns, read_theta
from gradine.queries.closed_form.polish import Polished, polish
from gradine.queries.closed_form.saturated import (
    SaturatedDesign,
    design_saturated,
    solve_projections,
)
from gradine.queries.closed_form.separate import FORMS, separate, split_by_spaces
from gradine.queries.closed_form.symmetric import choose_steps, measure_forms
from gradine.status import NotLearned, Status

__all__ = ["FoundHeads", "FoundValues", "learn_in_closed_form"]

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]

LONG = 1e3  # units of a Gaussian token that paths need for their keys, to be worth trying
UNEXPLAINED = 0.3  # share of the answers that wrong heads leave
MOST_PASSES = 5
SETTLED = 1e-12  # relative residual that leaves nothing to gain
PAIRS = 64  # of single tokens, whose rounded answers average to the bias
UNBIASED = 1e-6  # what is even in the tokens, over what is odd, of a layer without biases

PATHS = "jumps along paths"
SYMMETRIC = "symmetric sequences"


@dataclass(frozen=True, eq=False)
class FoundValues:
    """What each head writes, and how that was found."""

    w: Array  #: (m, d, d_out), perhaps rough
    bias: Array  #: the answer to the center alone
    ranks: Numbers
    way: str
    note: str  #: why the first way was left, if it was
    seconds: float


@dataclass(frozen=True, eq=False)
class FoundHeads:
    """Heads as they are known after the last pass."""

    theta: Array  #: (m, d + 1, d)
    w: Array  #: (m, d, d_out)
    theta_ranks: Numbers
    w_ranks: Numbers
    changes: Array  #: relative change of W in each pass
    residuals: Array  #: largest relative residual of a saturated row in each pass
    logit_noise: Array  #: standard deviation of a logit that was read, by head
    seconds: float


def learn_in_closed_form(
    oracle: Oracle,
    heads: int | None,
    precision: Precision,
    seed: int,
    run: Callable[[str, type[Any], Callable[[], Any]], Any],
    tell: Tell | None = None,
) -> AttentionLayer:
    """The layer behind an oracle that shows all rows.

    It may have as many heads as can be told apart by what they make of two tokens: a fifth of the
    outputs; where tokens must not be long, the ranks of its heads must add up to at most d.
    """
    around = Around(oracle, precision)
    if around.dim < 2:
        detail = "tokens have one coordinate, and a path of queries takes two"
        raise NotLearned(Status.NOT_REALIZABLE, detail)
    try:
        values: FoundValues = run("values", FoundValues, lambda: _values(around, heads, seed))
    except np.linalg.LinAlgError:
        detail = "what the outputs show does not split into heads; they may be too few"
        raise NotLearned(Status.NOT_REALIZABLE, detail) from None
    saturated: list[SaturatedDesign] = []
    try:
        found: FoundHeads = run(
            "heads", FoundHeads, lambda: _heads(around, values, seed, saturated)
        )
    except np.linalg.LinAlgError:  # what they write is not independent: these are no heads
        detail = f"the outputs do not split into those of {len(values.w)} heads"
        raise NotLearned(Status.NOT_REALIZABLE, detail) from None
    theta, w, bias = found.theta, found.w, values.bias
    ranks = int(found.theta_ranks.max()), int(found.w_ranks.max())
    if around.rough and max(ranks) * len(w) <= w.shape[2]:
        rng = np.random.default_rng([seed, 3])
        fitted: Polished = run(
            "polish", Polished, lambda: polish(around, theta, w, ranks, rng, tell)
        )
        theta = fitted.theta
        # Long tokens may show W better than short ones can, now that it is known who looks where.
        better, residual = solve_projections(saturated, theta, w, bias)
        if saturated and residual < fitted.noise:
            w = _truncated(better, residual, values.ranks)[0]
        else:
            w, bias = fitted.w, fitted.bias
    unbiased = not bias.any() and _without_bias(theta)
    return around.layer(theta, w, bias, unbiased)


def _values(around: Around, heads: int | None, seed: int) -> FoundValues:
    began = time.perf_counter()
    rng = np.random.default_rng([seed, 1])
    d, unit = around.dim, math.sqrt(around.dim)
    bias = _bias(around, rng)
    # Long, so that answers that are rounded to decimals say more.
    length = min(LONG * unit, 0.99 * around.room)
    singles = around.tokens(length * np.linalg.qr(rng.standard_normal((d, d)))[0])
    answers = around.ask(singles[:, None])[:, 0]
    total = np.asarray(np.linalg.solve(singles, answers - bias), dtype=np.float64)  # sum_h W_h
    way, note = PATHS, "tokens must not be long"
    w, ranks = None, []
    if around.room >= LONG * unit:
        try:
            w, ranks, _ = read_values(around, total, bias, heads, rng)
            note = ""
        except OtherHeads:
            raise
        except NotLearned as stopped:
            note = stopped.detail
    if w is None:
        way = SYMMETRIC
        w, ranks = _by_symmetric_sequences(around, total, bias, heads, rng)
    return FoundValues(w, bias, np.array(ranks), way, note, time.perf_counter() - began)


def _bias(around: Around, rng: np.random.Generator) -> Array:
    """The answer to the center; of answers that are rounded, a mean that is known better."""
    d = around.dim
    if around.precision.kind == "float64":
        return around.ask(np.zeros((1, 1, d)))[0, 0]
    length = min(1.0, 0.2 * around.room / math.sqrt(d))
    Z = around.tokens(length * rng.uniform(-1.0, 1.0, (PAIRS, 1, d)))
    return around.ask(np.concatenate([Z, -Z])).mean(axis=(0, 1))


def _by_symmetric_sequences(
    around: Around, total: Array, bias: Array, heads: int | None, rng: np.random.Generator
) -> tuple[Array, list[int]]:
    """W of narrow heads: the part of ``total`` in the space that each of them writes to."""
    steps = choose_steps(around, bias, rng)
    spaces = separate(measure_forms(around, steps, FORMS, rng), steps.error, heads)
    return split_by_spaces(total, spaces), [len(space) for space in spaces]


def _heads(
    around: Around, values: FoundValues, seed: int, saturated: list[SaturatedDesign]
) -> FoundHeads:
    """Theta, and W better than it was; rows that were asked for that are left in ``saturated``."""
    began = time.perf_counter()
    rng = np.random.default_rng([seed, 2])
    w, bias, ranks = values.w, values.bias, values.ranks
    patterns = design_patterns(around, w, bias, ranks.tolist(), rng)
    least = int(ranks.max()) if around.rough else 1
    seen = read_theta(patterns, w, bias, least)
    if seen.residual > UNEXPLAINED:
        detail = f"{len(w)} heads leave {seen.residual:.2g} of the answers"
        raise NotLearned(Status.NOT_REALIZABLE, detail)
    saturated += design_saturated(around, seen.theta, bias, rng)
    changes, residuals = [], []
    for _ in range(MOST_PASSES if saturated else 0):
        better, residual = solve_projections(saturated, seen.theta, w, bias)
        better, known = _truncated(better, max(residual, np.finfo(float).eps), values.ranks)
        again = read_theta(patterns, better, bias, least)
        if again.residual > 2.0 * seen.residual:  # Theta was too rough to tell who looks where
            break
        changes.append(float(np.linalg.norm(better - w) / np.linalg.norm(better)))
        residuals.append(residual)
        w, ranks, seen = better, known, again
        # Rows that a wrong W could not all agree with: it is right. Or it rests.
        if residual < SETTLED or changes[-1] < residual:
            break
    return FoundHeads(
        theta=seen.theta,
        w=w,
        theta_ranks=np.array(seen.ranks),
        w_ranks=ranks,
        changes=np.array(changes),
        residuals=np.array(residuals),
        logit_noise=seen.noise,
        seconds=time.perf_counter() - began,
    )


def _truncated(w: Array, error: float, ranks: Numbers) -> tuple[Array, Numbers]:
    """Each W_h without the directions that are no more than its error, but those known to be."""
    U, values, V = np.linalg.svd(w, full_matrices=False)
    edge = error * (np.sqrt(w.shape[1]) + np.sqrt(w.shape[2]))
    known = np.arange(values.shape[1]) < ranks[:, None]
    values = np.where(known | (values > edge * values[:, :1]), values, 0.0)
    return U * values[:, None, :] @ V, np.sum(values > 0.0, axis=1)


def _without_bias(theta: Array) -> bool:
    """Whether the bias of all queries is nothing but rounding."""
    biases, sizes = np.linalg.norm(theta[:, -1], axis=1), np.linalg.norm(theta, axis=(1, 2))
    return bool(np.all(biases <= UNBIASED * sizes))
