"""Unknowns that are several factors at once: sums, inner products, and damped linear systems.

Conjugate gradients are preconditioned by a quadratic form of the factors, and times the damping it
is also what holds a solution back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Metric", "Parts", "damped_solution", "dot", "gram_of", "plus"]

Array = NDArray[np.floating]
Parts = tuple[Array, ...]

RIDGE = 1e-3  # of a factor's Gram matrix, relative to its mean


class Metric(Protocol):
    """A quadratic form, and its inverse."""

    def apply(self, x: Parts) -> Parts: ...

    def solve(self, x: Parts) -> Parts: ...


def plus(x: Parts, other: Parts, times: float = 1.0) -> Parts:
    pairs = zip(x, other, strict=True)
    return tuple(a + np.asarray(times, a.dtype) * b.astype(a.dtype) for a, b in pairs)


def dot(x: Parts, other: Parts) -> float:
    return sum(float(np.vdot(a, b)) for a, b in zip(x, other, strict=True))


def gram_of(factors: Array) -> Array:
    """F^T F of each factor, with a small ridge: (m, r, r)."""
    gram = factors.swapaxes(1, 2) @ factors
    mean = np.trace(gram, axis1=1, axis2=2)[:, None, None] / gram.shape[1]
    return gram + RIDGE * mean * np.eye(gram.shape[1], dtype=gram.dtype)


def damped_solution(
    curvature: Callable[[Parts], Parts],
    metric: Metric,
    gradient: Parts,
    damping: float,
    products: int,
    accuracy: float,
) -> tuple[Parts, Parts]:
    """(H + damping M)^-1 gradient, and what is left of the gradient."""
    left, step = gradient, tuple(0.0 * part for part in gradient)
    turned = metric.solve(left)
    direction, size = turned, dot(left, turned)
    enough = accuracy**2 * size
    for _ in range(products):
        if not (size > enough and np.isfinite(size)):
            break
        image = plus(curvature(direction), metric.apply(direction), damping)
        length = size / dot(direction, image)
        step, left = plus(step, direction, length), plus(left, image, -length)
        turned = metric.solve(left)
        size, before = dot(left, turned), size
        direction = plus(turned, direction, size / before)
    return step, left
