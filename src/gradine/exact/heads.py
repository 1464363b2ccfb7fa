"""Fit a layer with a given number of heads: variable projection from one start after another.

Each start has a reason. Moments, where there are any, say where to begin. A small random start
with no penalty is the fastest way down where equations are plenty. Where it ends too high, heads
have grown large to explain a few examples each: the next starts are annealed, held back by
penalties on Theta and W that are lowered step by step, and find the heads with hardly more
equations than unknowns.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine import kernels
from gradine.attention_functions import SOFTMAX, AttentionFunction, attention_function
from gradine.canonical import unit_scale
from gradine.exact.config import ExactConfig
from gradine.exact.low_rank import low_rank_starts, truncated
from gradine.exact.results import HeadFit
from gradine.exact.walks import (
    ANNEALED,
    LOW_RANK,
    MOMENTS,
    MORE,
    NEEDED,
    SMALL,
    sharpened,
    walk,
)
from gradine.kernels import AnyArray
from gradine.layer import AttentionLayer
from gradine.progress import Tell
from gradine.solvers.gauss_newton import Path, Rules, descend
from gradine.solvers.projection import Evaluation, Penalty, Projection

__all__ = [
    "FitTask",
    "finished",
    "fit_heads",
    "parameters_of",
    "predict",
    "refine",
    "squared_errors",
    "unknowns",
    "without_spare",
]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FitTask:
    """What every fit of a run has in common: the examples, and how to fit."""

    X: AnyArray  #: (n, k, D)
    Y: AnyArray  #: (n, k, d_out)
    X_fresh: Array
    Y_fresh: Array
    dim: int  #: coordinates that take part as keys
    config: ExactConfig
    seed: int
    tell: Tell | None = None
    constant: bool = False  #: the last coordinate is always 1, and takes part as a key

    @property
    def function(self) -> AttentionFunction:
        return attention_function(self.config.attention)

    @property
    def shared(self) -> bool:
        """Whether the last rows of the W_i show in their sum alone."""
        return self.function.normalised and (self.constant or self.X.shape[2] > self.dim)

    def problem(self) -> Projection:
        return Projection(self.X, self.Y, self.dim, self.function)

    def first(self, count: int) -> FitTask:
        """The same with fewer examples."""
        return replace(self, X=self.X[:count, ...], Y=self.Y[:count, ...])


def unknowns(heads: int, width: int, dim: int, out_dim: int, rank: int | None) -> int:
    """Numbers that a layer with heads of this rank can have; rank None: full."""
    if rank is None or rank >= min(dim, out_dim):
        return heads * width * (dim + out_dim)
    return heads * rank * ((width + dim - rank) + (width + out_dim - rank))


def fit_heads(
    task: FitTask,
    heads: int,
    rank: int | None = None,
    start: Array | None = None,
    starts: int | None = None,
) -> HeadFit:
    """The best fit with so many heads; ``start`` (m, D, d) is where to begin, if known.

    At most ``starts`` starts are made, as many as the settings say by default.
    """
    began, config = time.perf_counter(), task.config
    problem = task.problem()
    path, begins, reasons, floors = Path(tell=task.tell), [], [], []
    best: Evaluation | None = None
    settled = False
    ways = _starts(problem, task, heads, rank, start, starts or config.starts, path)
    for reason, parameters in ways:
        left = "" if best is None else f", as a residual of {math.sqrt(best.misfit):.2g} was left"
        begins.append(len(path.misfits))
        reasons.append(reason + left)
        end = walk(problem, parameters, reason, config, path)
        if end.rough:
            end = problem.evaluate(end.parameters, end.penalty)
        end = sharpened(problem, end, config, path)
        if best is None or end.misfit < best.misfit:
            best = end
        # Two starts that end equally low have found a floor, and not each a trap of its own.
        again = any(abs(end.misfit - floor) <= config.same_floor * floor for floor in floors)
        settled = _exact(best, config) or (
            again and end.misfit <= (1.0 + config.same_floor) * best.misfit
        )
        if settled:
            break
        floors.append(end.misfit)
    assert best is not None
    return finished(
        task,
        problem,
        best,
        heads,
        rank,
        path,
        began,
        begins=begins,
        reasons=reasons,
        settled=settled,
    )


def without_spare(task: FitTask, fit: HeadFit, needed: list[int]) -> HeadFit:
    """Only the heads that are needed, fitted again from where they are."""
    fewer = replace(fit, theta=fit.theta[needed], w=fit.w[needed], heads=len(needed))
    return refine(task, fewer, NEEDED)


def refine(task: FitTask, fit: HeadFit, reason: str = MORE) -> HeadFit:
    """Go on from an answer with other examples, usually many more: noise averages out."""
    began = time.perf_counter()
    problem = task.problem()
    start, path = parameters_of(problem, fit.theta, fit.w, fit.rank), Path(tell=task.tell)
    rules = Rules(
        steps=task.config.refining_steps,
        inexact=1e-2,
        worthwhile=1e-5,
        patience=2,
        balanced=True,
    )
    best = descend(problem, start, Penalty(), rules, path)
    if len(path.misfits) > rules.steps:
        best = sharpened(problem, best, task.config, path)
    # At a floor the loss rests; where it still falls, what is left is no noise.
    rests = len(path.misfits) > 1 and path.misfits[-1] > 0.999 * path.misfits[-2]
    return finished(
        task,
        problem,
        best,
        fit.heads,
        fit.rank,
        path,
        began,
        begins=[0],
        reasons=[reason],
        settled=rests or _exact(best, task.config),
    )


def finished(
    task: FitTask,
    problem: Projection,
    best: Evaluation,
    heads: int,
    rank: int | None,
    path: Path,
    began: float,
    **how: Any,
) -> HeadFit:
    """The answer that a fit has come to; ``how`` are the fields that say by which way."""
    theta, w = kernels.to_numpy(best.theta), kernels.to_numpy(problem.projections(best))
    if task.function.scale_free:
        theta, w = unit_scale(theta, w)
    # The order of the canonical form, so that figures by head mean the same head everywhere.
    rows = problem.width - task.shared
    order = np.argsort(-np.sum(w[:, :rows] ** 2, axis=(1, 2)), kind="stable")
    theta, w = np.ascontiguousarray(theta[order]), np.ascontiguousarray(w[order])
    errors = squared_errors(theta, w, task.X_fresh, task.Y_fresh, task.function)
    return HeadFit(
        theta=theta,
        w=w,
        heads=heads,
        rank=rank,
        residual=math.sqrt(best.misfit),
        misfits=np.array(path.misfits),
        exact=_exact(best, task.config),
        validation_errors=errors,
        validation_error=float(np.sqrt(np.mean(errors))),
        equations=_equations(problem, heads, rank),
        products=problem.products,
        flops=problem.flops,
        examples=problem.n,
        seconds=time.perf_counter() - began,
        **how,
    )


def _equations(problem: Projection, heads: int, rank: int | None) -> float:
    """Equations for each unknown."""
    sizes = (problem.width, problem.dim, problem.out_dim)
    return problem.Y.shape[0] * problem.out_dim / unknowns(heads, *sizes, rank)


def _exact(at: Evaluation, config: ExactConfig) -> bool:
    return at.misfit <= config.exact_residual**2


def _starts(
    problem: Projection,
    task: FitTask,
    heads: int,
    rank: int | None,
    start: Array | None,
    starts: int,
    path: Path,
) -> Iterator[tuple[str, tuple[AnyArray, ...]]]:
    """Reason and parameters of each start in turn; annealed ones are told by their reason."""
    config, seed = task.config, [task.seed, heads]
    if start is not None:
        yield MOMENTS, parameters_of(problem, start, None, rank, task.seed)
    rng = np.random.default_rng(seed)
    if rank is not None:
        # Penalised starts were made for softmax: of another function, they come last; and heads
        # without a scale that penalties have pulled to zero do not come back from there.
        for _ in range(0 if task.function is SOFTMAX else starts):
            yield SMALL, parameters_of(problem, _small(rng, heads, problem, config), None, rank)
        if task.function.scale_free:
            return
        for parameters in low_rank_starts(problem, heads, rank, config, seed, path):
            yield LOW_RANK, parameters
        return
    plenty = start is None and _equations(problem, heads, rank) >= config.plenty
    for attempt in range(starts - (start is not None)):
        theta = _small(rng, heads, problem, config)
        first = plenty and attempt == 0
        yield SMALL if first else ANNEALED, (kernels.like(theta, problem.X),)


def _small(rng: np.random.Generator, heads: int, problem: Projection, config: ExactConfig) -> Array:
    """Random heads that are committed to nothing."""
    theta = rng.standard_normal((heads, problem.width, problem.dim))
    return theta * (config.start_scale / problem.dim)


def parameters_of(
    problem: Projection, theta: Array, w: Array | None, rank: int | None, seed: int = 0
) -> tuple[AnyArray, ...]:
    """Heads as parameters of the projection; balanced factors where the rank is limited.

    Where W is not known yet, V is random: it says only where to begin.
    """
    if rank is None:
        return (kernels.like(theta, problem.X),)
    if w is None:
        w = np.random.default_rng(seed).standard_normal((*theta.shape[:2], problem.out_dim))
    parts = truncated(theta, w, rank)
    return tuple(kernels.like(part, problem.X) for part in parts)


def predict(theta: Array, w: Array, X: Array, function: AttentionFunction = SOFTMAX) -> Array:
    """F(X) of heads whose keys use the first d coordinates."""
    missing = theta.shape[1] - theta.shape[2]
    theta = np.pad(theta, ((0, 0), (0, 0), (0, missing)))
    return AttentionLayer(theta, w, attention=function.name)(X)


def squared_errors(
    theta: Array, w: Array, X: Array, Y: Array, function: AttentionFunction = SOFTMAX
) -> Array:
    """|F(X) - Y|^2 of each example, relative to the mean |Y|^2."""
    squares = np.sum((predict(theta, w, X, function) - Y) ** 2, axis=(1, 2))
    return squares / max(float(np.mean(np.sum(Y**2, axis=(1, 2)))), np.finfo(float).tiny)
