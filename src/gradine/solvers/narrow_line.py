"""The linear model of narrow heads at a point, as a symmetric matrix that one can multiply with.

A change of the heads is x = M^(-1/2) y with M the quadratic form that J^T J nearly is
(`narrow.HeadMetric`), and what conjugate gradients see is M^(-1/2) J^T J M^(-1/2), in flat y.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gradine.solvers.narrow import HeadMetric, Heads, NarrowEvaluation, NarrowProblem

__all__ = ["NarrowLine"]

Array = NDArray[np.floating]


class NarrowLine:
    """J at ``at``, in coordinates in which J^T J is nearly the identity."""

    def __init__(self, problem: NarrowProblem, at: NarrowEvaluation) -> None:
        self.problem, self.at = problem, at
        metric = HeadMetric(problem, at)
        self._roots = [_inverse_root(gram) for gram in metric.grams]
        self._theta, self._w = np.sqrt(metric.theta), np.sqrt(metric.w)
        self.size = sum(math.prod(part.shape) for part in at.heads)

    def change(self, flat: Array) -> Heads:
        """The change of the heads that flat coordinates stand for."""
        parts, begin = [], 0
        for part in self.at.heads:
            end = begin + part.size
            parts.append(flat[begin:end].reshape(part.shape))
            begin = end
        return self._turned(Heads(*parts))

    def flat(self, gradient: Heads) -> Array:
        """A gradient in flat coordinates: the transpose of `change`."""
        return np.concatenate([part.ravel() for part in self._turned(gradient)])

    def curvature(self, flat: Array) -> Array:
        outputs = self.problem.product(self.at, self.change(flat))
        outputs -= self.problem.linear_part(outputs)[1]
        return self.flat(self.problem.transposed(self.at, outputs))

    def theta_change(self, flat: Array) -> Array:
        """The first-order change of every Theta_i."""
        step, heads = self.change(flat), self.at.heads
        return step.U @ heads.K.swapaxes(1, 2) + heads.U @ step.K.swapaxes(1, 2)

    def w_change(self, flat: Array) -> Array:
        """The first-order change of every W_i."""
        step, heads = self.change(flat), self.at.heads
        return step.V @ heads.O + heads.V @ step.O

    def _turned(self, x: Heads) -> Heads:
        k, u, o, v = self._roots
        return Heads(
            x.U @ k / self._theta, x.K @ u / self._theta, x.V @ o / self._w, v @ x.O / self._w
        )


def _inverse_root(gram: Array) -> Array:
    values, vectors = np.linalg.eigh(gram)
    return (vectors / np.sqrt(values)[:, None, :]) @ vectors.swapaxes(1, 2)
