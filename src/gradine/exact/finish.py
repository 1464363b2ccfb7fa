"""The last fit of narrow heads, when all of them are there: Gauss-Newton to the end.

Steps are solved in single precision from a residual in double precision. A step that goes too far
is shortened before another one is solved for, which takes ten times as long.

How many rows it takes depends on the heads. One that attends to a single token for nearly all
queries says something about its Theta_i only where two tokens are close rivals, and a fit to too
few rows gives it a wrong Theta_i that explains all of them. So the misfit of sequences that take no
part is watched, and more take part while it is the larger one.

For the same reason such a head lags behind: what it leaves is nearly all of the residual, and a
step that serves all heads says little about it. Between the steps it is fitted alone, to what the
others leave in the outputs that it writes to, at a fraction of the cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine.progress import Tell
from gradine.solvers.narrow import (
    Heads,
    NarrowEvaluation,
    NarrowProblem,
    attention_shown,
    balanced,
    gauss_newton_step,
)

__all__ = ["FinishConfig", "Finished", "finish"]

Array = NDArray[np.float64]

SHORTER = (1.0, 0.5, 0.25)  # shares of a step that are tried
ROUGH_FLOOR = 1e-9  # misfit that single precision still sees
REFUSED = 4  # steps in a row that lead nowhere, before it ends
ALONE_ACCURACY = 0.02  # of a solution for one head
GOOD, POOR = 0.85, 0.3  # what a step brought, of what it promised


@dataclass(frozen=True)
class FinishConfig:
    """Settings of the last fit; measured on the layers of a trained model."""

    last_steps: int = 100
    #: Products with the Jacobian in one step: few while the way bends, many once it is straight,
    #: which it never is above a misfit.
    last_products: tuple[int, int] = (40, 120)
    linear_misfit: float = 1e-4
    last_damping: float = 0.01
    #: Steps in a row that bring next to nothing, before it ends.
    last_patience: int = 4
    #: A head lags if its attention varies by less than this share of the median head's; it is then
    #: fitted alone for so many steps, while steps for all heads explain less than this share.
    lagging: float = 0.5
    alone_steps: int = 3
    alone_products: int = 60
    alone_until: float = 0.9
    #: Twice the rows take part where fresh ones have a misfit that is larger by this factor.
    overfit: float = 3.0
    #: Sequences that are kept for this.
    fresh: int = 256
    #: Relative squared residual of whitened outputs at which a fit is done: well below what
    #: counts as exact, and each further digit takes as long as the one before.
    least_misfit: float = 1e-14


@dataclass(frozen=True, eq=False)
class Finished:
    """Where the last fit ended."""

    heads: Heads
    misfits: list[float]  #: relative squared residual after each step
    examples: int  #: that took part at last
    products: int  #: with the Jacobian and its transpose


class _Rows:
    """The first examples, in double precision and in single."""

    def __init__(self, X: Array, Y: Array, dim: int, count: int) -> None:
        X, Y = X[:count], Y[:count]
        self.exact = NarrowProblem(X, Y, dim, free=False)
        self.rough = NarrowProblem(X.astype(np.float32), Y.astype(np.float32), dim, free=False)

    def with_outputs(self, targets: Array) -> _Rows:
        """The same examples with other outputs."""
        problem = self.exact
        X = np.asarray(problem.X, np.float64)
        return _Rows(X, targets.reshape(problem.n, problem.k, -1), problem.dim, problem.n)


class _Step(NamedTuple):
    there: NarrowEvaluation | None  #: None: no part of the step led to anything better
    gain: float  #: what the whole step brought of what it promised
    explained: float  #: share of the squared residual that it promised to take away


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
    return _Step(there, gain, promised / at.misfit)


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
        linear = abs(step.gain - 1.0) < 0.1 and at.misfit < config.linear_misfit
        products = min(2 * products, most) if linear else fewest
        damping *= 0.2 if linear else _change(step.gain)
        if step.there is None:  # the damping was too small
            damping, refused = 4.0 * damping, refused + 1
        else:
            before, at, refused = at.misfit, step.there, 0
            if step.explained < config.alone_until:
                for i in _lagging(at, config):
                    at, spent = _alone(rows, at, i, config)
                    done += spent
            idle = idle + 1 if at.misfit > 0.98 * before else 0
        misfits.append(at.misfit)
        if tell is not None:
            tell(math.sqrt(at.misfit), lambda at=at: at.heads.theta)
    return Finished(at.heads, misfits, rows.exact.n, done + rows.rough.products)


def _change(gain: float) -> float:
    """Of the damping, by what a step brought of what it promised."""
    return 0.5 if gain > GOOD else 1.0 if gain > POOR else 2.0


def _lagging(at: NarrowEvaluation, config: FinishConfig) -> list[int]:
    """Heads whose attention hardly varies with Theta_i, the sharpest first."""
    shown = attention_shown(at.weights)
    order = np.argsort(shown, kind="stable")
    return [int(i) for i in order if shown[i] < config.lagging * np.median(shown)]


def _alone(
    rows: _Rows, at: NarrowEvaluation, i: int, config: FinishConfig
) -> tuple[NarrowEvaluation, int]:
    """A few steps for one head, and the products that they took."""
    head = Heads(*(part[i : i + 1] for part in at.heads))
    rank = head.O.shape[1]
    space = np.linalg.qr(head.O[0].T)[0]  # what it writes to
    own = at.hidden[:, i * rank : (i + 1) * rank] @ head.O[0]
    few = rows.with_outputs((at.residual + own) @ space)
    alone, damping = few.exact.evaluate(head._replace(O=head.O @ space)), config.last_damping
    for _ in range(config.alone_steps):
        step = _step(few, alone, damping, config.alone_products, ALONE_ACCURACY)
        damping *= _change(step.gain) if step.there is not None else 4.0
        alone = step.there or alone
    found = alone.heads._replace(O=alone.heads.O @ space.T)
    parts = []
    for all_heads, one in zip(at.heads, found, strict=True):
        parts.append(all_heads.copy())
        parts[-1][i] = one[0]
    there = rows.exact.evaluate(Heads(*parts))
    return (there if there.misfit < at.misfit else at), few.rough.products


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
