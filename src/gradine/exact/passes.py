"""Refine heads by all examples, however many: passes for sums, a sample in memory for curvature.

Under noise the error of an answer falls with the root of the number of examples, and all of them
may be more than memory holds. What a step needs of all is small:

    A^T A and A^T Y      the normal equations, whose solution is O (`gradine.solvers.projection`),
    J^T (Y - A O)        the gradient at that O, which is that of variable projection,

sums over blocks that any engine computes where the examples are. The curvature H it divides by need
not be exact, and comes from the examples in memory: a step leaves a share of the error that is
about the root of unknowns over equations there. Where these are few, what the gradients of earlier
steps said of the curvature of all makes up for it (L-BFGS [Noc80], with H of the sample to begin
with). A few steps, two passes each, are enough.

[Noc80] Nocedal, Updating quasi-Newton matrices with limited storage, Math. Comp. 35 (1980) 773-782.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine import kernels
from gradine.attention_functions import attention_function
from gradine.exact.heads import FitTask, finished, parameters_of
from gradine.exact.results import HeadFit
from gradine.examples import FittingData, add_each
from gradine.solvers.gauss_newton import Path, conjugate_gradients
from gradine.solvers.linearisation import Linearisation
from gradine.solvers.parameters import Parameters
from gradine.solvers.projection import Penalty, Projection

__all__ = ["refine_by_passes"]

Array = NDArray[np.float64]

TINY = 1e-300  # outputs that are all zero explain everything
REASON = "from the answer of the examples in memory"
STEPS = 20  # of two passes each, at most
ACCURACY, PRODUCTS = 1e-2, 200  # of a step's solution: its curvature is no better
LEAST_COSINE = 1e-8  # of a step with the fall of the slope, for it to say something
SHORTER, SHORTEST = 0.3, 0.02  # shares of a step
#: A step that changes the answer by less than this share of its error bars is the last.
SMALL = 0.05


class Normal(NamedTuple):
    """The normal equations of O over a block, or over several."""

    gram: Array  #: A^T A, (q, q)
    right: Array  #: A^T Y, (q, d_out)
    energy: float  #: |Y|^2
    rows: int


class Slope(NamedTuple):
    """The gradient over a block, or over several."""

    flat: Array  #: J^T residual
    energy: float  #: |residual|^2


@dataclass(frozen=True, eq=False)
class _Kernel:
    """A point, and what is asked of each block there."""

    parameters: Parameters
    dim: int
    attention: str

    def problem(self, X: Array, Y: Array) -> Projection:
        return Projection(X, Y, self.dim, attention_function(self.attention))


class _NormalEquations(_Kernel):
    def __call__(self, X: Array, Y: Array) -> Normal:
        problem = self.problem(X, Y)
        gram, right = problem.normal_equations(self.parameters)
        return Normal(gram, right, problem.energy, len(problem.Y))


@dataclass(frozen=True, eq=False)
class _Gradient(_Kernel):
    out: Array

    def __call__(self, X: Array, Y: Array) -> Slope:
        problem = self.problem(X, Y)
        at = problem.evaluate_with(self.parameters, self.out)
        line = Linearisation(problem, at)
        flat = line.flat(line.gradient()).astype(np.float64)
        return Slope(flat, at.misfit * problem.energy)


class _Point(NamedTuple):
    """What all examples say of one point."""

    parameters: Parameters
    out: Array
    slope: Array  #: flat
    misfit: float  #: |residual|^2 / |Y|^2


class _Secant(NamedTuple):
    """What a step showed of the curvature."""

    step: Array
    fall: Array  #: of the slope
    inverse: float  #: 1 / (step fall)

    @classmethod
    def between(cls, before: _Point, after: _Point) -> _Secant | None:
        """None where the slope did not fall along the step: that is no curvature to divide by."""
        step, fall = _flat(after.parameters) - _flat(before.parameters), before.slope - after.slope
        curvature, size = float(np.vdot(step, fall)), np.linalg.norm(step) * np.linalg.norm(fall)
        return cls(step, fall, 1.0 / curvature) if curvature > LEAST_COSINE * size else None


def _flat(parameters: Parameters) -> Array:
    return np.concatenate([np.ravel(part) for part in parameters])


def _moved(parameters: Parameters, step: Array) -> Parameters:
    ends = np.cumsum([part.size for part in parameters])[:-1]
    parts = zip(parameters, np.split(step, ends), strict=True)
    return tuple(part + change.reshape(part.shape) for part, change in parts)


def refine_by_passes(data: FittingData, task: FitTask, fit: HeadFit) -> HeadFit:
    """Go on from an answer of the examples in memory, the task's, with all that may be fitted."""
    began = time.perf_counter()
    problem, path = task.problem(), Path(tell=task.tell)
    here = parameters_of(problem, fit.theta, fit.w, fit.rank)
    place = (problem.dim, task.config.attention)
    best: _Point | None = None
    step, length = np.zeros(0), 1.0
    rests, rows, known = False, 0, []
    for _ in range(STEPS):
        normal = data.reduce(_NormalEquations(here, *place), add_each, Normal)
        out = _solved(normal)
        slope = data.reduce(_Gradient(here, *place, out), add_each, Slope)
        there = _Point(here, out, slope.flat, slope.energy / max(normal.energy, TINY))
        rows = normal.rows
        if best is not None and not there.misfit < best.misfit:  # it went too far
            length *= SHORTER
            if length < SHORTEST:
                break
            here = _moved(best.parameters, length * step)
            continue
        if best is not None and (secant := _Secant.between(best, there)) is not None:
            known.append(secant)
        best = there
        path.misfits.append(best.misfit)
        step = _step(problem, best, problem.n * problem.k / rows, known)
        # Noise moves the answer by its bars, and lowers |residual|^2 by its share of each unknown.
        share = len(slope.flat) * slope.energy / (rows * problem.out_dim)
        promised = float(np.vdot(step, slope.flat))
        if promised <= SMALL**2 * share:
            rests = promised >= 0.0
            break
        here, length = _moved(here, step), 1.0
    assert best is not None
    at = replace(problem.evaluate(best.parameters, Penalty()), out=best.out, misfit=best.misfit)
    answer = finished(
        task, problem, at, fit.heads, fit.rank, path, began,
        begins=[0], reasons=[REASON], settled=rests,
    )  # fmt: skip
    equations = answer.equations * rows / (problem.n * problem.k)
    return replace(answer, examples=rows // problem.k, equations=equations)


def _solved(normal: Normal) -> Array:
    """O, by the normal equations; directions that no feature shows stay zero."""
    values, vectors = np.linalg.eigh(normal.gram)
    seen = values > len(values) * np.finfo(float).eps * values[-1]
    vectors = vectors[:, seen]
    return vectors @ ((vectors.T @ normal.right) / values[seen, None])


def _step(problem: Projection, at: _Point, share: float, known: list[_Secant]) -> Array:
    """H^-1 slope: that of the sample, corrected by what is known of all."""
    line = Linearisation(problem, problem.evaluate(at.parameters, Penalty()))
    units = line.units()
    left, weights = at.slope, []
    for secant in reversed(known):
        weights.append(secant.inverse * float(np.vdot(secant.step, left)))
        left = left - weights[-1] * secant.fall
    target = kernels.like((share * left).astype(np.float32), units)
    found = conjugate_gradients(line, target, ACCURACY, PRODUCTS, units).step
    step = np.asarray(found, np.float64)
    for secant, weight in zip(known, reversed(weights), strict=True):
        step = step + (weight - secant.inverse * float(np.vdot(secant.fall, step))) * secant.step
    return step
