"""Gauss-Newton with damping and an iterative inner solve, over a `Projection`.

Each step solves  (H + damping) step = J^T residual - decay p  by conjugate gradients, to an
accuracy that grows as the residual shrinks, so that no product is spent on digits that the next
linearisation would throw away. The damping follows the gain: what the step brought against what
the linear model promised (Nielsen's rule).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from gradine import kernels
from gradine.kernels import AnyArray
from gradine.solvers.projection import Evaluation, Linearisation, Parameters, Penalty, Projection

__all__ = ["Path", "Rules", "conjugate_gradients", "descend"]


@dataclass(frozen=True)
class Rules:
    """When to go on, and how hard to try."""

    steps: int = 60
    #: A step is solved to this relative accuracy, and better as the residual becomes small.
    inexact: float = 0.1
    least_inexact: float = 1e-3
    #: Products with J in one step; ill-conditioned problems use them all.
    most_products: int = 60
    #: Damping at the start, in units of the mean diagonal of J^T J.
    damping: float = 1e-2
    #: Done when the loss falls by less than this share in each of ``patience`` steps.
    worthwhile: float = 1e-3
    patience: int = 3
    #: Dampings tried for one step before giving up.
    refusals: int = 9
    #: Done when the misfit is below this: nothing is left in double precision.
    floor: float = 1e-26


@dataclass
class Path:
    """The way that was gone: misfit after each evaluation, whatever became of the step.

    The damping goes along from one walk to the next: a fresh one would make the first step of
    every walk a timid one.
    """

    misfits: list[float] = field(default_factory=list)
    damping: float | None = None


def descend(
    problem: Projection,
    start: Parameters,
    penalty: Penalty,
    rules: Rules,
    path: Path | None = None,
) -> Evaluation:
    """Walk down from ``start``; returns the best point seen."""
    path = path or Path()
    here = problem.evaluate(start, penalty)
    path.misfits.append(here.misfit)
    growth, idle = 2.0, 0
    for _ in range(rules.steps):
        if here.misfit <= rules.floor or idle >= rules.patience:
            break
        line = problem.linearise(here)
        target = line.flat(line.gradient())
        accuracy = max(3.0 * math.sqrt(here.loss), rules.least_inexact)
        # No digits beyond the floor, either.
        accuracy = max(accuracy, 0.1 * math.sqrt(rules.floor / here.misfit))
        accuracy = min(accuracy, rules.inexact)
        damping = path.damping or rules.damping * _mean_curvature(line)
        there = None
        for _ in range(rules.refusals):
            step, promised = _solve(line, target, damping, accuracy, rules.most_products)
            there = _try(problem, here, line.shaped(step), penalty)
            path.misfits.append(here.misfit if there is None else there.misfit)
            if there is not None and there.loss < here.loss:
                gain = (here.loss - there.loss) * problem.energy / max(promised, 1e-300)
                damping *= max(0.2, 1.0 - (2.0 * gain - 1.0) ** 3)
                growth = 2.0
                break
            there, damping, growth = None, damping * growth, growth * 2.0
        path.damping = damping
        if there is None:
            break
        idle = idle + 1 if there.loss > (1.0 - rules.worthwhile) * here.loss else 0
        here = there
    return here


def _solve(
    line: Linearisation, target: AnyArray, damping: float, accuracy: float, most_products: int
) -> tuple[AnyArray, float]:
    """The step, and the decrease of loss times energy that the linear model promises for it."""
    step, _, left = _iterate(line, target, damping + line.pull, accuracy, most_products)
    promised = _dot(step, target) + damping * _dot(step, step) + _dot(step, left)
    return step, promised


def conjugate_gradients(
    line: Linearisation, target: Parameters, accuracy: float, most_products: int
) -> tuple[Parameters, NDArray[np.float64]]:
    """H^+ target for a target in the range of H, and the Ritz values of H, increasing.

    The lengths and ratios of the iteration are the tridiagonal matrix of Lanczos in disguise.
    """
    from scipy.linalg import eigvalsh_tridiagonal

    step, history, _ = _iterate(line, line.flat(target), 0.0, accuracy, most_products)
    if not history:
        return line.shaped(step), np.zeros(1)
    lengths, ratios = np.array(history).T
    diagonal = 1.0 / lengths
    diagonal[1:] += ratios[:-1] / lengths[:-1]
    beside = np.sqrt(ratios[:-1]) / lengths[:-1]
    return line.shaped(step), np.asarray(eigvalsh_tridiagonal(diagonal, beside))


def _iterate(
    line: Linearisation, target: AnyArray, diagonal: float, accuracy: float, most_products: int
) -> tuple[AnyArray, list[tuple[float, float]], AnyArray]:
    """Conjugate gradients on H + diagonal: the solution, (length, ratio) of each iteration, and
    what is left of the target."""
    step, residual, direction = 0.0 * target, target, target
    size = first = _dot(target, target)
    history = []
    for _ in range(most_products):
        image = line.curvature(direction)
        if diagonal:
            image = image + diagonal * direction
        curvature = _dot(direction, image)
        if not (curvature > 0.0 and math.isfinite(curvature)):
            break
        length = size / curvature
        step = step + length * direction
        residual = residual - length * image
        size, before = _dot(residual, residual), size
        history.append((length, size / before))
        if size <= accuracy**2 * first:
            break
        direction = residual + (size / before) * direction
    return step, history, residual


def _try(
    problem: Projection, here: Evaluation, step: Parameters, penalty: Penalty
) -> Evaluation | None:
    """The point after the step, None where it cannot be evaluated."""
    there = tuple(p + kernels.cast(s, p.dtype) for p, s in zip(here.parameters, step, strict=True))
    try:
        evaluation = problem.evaluate(there, penalty)
    except FloatingPointError:
        return None
    return evaluation if math.isfinite(evaluation.loss) else None


def _mean_curvature(line: Linearisation) -> float:
    """|J v|^2 / |v|^2 for a v that looks like no direction in particular."""
    xp, example = line.xp, line.flat(line.parameters)
    count = xp.arange(1, example.shape[0] + 1, dtype=example.dtype, device=device(example))
    probe = xp.sin(count * 12.9898)
    image = line.product(line.shaped(probe))
    return float(xp.sum(image * image)) / _dot(probe, probe)


def _dot(a: AnyArray, b: AnyArray) -> float:
    return float(kernels.namespace(a).vecdot(a, b))
