"""Error bars of layers whose Jacobian can only be multiplied with, through the factors of heads.

By conjugate gradients, in coordinates in which isotropic tokens make J^T J nearly the identity
(`gradine.solvers.narrow_line`):

- A random change v of all heads is recovered from J^T J v, and what is missing of it is what the
  examples leave open, as in `gradine.exact.identify`. A head that attends to a single token for
  nearly all queries has thousands of directions that hardly show, and no number of products tells
  all of them from those that do not. They count as if nothing were known of them: their share of
  the head is a part of its bar.
- Label noise of the size of the residual is drawn, and the heads' response to it computed.
- A fit to examples without noise ends where it was told to, not at the floor of rounding. The next
  step of Gauss-Newton, which is not made, is then an estimate of the error itself.

A bar is the root of the sum of squares of these. More examples than a fit may have had take part:
with 24 equations for each unknown, 120 products tell of a layer of a trained model what 1,000 do
not with 8. Noise moved the heads more by the root of how many fewer there were.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine import kernels
from gradine.exact.deflate import whitened_outputs
from gradine.exact.heads import FitTask, unknowns
from gradine.exact.identify import OPEN, RECOVERED, ROUGHLY, SHOWN, noise_of
from gradine.exact.results import HeadFit, Identified
from gradine.exact.units import Units
from gradine.factors import nearest_halves
from gradine.solvers.gauss_newton import conjugate_gradients
from gradine.solvers.narrow import Heads, NarrowProblem
from gradine.solvers.narrow_line import NarrowLine

__all__ = ["identify_wide", "unidentified"]

Array = NDArray[np.float64]
Single = NDArray[np.floating]  # what conjugate gradients work with

PRODUCTS = 120  # of one solve: what shows well is found by then, in a fraction of a fit's time
EQUATIONS = 24  # for each unknown, at least, where there are as many examples


def identify_wide(task: FitTask, fit: HeadFit, units: Units) -> Identified:
    """Error bars of every head, or none where some direction of a head does not show."""
    began = time.perf_counter()
    model = _linear_model(task, fit)
    line = model.line
    rng = np.random.default_rng([task.seed, fit.heads, 1])
    direction = rng.standard_normal(line.size, dtype=np.float32)
    found = conjugate_gradients(
        line,
        line.curvature(direction),
        RECOVERED,
        PRODUCTS,
        enough=lambda step: not _missing(line, direction, step).any(),
    )
    missing = _missing(line, direction, found.step)
    bars = None
    if missing.max() < task.config.largest_bar**2:
        bars = _bars(model, fit, units, missing, rng)
    return _identified(fit, np.sqrt(np.maximum(found.ritz, 0.0)), bars, began)


def unidentified(fit: HeadFit) -> Identified:
    """No error bars: nothing is said about how well the heads are determined."""
    return _identified(fit, np.zeros(0), None, time.perf_counter())


class _Model(NamedTuple):
    """The linear model of whitened outputs, which heads were fitted to."""

    line: NarrowLine  #: in single precision
    residual: Array  #: of double precision
    rms: float  #: of the outputs as they are
    whiten: Single  #: (o, q)
    restore: Single  #: (q, o)


def _linear_model(task: FitTask, fit: HeadFit) -> _Model:
    assert fit.rank is not None
    X, Y = kernels.to_numpy(task.X), kernels.to_numpy(task.Y)
    numbers = unknowns(fit.heads, X.shape[2], task.dim, Y.shape[2], fit.rank)
    count = min(len(X), max(fit.examples, math.ceil(EQUATIONS * numbers / Y[0].size)))
    X, Y = X[:count], Y[:count]
    single = X.astype(np.float32), Y.astype(np.float32)
    whiten, restore = whitened_outputs(*single, task.dim, task.config.deflate)
    U, K = nearest_halves(fit.theta, fit.rank)
    V, O = nearest_halves(fit.w[:, : task.dim] @ whiten.astype(np.float64), fit.rank)  # noqa: E741
    heads = Heads(U, K.swapaxes(1, 2), V, O)
    exact = NarrowProblem(X, Y @ whiten.astype(np.float64), task.dim, free=False)
    rough = NarrowProblem(single[0], single[1] @ whiten, task.dim, free=False)
    return _Model(
        NarrowLine(rough, rough.evaluate(heads.astype(np.float32))),
        exact.evaluate(heads).residual.astype(np.float64),
        math.sqrt(float(np.mean(Y**2))),
        whiten,
        restore,
    )


def _missing(line: NarrowLine, direction: Single, found: Single) -> Array:
    """Of the squares of each Theta_i and each W_i, the share that was not found again, (2, m).

    A random direction has an equal share in each of a head's directions. None is open where less
    than a fraction of one is missing: that is what single precision leaves.
    """
    shares = []
    for change in (line.theta_change, line.w_change):
        whole, missing = (
            np.sum(change(x).astype(np.float64) ** 2, axis=(1, 2))
            for x in (direction, direction - found)
        )
        shares.append(missing / np.maximum(whole, np.finfo(float).tiny))
    directions = line.size / len(line.at.heads.U)
    return np.where(np.array(shares) * directions < OPEN, 0.0, shares)


def _bars(
    model: _Model, fit: HeadFit, units: Units, missing: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Relative errors of each Theta_i and each W_i: by noise, by the step that was not made, and by
    what does not show."""
    line, residual, problem = model.line, model.residual, model.line.problem
    noise = noise_of(fit) * model.rms * math.sqrt(problem.n / fit.examples)
    u = rng.standard_normal((len(residual), len(model.whiten)), dtype=np.float32) @ model.whiten
    left = math.sqrt(float(np.mean(residual**2))) or 1.0  # small numbers would be lost in squares
    theta_squares, w_squares = np.zeros(fit.heads), np.zeros(fit.heads)
    # With noise, what is left is the noise, and its own step to these examples means nothing.
    moves = [(noise, u), (left, residual / left)] if fit.exact else [(noise, u)]
    for size, outputs in moves:
        target = line.flat(problem.transposed(line.at, outputs.astype(np.float32)))
        step = size * conjugate_gradients(line, target, ROUGHLY, PRODUCTS).step.astype(np.float64)
        theta_squares += np.sum(
            units.theta(line.theta_change(step).astype(np.float64)) ** 2, axis=(1, 2)
        )
        w_squares += np.sum(
            units.w(_padded(line.w_change(step) @ model.restore, fit)) ** 2, axis=(1, 2)
        )
    theta, w = (np.sum(x**2, axis=(1, 2)) for x in (units.theta(fit.theta), units.w(fit.w)))
    tiny = np.finfo(float).tiny
    return (
        np.sqrt(theta_squares / np.maximum(theta, tiny) + missing[0]),
        np.sqrt(w_squares / np.maximum(w, tiny) + missing[1]),
    )


def _padded(w_change: Single, fit: HeadFit) -> Array:
    """With a row for the constant coordinate, where there is one: nothing is said about that."""
    w_change = w_change.astype(np.float64)
    return np.pad(w_change, ((0, 0), (0, fit.w.shape[1] - w_change.shape[1]), (0, 0)))


def _identified(
    fit: HeadFit, singular: Array, bars: tuple[Array, Array] | None, began: float
) -> Identified:
    unknown = np.full(fit.heads, np.inf)
    seen = len(singular) > 0 and singular[0] > 0
    return Identified(
        singular_values=singular[:SHOWN] / singular[-1] if seen else np.zeros(0),
        condition=float(singular[-1] / singular[0]) if seen else float("inf"),
        noise=noise_of(fit),
        theta_bars=unknown if bars is None else bars[0],
        w_bars=unknown if bars is None else bars[1],
        determined=bars is not None,
        samples=0 if bars is None else 1,
        seconds=time.perf_counter() - began,
    )
