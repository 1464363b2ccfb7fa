"""Rough fits of narrow heads: where a fit begins, and damped steps in single precision.

They serve while heads are missing. The end of a fit is `gradine.exact.finish`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine.solvers.narrow import (
    Heads,
    NarrowEvaluation,
    NarrowProblem,
    balanced,
    gauss_newton_step,
)

__all__ = ["Walk", "descend", "outputs_of", "scaled"]

Array = NDArray[np.floating]

ACCURACY = 0.03  # of the solution for a step
SHORTER = (1.0, 0.4)  # shares of a step that are tried
LEAST_SIZE = 1e-3  # of a new W_i, by the largest: a start may explain nothing yet


class Walk(NamedTuple):
    """How far a rough fit goes."""

    steps: int  #: at most
    products: int  #: with the Jacobian, in one step
    damping: float  #: at the start
    worthwhile: float  #: share of what is left that a step has to take away for another one


def outputs_of(problem: NarrowProblem, heads: Heads) -> Array:
    """What the heads give for the examples of a problem, (n k, o)."""
    at = problem.evaluate(heads)
    return at.hidden @ heads.O.reshape(-1, problem.out_dim)


def scaled(problem: NarrowProblem, new: Heads, others: Array, norms: tuple[float, ...]) -> Heads:
    """New heads with the sign, and the norms of Theta_i and W_i, that explain most of a problem.

    (Theta, W) and (-Theta, -W) look alike to the moments. What is linear in the ``others`` of the
    tokens is the sum of the missing W_i, and tells them apart.
    """
    signs = np.where(np.sum(new.w * others, axis=(1, 2)) < 0.0, -1.0, 1.0)
    signs = signs.astype(new.U.dtype)[:, None, None]
    new = Heads(signs * new.U, new.K, new.V, signs * new.O)
    residual = problem.Y - problem.linear_part(problem.Y)[1]
    m, rank = len(new.U), new.U.shape[2]
    unit = np.linalg.norm(new.theta, axis=(1, 2))
    gains, sizes = np.zeros((len(norms), m)), np.zeros((len(norms), m))
    for row, norm in enumerate(norms):
        root = _column(np.sqrt(norm / unit), new.U)
        at = problem.evaluate(Heads(root * new.U, root * new.K, new.V, new.O))
        for i in range(m):
            out = at.hidden[:, i * rank : (i + 1) * rank] @ new.O[i]
            out -= problem.linear_part(out)[1]
            inner, square = float(np.vdot(out, residual)), float(np.vdot(out, out))
            sizes[row, i] = inner / square
            gains[row, i] = inner * abs(inner) / square
    best = np.argmax(gains, axis=0)
    roots = _column(np.sqrt(np.array(norms)[best] / unit), new.U)
    size = np.maximum(sizes[best, np.arange(m)], LEAST_SIZE * np.abs(sizes).max())
    return balanced(Heads(roots * new.U, roots * new.K, new.V, _column(size, new.U) * new.O))


def _column(values: Array, like: Array) -> Array:
    return values.astype(like.dtype)[:, None, None]


def descend(
    problem: NarrowProblem,
    heads: Heads,
    walk: Walk,
    went_to: Callable[[NarrowEvaluation], None] = lambda at: None,
) -> Heads:
    """Damped steps, each shortened where it leads up."""
    at, damping = problem.evaluate(heads), walk.damping
    for _ in range(walk.steps):
        step, promised = gauss_newton_step(problem, at, damping, walk.products, ACCURACY)
        before, gain = at.misfit, 0.0
        for share in SHORTER:
            there = problem.evaluate(balanced(at.heads.plus(step, share)))
            gain = (before - there.misfit) / max(promised, 1e-30)
            if gain > 0.0:
                at = there
                break
        went_to(at)
        damping *= 4.0 if gain <= 0.0 else 2.0 if gain < 0.3 else 1.0 if gain < 0.7 else 0.4
        if gain > 0.0 and at.misfit > (1.0 - walk.worthwhile) * before:
            break
    return at.heads
