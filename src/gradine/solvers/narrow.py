"""Gauss-Newton for narrow heads: all products go through the factors, none through d x d matrices.

    F(X)_r = sum_i sum_j p_i(r, j) x_j V_i O_i,      p_i = softmax(X U_i K_i^T X^T)

Heads of rank r in d dimensions cost d / r times less this way than as full matrices. What is linear
in the tokens may be left free: it is then projected out of the residual.

Steps are solved by conjugate gradients. Isotropic tokens make J^T J nearly a multiple of the
identity in each Theta_i and each W_i (not in their factors), so that

    |J (dU, dK, dV, dO)|^2  ~  n sum_i c_i |W_i|^2 (|dU K^T|^2 + |U dK^T|^2)
                               + e_i (|dV O|^2 + |V dO|^2)

with c_i and e_i read off the attention. This quadratic form is the preconditioner, and times the
damping it is what holds a step back.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine.kernels import side_by_side, softmax, softmax_derivative
from gradine.solvers.factored import Parts, damped_solution, dot, gram_of, plus

__all__ = [
    "HeadMetric",
    "Heads",
    "NarrowEvaluation",
    "NarrowProblem",
    "attention_shown",
    "balanced",
    "gauss_newton_step",
]

#: float32 or float64: the type of the examples is that of all arithmetic.
Array = NDArray[np.floating]

LEAST_SHOWN = 0.1  # attention that hardly varies counts as if it varied by this share of the most
TINY = 1e-37  # outputs that are all zero explain everything
LEAST_W = 0.01  # the same for |W_i|^2


class Heads(NamedTuple):
    """Factors of m heads, or a change of them."""

    U: Array  #: (m, D, r)
    K: Array  #: (m, d, r)
    V: Array  #: (m, d, r)
    O: Array  #: (m, r, o)  # noqa: E741

    def plus(self, other: Heads, times: float = 1.0) -> Heads:
        return Heads(*plus(self, other, times))

    def dot(self, other: Heads) -> float:
        return dot(self, other)

    def astype(self, dtype: type) -> Heads:
        return Heads(*(part.astype(dtype) for part in self))

    def joined(self, other: Heads) -> Heads:
        """The heads of both."""
        return Heads(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))

    @property
    def theta(self) -> Array:
        return self.U @ self.K.swapaxes(1, 2)

    @property
    def w(self) -> Array:
        return self.V @ self.O


def balanced(heads: Heads) -> Heads:
    """The same Theta_i and W_i by factors that share their singular values evenly."""
    U, K = _balanced(heads.U, heads.K)
    V, O = _balanced(heads.V, heads.O.swapaxes(1, 2))  # noqa: E741
    return Heads(U, K, V, np.ascontiguousarray(O.swapaxes(1, 2)))


def _balanced(left: Array, right: Array) -> tuple[Array, Array]:
    Q, R = np.linalg.qr(left)
    P, S = np.linalg.qr(right)
    rotation, values, other = np.linalg.svd(R @ S.swapaxes(1, 2))
    root = np.sqrt(values)[:, None, :]
    return Q @ (rotation * root), P @ (other.swapaxes(1, 2) * root)


@dataclass(frozen=True, eq=False)
class NarrowEvaluation:
    """What is known at one point; queries, keys and values are (n, m, k, r)."""

    heads: Heads
    queries: Array
    keys: Array
    values: Array
    weights: Array  #: (n, m, k, k)
    hidden: Array  #: (n k, m r)
    residual: Array  #: (n k, o), without what is linear if that is free
    misfit: float  #: |residual|^2 / |Y|^2


class NarrowProblem:
    """Examples, and everything that a step asks of them."""

    def __init__(self, X: Array, Y: Array, dim: int, *, free: bool) -> None:
        """``X`` (n, k, D) and ``Y`` (n, k, o); ``free``: linear terms cost nothing.

        A constant term is free wherever the tokens have a constant coordinate.
        """
        self.n, self.k, self.width = X.shape
        self.X, self.dim, self.out_dim = X, dim, Y.shape[2]
        self.rows = X.reshape(-1, self.width)
        self.tokens = np.ascontiguousarray(self.rows[:, :dim])
        self.Y = Y.reshape(-1, self.out_dim)
        self.energy = max(float(np.vdot(self.Y, self.Y)), TINY)
        self.free, self.products = free, 0
        self._design = linear_design(X, dim) if free else None
        if self._design is not None:
            gram = (self._design.T @ self._design).astype(np.float64)
            gram.flat[:: len(gram) + 1] += 1e-9 * np.trace(gram) / len(gram)
            self._inverse = np.linalg.inv(gram)

    def with_outputs(self, outputs: Array) -> NarrowProblem:
        """The same tokens with other outputs (n k, o)."""
        other = copy(self)
        other.Y, other.out_dim, other.products = outputs, outputs.shape[1], 0
        other.energy = max(float(np.vdot(outputs, outputs)), TINY)
        return other

    def linear_part(self, outputs: Array) -> tuple[Array, Array]:
        """The regression of outputs on what is free: coefficients, and what they predict."""
        if self._design is not None:
            found = (self._inverse @ (self._design.T @ outputs)).astype(outputs.dtype)
            return found, self._design @ found
        found = outputs.mean(axis=0, keepdims=True)
        if self.width == self.dim:
            found = 0.0 * found
        return found, found

    def evaluate(self, heads: Heads) -> NarrowEvaluation:
        m = len(heads.U)
        queries = self._split(self.rows @ side_by_side(heads.U), m)
        keys, values = (self._split(self.tokens @ side_by_side(p), m) for p in (heads.K, heads.V))
        weights = softmax(queries @ keys.swapaxes(2, 3))
        hidden = self._joined(weights @ values)
        residual = self.Y - hidden @ heads.O.reshape(-1, self.out_dim)
        residual -= self.linear_part(residual)[1]
        misfit = float(np.vdot(residual, residual)) / self.energy
        return NarrowEvaluation(heads, queries, keys, values, weights, hidden, residual, misfit)

    def _split(self, rows: Array, m: int) -> Array:
        parts = rows.reshape(self.n, self.k, m, -1)
        return np.ascontiguousarray(parts.transpose(0, 2, 1, 3))

    def _joined(self, parts: Array) -> Array:
        return parts.transpose(0, 2, 1, 3).reshape(self.n * self.k, -1)

    def product(self, at: NarrowEvaluation, step: Heads) -> Array:
        """J step: how the outputs change, (n k, o)."""
        m = len(step.U)
        self.products += 1
        queries = self._split(self.rows @ side_by_side(step.U), m)
        keys, values = (self._split(self.tokens @ side_by_side(p), m) for p in (step.K, step.V))
        change = queries @ at.keys.swapaxes(2, 3) + at.queries @ keys.swapaxes(2, 3)
        change = softmax_derivative(at.weights, change)
        hidden = self._joined(change @ at.values + at.weights @ values)
        out = hidden @ at.heads.O.reshape(-1, self.out_dim)
        out += at.hidden @ step.O.reshape(-1, self.out_dim)
        return out

    def transposed(self, at: NarrowEvaluation, outputs: Array) -> Heads:
        """J^T outputs."""
        m = len(at.heads.U)
        down = self._split(outputs @ at.heads.O.reshape(-1, self.out_dim).T, m)
        change = softmax_derivative(at.weights, down @ at.values.swapaxes(2, 3))
        return Heads(
            _by_head(self.rows.T @ self._joined(change @ at.keys), m),
            _by_head(self.tokens.T @ self._joined(change.swapaxes(2, 3) @ at.queries), m),
            _by_head(self.tokens.T @ self._joined(at.weights.swapaxes(2, 3) @ down), m),
            (at.hidden.T @ outputs).reshape(at.heads.O.shape),
        )


def linear_design(X: Array, dim: int) -> Array:
    """x_r (constant included) and the other tokens' sum over its size: (n k, D + d)."""
    tokens = X[..., :dim]
    others = tokens.sum(axis=1, keepdims=True) - tokens
    others /= np.sqrt(max(X.shape[1] - 1, 1)).astype(X.dtype)
    return np.concatenate([X, others], axis=2).reshape(-1, X.shape[2] + dim)


def _by_head(columns: Array, m: int) -> Array:
    """(d, m r) to (m, d, r)."""
    return np.ascontiguousarray(columns.reshape(len(columns), m, -1).transpose(1, 0, 2))


def attention_shown(weights: Array) -> Array:
    """How much attention varies with the logits, by head: the mean of |diag p - p p^T|^2."""
    squares, cubes = np.sum(weights**2, axis=3), np.sum(weights**3, axis=3)
    return np.mean(squares - 2.0 * cubes + squares**2, axis=(0, 2))


class HeadMetric:
    """The quadratic form of the module's docstring, and its inverse."""

    def __init__(self, problem: NarrowProblem, at: NarrowEvaluation) -> None:
        heads, rows = at.heads, problem.n * problem.k
        squares, shown = np.sum(at.weights**2, axis=3), attention_shown(at.weights)
        size = np.sum(heads.w**2, axis=(1, 2))
        shown = np.maximum(shown, LEAST_SHOWN * shown.max()) * (size + LEAST_W * size.max())
        self.theta = _column(rows * shown, heads.U.dtype)
        self.w = _column(rows * np.mean(squares, axis=(0, 2)), heads.U.dtype)
        self.grams = [gram_of(p) for p in (heads.K, heads.U, heads.O.swapaxes(1, 2), heads.V)]
        self.inverses = [np.linalg.inv(gram) for gram in self.grams]

    def apply(self, x: Parts) -> Heads:
        x = Heads(*x)
        k, u, o, v = self.grams
        return Heads(
            self.theta * (x.U @ k), self.theta * (x.K @ u), self.w * (x.V @ o), self.w * (v @ x.O)
        )

    def solve(self, x: Parts) -> Heads:
        x = Heads(*x)
        k, u, o, v = self.inverses
        return Heads(x.U @ k / self.theta, x.K @ u / self.theta, x.V @ o / self.w, v @ x.O / self.w)


def _column(values: Array, dtype: np.dtype) -> Array:
    return values.astype(dtype)[:, None, None]


def gauss_newton_step(
    problem: NarrowProblem, at: NarrowEvaluation, damping: float, products: int, accuracy: float
) -> tuple[Heads, float]:
    """The damped step, and the decrease of the misfit that the linear model promises for it."""
    metric = HeadMetric(problem, at)
    gradient = problem.transposed(at, at.residual)
    solution = damped_solution(
        lambda x: problem.transposed(at, problem.product(at, Heads(*x))),
        metric,
        gradient,
        damping,
        products,
        accuracy,
    )
    step, left = (Heads(*parts) for parts in solution)
    # |r|^2 - |r - J s|^2 = g s + (g - H s) s, with H s = g - left - damping M s.
    promised = step.dot(gradient) + step.dot(left) + damping * step.dot(metric.apply(step))
    return step, promised / problem.energy
