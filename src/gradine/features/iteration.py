"""Conjugate gradients for ridge regression where no Gram matrix of all features is formed.

They work on the p unknowns, preconditioned by the Gram matrix of a sample of the examples,

    P = (n / s) Phi_S^T Phi_S + alpha I,

which has the large eigenvalues right and needs s x s solves only (`gradine.features.design`).
Products are in single precision, and a residual in double precision is corrected for until it is
small.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine.features.design import Design

__all__ = ["Iterated", "Progress", "conjugate_gradients", "iterate"]

Array = NDArray[np.float64]

STUCK = 0.5  # a correction that leaves more than this leads nowhere
ROUGH = 2e-5  # what one solve in single precision leaves, before it is corrected for

#: Called with the share of the work that is done.
Progress = Callable[[float], None]


class Iterated(NamedTuple):
    """What conjugate gradients came to."""

    coefficients: Array
    passes: int
    left: float  #: of the gradient, relative


def iterate(
    design: Design,
    right: Array,
    alpha: float,
    progress: Progress | None = None,
    start: Array | None = None,
) -> Iterated:
    """(Phi^T Phi + alpha)^-1 right by conjugate gradients.

    Where alpha is so small that single precision does not see it, corrections lead nowhere, and the
    best there is comes back.
    """
    config, size = design.config, np.linalg.norm(right, axis=0)
    size = np.where(size > 0.0, size, 1.0)
    C = np.zeros_like(right) if start is None else start.copy()
    precondition, passes = design.sample.preconditioner(alpha), 0
    left = right if start is None else right - design.curvature(C, np.float64) - alpha * C
    best, least = C, np.inf
    for correction in range(config.corrections + 1):
        wrong = float((np.linalg.norm(left, axis=0) / size).max())
        stuck = not wrong < STUCK * least
        if wrong < least:
            best, least = C, wrong
        if least <= config.tolerance or stuck or correction == config.corrections:
            break
        if progress is not None:
            progress(min(1.0, math.log(max(wrong, 1e-300)) / math.log(config.tolerance)))
        step, count = conjugate_gradients(
            lambda v: design.curvature(v, np.float32) + np.float32(alpha) * v,
            left,
            precondition,
            max(ROUGH, 0.5 * config.tolerance / wrong),
            config.iterations,
        )
        C = C + step
        passes += count + 1
        left = right - design.curvature(C, np.float64) - alpha * C
    return Iterated(best, passes, least)


def conjugate_gradients(
    product: Callable[[NDArray], NDArray],
    right: NDArray,
    precondition: Callable[[NDArray], NDArray],
    accuracy: float,
    most: int = 200,
    dtype: type = np.float32,
) -> tuple[NDArray, int]:
    """The solution, worked out in one precision, for every column on its own; and how many
    products it took."""
    size = np.linalg.norm(right, axis=0)
    size = np.where(size > 0.0, size, 1.0)
    left = (right / size).astype(dtype)
    C = np.zeros_like(left)
    turned = precondition(left)
    direction, inner = turned, np.sum(left * turned, axis=0)
    count = 0
    while count < most:
        count += 1
        image = product(direction)
        curved = np.sum(direction * image, axis=0)
        length = np.where(curved > 0.0, inner / np.where(curved > 0.0, curved, 1.0), 0.0)
        C += length * direction
        left = left - length * image
        if np.linalg.norm(left, axis=0).max() < accuracy:
            break
        turned = precondition(left)
        inner, before = np.sum(left * turned, axis=0), inner
        direction = turned + inner / np.where(before != 0.0, before, 1.0) * direction
    return C.astype(np.float64) * size, count
