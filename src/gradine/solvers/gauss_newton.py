"""Gauss-Newton with damping and an iterative inner solve, over a `Projection`.

Each step solves  (H + damping) step = J^T residual - decay p  by conjugate gradients, to an
accuracy that grows as the residual shrinks, so that no product is spent on digits that the next
linearisation would throw away. The damping follows the gain: what the step brought against what
the linear model promised (Nielsen's rule). Far from the end the loss keeps falling beyond where
the model sees its minimum: after a step that brought far more than promised the next is longer.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gradine import kernels
from gradine.kernels import AnyArray
from gradine.progress import Tell
from gradine.solvers.linearisation import Linearisation
from gradine.solvers.parameters import Parameters
from gradine.solvers.projection import Evaluation, Penalty, Projection

__all__ = ["Path", "Rules", "Solution", "conjugate_gradients", "descend"]

FARTHEST = 1e30  # times a direction that a step may go: single precision ends soon after
ROUGH_FLOOR = 1e-7  # misfit that single precision still sees well


@dataclass(frozen=True)
class Rules:
    """When to go on, and how hard to try."""

    steps: int = 60
    #: A step is solved to this relative accuracy, and better as the residual becomes small.
    inexact: float = 0.1
    least_inexact: float = 1e-4
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
    #: Steps from a larger misfit than this end in a point that is evaluated in single precision:
    #: far from the end no more is needed, and it takes half the time.
    rough: float = math.inf
    #: A step that lowered the loss by more than ``surplus`` times what was promised, and still left
    #: more than ``slow`` of it, was too short: the next is made longer by this factor.
    stretch: float = 1.5
    surplus: float = 1.4
    slow: float = 0.6
    #: Solve in units of each head, so that a head of small W is not left for last: a product more
    #: in every step.
    balanced: bool = False


@dataclass
class Path:
    """The way that was gone: misfit after each evaluation, whatever became of the step.

    The damping goes along from one walk to the next: a fresh one would make the first step of
    every walk a timid one.
    """

    misfits: list[float] = field(default_factory=list)
    damping: float | None = None
    tell: Tell | None = None

    def went_to(self, at: Evaluation) -> None:
        self.misfits.append(at.misfit)
        if self.tell is not None:
            self.tell(math.sqrt(at.misfit), lambda: at.theta)


class Curved(Protocol):
    """What conjugate gradients ask of a linear model: products with H, flat."""

    def curvature(self, vector: AnyArray, /) -> AnyArray: ...


class Solution(NamedTuple):
    """What conjugate gradients end with."""

    step: AnyArray  #: flat
    ritz: NDArray[np.float64]
    solved: bool  #: to the accuracy asked for


def descend(
    problem: Projection,
    start: Parameters,
    penalty: Penalty,
    rules: Rules,
    path: Path | None = None,
) -> Evaluation:
    """Walk down from ``start``; the best point seen, as roughly evaluated as the rules allow."""
    path = path or Path()
    here = _evaluate(problem, start, penalty, rough=rules.rough < 1.0)
    path.went_to(here)
    growth, idle, stretch, gain = 2.0, 0, 1.0, 1.0
    for _ in range(rules.steps):
        if here.misfit <= rules.floor or idle >= rules.patience:
            break
        line = Linearisation(problem, here)
        target = line.flat(line.gradient())
        accuracy = max(3.0 * math.sqrt(here.loss), rules.least_inexact)
        # No digits beyond the floor, either.
        accuracy = max(accuracy, 0.1 * math.sqrt(rules.floor / here.misfit))
        accuracy = min(accuracy, rules.inexact)
        units = line.units() if rules.balanced else None
        damping = path.damping
        if damping is None:
            damping = rules.damping * (line.mean_curvature() if units is None else 1.0)
        there = None
        for _ in range(rules.refusals):
            step, promised = _solve(line, target, damping, accuracy, rules.most_products, units)
            # A quadratic model promises this share of its minimum at so many times the step.
            promised *= stretch * (2.0 - stretch)
            there = _try(
                problem, here, line.shaped(stretch * step), penalty, here.misfit > rules.rough
            )
            path.went_to(there or here)
            if there is not None and there.loss < here.loss:
                gain = (here.loss - there.loss) * problem.energy / max(promised, 1e-300)
                damping *= max(0.2, 1.0 - (2.0 * min(gain, 2.0) - 1.0) ** 3)
                growth = 2.0
                break
            there, stretch, damping, growth = None, 1.0, damping * growth, growth * 2.0
            if damping > FARTHEST:
                break
        path.damping = damping
        if there is None:
            break
        slow = there.loss > rules.slow * here.loss
        stretch = rules.stretch if slow and gain > rules.surplus else 1.0
        idle = idle + 1 if there.loss > (1.0 - rules.worthwhile) * here.loss else 0
        here = there
    return here


def _solve(
    line: Linearisation,
    target: AnyArray,
    damping: float,
    accuracy: float,
    most_products: int,
    units: AnyArray | None = None,
) -> tuple[AnyArray, float]:
    """The step, and the decrease of loss times energy that the linear model promises for it.

    With units the damping is in them, and there must be no decay.
    """
    right = target if units is None else units * target
    step, _, left = _iterate(line, right, damping + line.pull, accuracy, most_products, units)
    promised = _dot(step, right) + damping * _dot(step, step) + _dot(step, left)
    return step if units is None else units * step, promised


def conjugate_gradients(
    line: Curved,
    target: AnyArray,
    accuracy: float,
    most_products: int,
    units: AnyArray | None = None,
    enough: Callable[[AnyArray], bool] | None = None,
) -> Solution:
    """H^+ target for a flat target in the range of H, and the Ritz values of H, increasing.

    With ``units`` s it is s H s whose equations are solved, whose accuracy is meant and whose
    values are given. A solution that is ``enough`` counts as solved, whatever its accuracy. The
    lengths and ratios of the iteration are the tridiagonal matrix of Lanczos in disguise.
    """
    from scipy.linalg import eigvalsh_tridiagonal

    right = target if units is None else units * target
    over = None if enough is None else lambda v: enough(v if units is None else units * v)
    step, history, left = _iterate(line, right, 0.0, accuracy, most_products, units, over)
    step = step if units is None else units * step
    solved = _dot(left, left) <= accuracy**2 * _dot(right, right)
    solved = solved or (enough is not None and enough(step))
    if not history:
        return Solution(step, np.zeros(1), solved)
    lengths, ratios = np.array(history).T
    diagonal = 1.0 / lengths
    diagonal[1:] += ratios[:-1] / lengths[:-1]
    beside = np.sqrt(ratios[:-1]) / lengths[:-1]
    return Solution(step, np.asarray(eigvalsh_tridiagonal(diagonal, beside)), solved)


def _iterate(
    line: Curved,
    target: AnyArray,
    diagonal: float,
    accuracy: float,
    most_products: int,
    units: AnyArray | None = None,
    over: Callable[[AnyArray], bool] | None = None,
) -> tuple[AnyArray, list[tuple[float, float]], AnyArray]:
    """Conjugate gradients on H + diagonal: the solution, (length, ratio) of each iteration, and
    what is left of the target; ``over`` may end them early."""
    step, residual, direction = 0.0 * target, target, target
    size = first = _dot(target, target)
    history = []
    for _ in range(most_products):
        if size == 0.0:
            break
        image = line.curvature(direction if units is None else units * direction)
        image = image if units is None else units * image
        if diagonal:
            image = image + diagonal * direction
        curvature = _dot(direction, image)
        if not (curvature > 0.0 and math.isfinite(curvature)):
            break
        length = size / curvature
        if length > FARTHEST:  # no curvature that single precision could tell from none
            break
        step = step + length * direction
        residual = residual - length * image
        size, before = _dot(residual, residual), size
        history.append((length, size / before))
        if size <= accuracy**2 * first or (over is not None and over(step)):
            break
        direction = residual + (size / before) * direction
    return step, history, residual


def _try(
    problem: Projection, here: Evaluation, step: Parameters, penalty: Penalty, rough: bool
) -> Evaluation | None:
    """The point after the step, None where it cannot be evaluated."""
    there = tuple(p + kernels.cast(s, p.dtype) for p, s in zip(here.parameters, step, strict=True))
    try:
        evaluation = _evaluate(problem, there, penalty, rough)
    except FloatingPointError:
        return None
    return evaluation if math.isfinite(evaluation.loss) else None


def _evaluate(problem: Projection, at: Parameters, penalty: Penalty, rough: bool) -> Evaluation:
    """Roughly, if so asked and as far as single precision goes."""
    if rough:
        with contextlib.suppress(FloatingPointError):
            evaluation = problem.evaluate(at, penalty, rough=True)
            if evaluation.misfit > ROUGH_FLOOR:  # not for what is not a number, either
                return evaluation
    return problem.evaluate(at, penalty)


def _dot(a: AnyArray, b: AnyArray) -> float:
    return float(kernels.namespace(a).vecdot(a, b))
