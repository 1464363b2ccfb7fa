"""The way from one start of a fit to its end: down levels of penalty, then without any."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradine import kernels
from gradine.exact.config import ExactConfig
from gradine.kernels import AnyArray
from gradine.solvers.gauss_newton import Path, Rules, descend
from gradine.solvers.levenberg import levenberg_marquardt
from gradine.solvers.projection import Evaluation, Penalty, Projection

__all__ = [
    "ANNEALED",
    "LOW_RANK",
    "MOMENTS",
    "MORE",
    "NEARBY",
    "NEEDED",
    "SMALL",
    "affords_dense",
    "sharpened",
    "walk",
]

#: Why a start is made.
MOMENTS = "from the moments"
SMALL = "small random heads"
ANNEALED = "annealed"
LOW_RANK = "low rank, by nuclear norms"
MORE = "from the answer of fewer examples"
NEEDED = "from an answer with heads to spare"
NEARBY = "from near the answer"


def walk(
    problem: Projection,
    parameters: tuple[AnyArray, ...],
    reason: str,
    config: ExactConfig,
    path: Path,
) -> Evaluation:
    """One start: down the levels of penalty if annealed, then without any."""
    path.damping = None
    if reason == ANNEALED:
        level_rules = Rules(
            steps=config.level_steps,
            worthwhile=config.level_worthwhile,
            patience=3,
            rough=config.rough,
        )
        for share in np.logspace(0.0, -4.0, config.penalty_levels):
            penalty = Penalty(config.first_ridge * share, config.first_decay * share)
            parameters = descend(problem, parameters, penalty, level_rules, path).parameters
    rules = Rules(
        steps=config.steps,
        inexact=config.inexact,
        most_products=config.products,
        worthwhile=config.worthwhile,
        patience=4,
        rough=config.rough,
    )
    if reason == LOW_RANK:
        # Three steps gain a factor of a hundred where the heads are found, and little elsewhere.
        begun = len(path.misfits)
        end = descend(problem, parameters, Penalty(), replace(rules, steps=3), path)
        if end.misfit > 0.1 * path.misfits[begun]:
            return end
        parameters = end.parameters
    return descend(problem, parameters, Penalty(), rules, path)


def sharpened(problem: Projection, end: Evaluation, config: ExactConfig, path: Path) -> Evaluation:
    """Go on with dense normal equations in double precision, where a walk ended near an answer.

    Heads that are nearly equal, or so sharp that few rows show them, make products in single
    precision useless before the end. Only small problems can afford this.
    """
    near = Rules.floor < end.misfit <= config.near_misfit
    if not near or len(end.parameters) > 1 or not affords_dense(problem, len(end.theta), config):
        return end
    found = levenberg_marquardt(
        kernels.to_numpy(problem.X),
        kernels.to_numpy(problem.Y).reshape(problem.n, problem.k, -1),
        kernels.to_numpy(end.theta),
        kernels.to_numpy(problem.projections(end)),
        steps=config.dense_steps,
        function=problem.function,
    )
    path.misfits.extend((found.losses[1:] ** 2).tolist())
    sharper = problem.evaluate((kernels.like(found.theta, problem.X),), Penalty())
    return sharper if sharper.misfit < end.misfit else end


def affords_dense(problem: Projection, heads: int, config: ExactConfig) -> bool:
    """Whether a step with dense normal equations takes few enough multiplications."""
    unknowns = heads * problem.width * problem.dim
    return problem.Y.shape[0] * problem.out_dim * unknowns**2 <= config.dense_work
