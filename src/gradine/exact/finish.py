"""The last fit of narrow heads, when all of them are there: Gauss-Newton to the end.

Steps are solved in single precision from a residual in double precision. A step that goes too far
is shortened before another one is solved for, which takes ten times as long.

How many rows it takes depends on the heads. One that attends to a single token for nearly all
queries says something about its Theta_i only where two tokens are close rivals, and a fit to too
few rows gives it a wrong Theta_i that explains all of them. So the misfit of sequences that take no
part is watched, and more take part while it is the larger one.

For the same reason such a head lags behind: what it leaves is nearly all of the residual, and a
step that serves all heads says little about it. What the others leave in the outputs that a head
writes to shows its attention. Where that is not what its Theta_i gives, it is fitted to it between
the steps (`gradine.solvers.logistic`), at a fraction of the cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine.progress import Tell
from gradine.settings import Count, Settings, Share, Size, Threshold, Whole
from gradine.solvers.logistic import ReadOff, fit_attention, read_attention
from gradine.solvers.narrow import (
    Heads,
    NarrowEvaluation,
    NarrowProblem,
    balanced,
    gauss_newton_step,
)

__all__ = ["FinishConfig", "Finished", "finish"]

Array = NDArray[np.float64]

SHORTER = (1.0, 0.5, 0.25)  # shares of a step that are tried
ROUGH_FLOOR = 1e-9  # misfit that single precision still sees
REFUSED = 4  # steps in a row that lead nowhere, before it ends
GOOD, POOR = 0.85, 0.3  # what a step brought, of what it promised
STRAIGHT = 0.1  # what it may bring more or less, where the linear model holds
FREER = 0.1  # damping where it does, by what it was: it alone held the step back


@dataclass(frozen=True)
class FinishConfig(Settings):
    """Settings of the last fit; measured on the layers of a trained model."""

    last_steps: Whole = 100
    #: Products with the Jacobian in one step: few while the way bends, many once it is straight,
    #: which it never is above a misfit.
    last_products: tuple[Count, Count] = (40, 120)
    linear_misfit: Threshold = 1e-4
    last_damping: Size = 0.01
    #: Steps in a row that bring next to nothing, before it ends.
    last_patience: Count = 4
    #: A head is fitted to its own attention where the squared error of that is larger than what
    #: the other heads leave open by this factor, above the misfit and below it; steps of one such
    #: fit, and products in a step.
    unexplained: tuple[Threshold, Threshold] = (3.0, 1.6)
    #: Not after a step for all heads that leaves less than this share of the misfit: none lags.
    quick: Share = 0.1
    attention_steps: Whole = 10
    attention_products: Count = 60
    #: Twice the rows take part where fresh ones have a misfit that is larger by this factor.
    overfit: Threshold = 3.0
    #: Sequences that are kept for this.
    fresh: Count = 256
    #: Relative squared residual of whitened outputs at which a fit is done: well below what
    #: counts as exact, and each further digit takes as long as the one before.
    least_misfit: Threshold = 1e-14


@dataclass(frozen=True, eq=False)
class Finished:
    """Where the last fit ended."""

    heads: Heads
    misfit: float  #: relative squared residual
    ended: bool  #: no step leads further: what is left will stay
    misfits: list[float]  #: the residual after each step
    examples: int  #: that took part at last
    products: int  #: with the Jacobian and its transpose


class _Rows:
    """The first examples, in double precision and in single."""

    def __init__(self, X: Array, Y: Array, dim: int, count: int) -> None:
        X, Y = X[:count], Y[:count]
        self.exact = NarrowProblem(X, Y, dim, free=False)
        self.rough = NarrowProblem(X.astype(np.float32), Y.astype(np.float32), dim, free=False)


class _Step(NamedTuple):
    there: NarrowEvaluation | None  #: None: no part of the step led to anything better
    gain: float  #: what the whole step brought of what it promised


def _step(
    rows: _Rows, at: NarrowEvaluation, damping: float, products: int, accuracy: float
) -> _Step:
    """One step of Gauss-Newton, shortened where it goes too far."""
    size = math.sqrt(float(np.mean(at.residual**2)))
    rough = rows.rough.evaluate(at.heads.astype(np.float32))
    rough.residual[:] = at.residual / size  # small numbers would be lost in squares
    step, promised = gauss_newton_step(rows.rough, rough, damping, products, accuracy)
    promised *= size**2
    there, gain = _along(rows.exact, at, step, size, promised)
    return _Step(there, gain)


def finish(
    X: Array,
    Y: Array,
    dim: int,
    heads: Heads,
    count: int,
    config: FinishConfig,
    tell: Tell | None = None,
) -> Finished:
    """Fit all heads to the first ``count`` examples, and to more where these are too few."""
    kept = min(config.fresh, len(X) - count)
    most_rows = len(X) - max(kept, 0)
    fresh = None
    if kept > 0:
        X32, Y32 = (A[-kept:].astype(np.float32) for A in (X, Y))
        fresh = NarrowProblem(X32, Y32, dim, free=False)
    rows, misfits, done = _Rows(X, Y, dim, min(count, most_rows)), [], 0
    at, damping = rows.exact.evaluate(heads.astype(np.float64)), config.last_damping
    fewest, most = config.last_products
    idle, refused, products = 0, 0, fewest
    for _ in range(config.last_steps):
        if at.misfit <= config.least_misfit or idle >= config.last_patience or refused >= REFUSED:
            break
        if fresh is not None and rows.exact.n < most_rows:
            seen = fresh.evaluate(at.heads.astype(np.float32)).misfit
            if seen > max(config.overfit * at.misfit, ROUGH_FLOOR):
                done += rows.rough.products
                rows = _Rows(X, Y, dim, min(2 * rows.exact.n, most_rows))
                at, damping = rows.exact.evaluate(at.heads), max(damping, config.last_damping)
                idle, refused, products = 0, 0, fewest
        accuracy = min(0.2, max(3.0 * math.sqrt(at.misfit), 3e-3))
        step = _step(rows, at, damping, products, accuracy)
        # Where the linear model holds, what is left is a linear problem: solve that well.
        straight = abs(step.gain - 1.0) < STRAIGHT
        linear = straight and at.misfit < config.linear_misfit
        damping *= FREER if straight else _change(step.gain)
        spent = 0
        if step.there is None:  # the damping was too small
            damping, refused = 4.0 * damping, refused + 1
        else:
            before, at, refused = at.misfit, step.there, 0
            if at.misfit > config.quick * before:
                at, spent = _attention_fitted(rows.exact, at, config)
                done += spent
            idle = idle + 1 if at.misfit > 0.98 * before else 0
        # While a head is fitted to its attention, that is the cheaper way.
        products = min(2 * products, most) if linear and not spent else fewest
        misfits.append(at.misfit)
        if tell is not None:
            tell(math.sqrt(at.misfit), lambda at=at: at.heads.theta)
    ended = idle >= config.last_patience or refused >= REFUSED
    return Finished(at.heads, at.misfit, ended, misfits, rows.exact.n, done + rows.rough.products)


def _change(gain: float) -> float:
    """Of the damping, by what a step brought of what it promised."""
    return 0.5 if gain > GOOD else 1.0 if gain > POOR else 2.0 if gain > 0.0 else 4.0


def _attention_shown(problem: NarrowProblem, at: NarrowEvaluation, i: int) -> ReadOff | None:
    """The attention of head i, by what the others leave in the outputs that it writes to."""
    own, rank = at.heads.O[i], at.heads.O.shape[1]
    space = np.linalg.qr(own.T)[0]
    outputs = (at.residual + at.hidden[:, i * rank : (i + 1) * rank] @ own) @ space
    return read_attention(
        outputs.reshape(problem.n, problem.k, -1), at.values[:, i] @ (own @ space)
    )


def _attention_fitted(
    problem: NarrowProblem, at: NarrowEvaluation, config: FinishConfig
) -> tuple[NarrowEvaluation, int]:
    """Heads whose attention is not what their outputs show, worst first; and products."""
    worst, least = [], config.unexplained[at.misfit < config.linear_misfit]
    for i in range(len(at.heads.U)):
        shown = _attention_shown(problem, at, i)
        if shown is not None:
            worst.append((-shown.unexplained(at.weights[:, i]), i))
    products = 0
    for unexplained, i in sorted(worst):
        shown = _attention_shown(problem, at, i)
        if -unexplained < least or shown is None:
            break
        U, K, spent = fit_attention(
            problem.X,
            at.heads.U[i],
            at.heads.K[i],
            shown,
            config.attention_steps,
            config.attention_products,
        )
        products += spent
        factors = at.heads.U.copy(), at.heads.K.copy()
        factors[0][i], factors[1][i] = U, K
        there = problem.evaluate(balanced(at.heads._replace(U=factors[0], K=factors[1])))
        at = there if there.misfit < at.misfit else at
    return at, products


def _along(
    problem: NarrowProblem, at: NarrowEvaluation, step: Heads, size: float, promised: float
) -> tuple[NarrowEvaluation | None, float]:
    """The best point along a step, None if none is better; and what the whole step brought of what
    it promised."""
    best, gain = None, 0.0
    for share in SHORTER:
        there = problem.evaluate(balanced(at.heads.plus(step, share * size)))
        if share == 1.0:
            gain = (at.misfit - there.misfit) / max(promised, 1e-300)
        if there.misfit < (best or at).misfit:
            best = there
        elif best is not None:
            break
        if gain > 0.5:
            break
    return best, gain
