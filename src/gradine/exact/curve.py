"""How many examples determine the answer: fits to ever more of them, each begun near it.

This is a picture for the report and must cost little. Fits from scratch would take longer than
learning did, and where they end in local minima they say more about haste than about examples.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gradine.exact.heads import FitTask, refine
from gradine.exact.results import Curve, HeadFit
from gradine.exact.walks import NEARBY, affords_dense

__all__ = ["error_curve"]

Array = NDArray[np.float64]

FEWEST, MOST = 0.6, 4.0  # over the counting bound: from where no fit can be right
ASIDE = 0.1  # share of its size by which a head is moved off the answer
STEPS = 8  # of a fit by products with the Jacobian: few more are left where it can be right
DENSE_STEPS = 12
DENSE_WORK = 1e8  # multiplications in a step of a few milliseconds


def error_curve(task: FitTask, answer: HeadFit) -> Curve:
    """Validation error of fits to ever more of the examples, all begun at the same place."""
    began = time.perf_counter()
    bound = answer.examples / answer.equations
    most = min(len(task.X), math.ceil(MOST * bound))
    counts = np.geomspace(FEWEST * bound, most, task.config.curve_points)
    counts = np.unique(np.ceil(counts - 1e-9).astype(int))
    rng = np.random.default_rng(task.seed)
    start = replace(answer, theta=_aside(answer.theta, rng), w=_aside(answer.w, rng))
    errors = [_quick_fit(task.first(int(n)), start).validation_error for n in counts]
    return Curve(
        examples=counts.astype(float),
        ratio=counts / bound,
        errors=np.array(errors),
        seconds=time.perf_counter() - began,
    )


def _aside(heads: Array, rng: np.random.Generator) -> Array:
    """Matrices moved in random directions, each in proportion to its size."""
    moves = rng.standard_normal(heads.shape)
    sizes, lengths = (np.linalg.norm(it, axis=(1, 2), keepdims=True) for it in (heads, moves))
    return heads + ASIDE * sizes / lengths * moves


def _quick_fit(task: FitTask, start: HeadFit) -> HeadFit:
    """A fit from there: by dense normal equations if it is small, by a few products if not."""
    hasty = replace(
        task.config, near_misfit=math.inf, dense_work=DENSE_WORK, dense_steps=DENSE_STEPS
    )
    dense = start.rank is None and affords_dense(task.problem(), start.heads, hasty)
    hasty = replace(hasty, refining_steps=0 if dense else STEPS)
    return refine(replace(task, config=hasty), start, NEARBY)
