"""Theta of one head from how it attends: a logistic regression.

The outputs of a head show its attention row by row where its values are known: k numbers from r
outputs, by least squares, with their errors from what is left. The cross entropy between these and
softmax(X U K^T X^T) is convex in Theta = U K^T. A sharp head needs that. Squared errors of outputs
are flat wherever all of the attention is on one token, the right one or a wrong one; here the
gradient is the attention that is missing, and a wrong token shows as much as any.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine.kernels import softmax, softmax_derivative
from gradine.solvers.factored import Parts, damped_solution, dot, gram_of, plus

__all__ = ["ReadOff", "fit_attention", "read_attention"]

Array = NDArray[np.floating]

CLEAR = 4.0  # standard errors at which attention counts as seen
SHORTER = (1.0, 0.5, 0.25)  # shares of a step that are tried
ACCURACY = 0.05  # of the solution for a step
WORTHWHILE = 0.01  # share of the loss that a step has to take away for another one
DAMPING = 0.03
TINY = 1e-30


class ReadOff(NamedTuple):
    """Attention that outputs show, and its standard errors."""

    weights: Array  #: (n, k, k)
    errors: Array

    def nearest(self, weights: Array) -> Array:
        """What is clear, and of the rest what these weights may have right; rows sum to one.

        Zero for what is too small to see would say that it is nothing: without bound, as a softmax
        takes infinite logits to get there.
        """
        clear = self.weights > CLEAR * self.errors
        most = np.maximum(self.weights, 0.0) + CLEAR * self.errors
        target = np.where(clear, self.weights, np.minimum(weights, most))
        return target / np.maximum(target.sum(axis=2, keepdims=True), TINY)

    def unexplained(self, weights: Array) -> float:
        """Mean squared error of these weights, in units of what the outputs leave open."""
        return float(np.sum((self.weights - weights) ** 2) / max(np.sum(self.errors**2), TINY))


def read_attention(outputs: Array, values: Array) -> ReadOff | None:
    """The weights, rows that sum to one, with which values (n, k, r) give outputs (n, k, r).

    None if there are too few outputs for that many tokens.
    """
    k, r = values.shape[1:]
    if r < k:
        return None
    gram = values @ values.swapaxes(1, 2)
    gram = gram + 1e-12 * np.trace(gram, axis1=1, axis2=2)[:, None, None] * np.eye(k)
    inverse = np.linalg.inv(gram)  # small, and its entries are the errors
    share = inverse.sum(axis=2)
    share, total = share / share.sum(axis=1, keepdims=True), share.sum(axis=1)
    weights = outputs @ values.swapaxes(1, 2) @ inverse
    weights += (1.0 - weights.sum(axis=2, keepdims=True)) * share[:, None, :]
    left = np.sum((outputs - weights @ values) ** 2, axis=2) / (r - k + 1)
    left = 0.5 * (left + left.mean())  # few numbers are left over in a row
    variance = np.diagonal(inverse, axis1=1, axis2=2) - share**2 * total[:, None]
    return ReadOff(weights, np.sqrt(left[:, :, None] * np.maximum(variance, 0.0)[:, None, :]))


class _Attention:
    """Cross entropy and its derivatives, in single precision."""

    def __init__(self, X: Array, dim: int, shown: ReadOff) -> None:
        self.n, self.k, width = X.shape
        self.rows = X.reshape(-1, width).astype(np.float32)
        self.tokens = np.ascontiguousarray(self.rows[:, :dim])
        self.shown = ReadOff(*(part.astype(np.float32) for part in shown))
        self.products = 0

    def go_to(self, factors: Parts) -> None:
        U, K = factors
        self.queries, self.keys = self._split(self.rows @ U), self._split(self.tokens @ K)
        self.weights = softmax(self.queries @ self.keys.swapaxes(1, 2))
        self.target = self.shown.nearest(self.weights)
        sure = np.log(np.maximum(self.target, TINY))
        self.least = float(np.sum(self.target * sure, dtype=np.float64))
        spread = np.sum(self.weights - self.weights**2, dtype=np.float64)
        self.spread = np.float32(max(spread, 1.0))
        self.grams = [gram_of(p[None])[0] for p in (K, U)]
        self.inverses = [np.linalg.inv(gram) for gram in self.grams]

    def _split(self, rows: Array) -> Array:
        return rows.reshape(self.n, self.k, -1)

    def loss(self, factors: Parts) -> float:
        """The divergence of the attention from the target, summed over rows."""
        U, K = factors
        logits = self._split(self.rows @ U) @ self._split(self.tokens @ K).swapaxes(1, 2)
        logits -= logits.max(axis=2, keepdims=True)
        total = np.log(np.exp(logits).sum(axis=2))
        seen = np.sum(self.target * logits, axis=2)
        return self.least - float(np.sum(seen - total, dtype=np.float64))

    def gradient(self) -> Parts:
        return self._transposed(self.target - self.weights)

    def _transposed(self, change: Array) -> Parts:
        by_query = (change @ self.keys).reshape(len(self.rows), -1)
        by_key = (change.swapaxes(1, 2) @ self.queries).reshape(len(self.rows), -1)
        return self.rows.T @ by_query, self.tokens.T @ by_key

    def curvature(self, step: Parts) -> Parts:
        self.products += 1
        dU, dK = step
        change = self._split(self.rows @ dU) @ self.keys.swapaxes(1, 2)
        change += self.queries @ self._split(self.tokens @ dK).swapaxes(1, 2)
        return self._transposed(softmax_derivative(self.weights, change))

    def apply(self, x: Parts) -> Parts:
        k, u = self.grams
        return self.spread * (x[0] @ k), self.spread * (x[1] @ u)

    def solve(self, x: Parts) -> Parts:
        k, u = self.inverses
        return x[0] @ k / self.spread, x[1] @ u / self.spread


def fit_attention(
    X: Array, U: Array, K: Array, shown: ReadOff, steps: int, products: int
) -> tuple[Array, Array, int]:
    """U (D, r) and K (d, r) whose attention is nearest to what is shown, from a start; and the
    products that it took."""
    problem = _Attention(X, len(K), shown)
    at: Parts = (U.astype(np.float32), K.astype(np.float32))
    damping = DAMPING
    for _ in range(steps):
        problem.go_to(at)
        gradient, before = problem.gradient(), problem.loss(at)
        step, _ = damped_solution(problem.curvature, problem, gradient, damping, products, ACCURACY)
        promised, gain = 0.5 * dot(step, gradient), 0.0
        for share in SHORTER:
            there = plus(at, step, share)
            gain = (before - problem.loss(there)) / max(promised, TINY)
            if gain > 0.0:
                at = there
                break
        if gain * promised < WORTHWHILE * before:
            break
        damping *= 0.3 if gain > 0.8 else 0.5 if gain > 0.5 else 1.0 if gain > 0.3 else 3.0
    return at[0].astype(np.float64), at[1].astype(np.float64), problem.products
