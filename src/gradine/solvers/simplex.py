"""Regression with weights in the simplex: which mixture of the rows of Z is y?

    min_v || y - v Z ||      v >= 0,  sum_j v_j = 1

for very many small problems at once (Z is k x d_out with k a handful of tokens). The paper poses
it as a linear program in the 1-norm, `simplex_regression_lp`; `simplex_regression` solves the
2-norm form in closed form where the answer is inside the simplex. Where it is not, weights that
come out negative are set to zero and the others solved for again; if the conditions for an optimum
then hold, it is one, and otherwise accelerated projected gradient steps find it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "AffineRegression",
    "affine_regression",
    "project_to_simplex",
    "simplex_regression",
    "simplex_regression_lp",
]

Array = NDArray[np.float64]

RIDGE = 1e-9  # relative; two equal tokens make a problem singular, and share their weight
FACE_RIDGE = 1e-12  # the same for the solve on a face, whose answer is not refined
NEAR = 2**15  # numbers of an array at a time: temporaries stay near the cache, and on the heap
OPTIMAL = 1e-9  # gradient, relative, that may point out of the simplex at an optimum
GRADIENT_STEPS = 300  # enough for condition numbers of some thousands; the exact solve follows


class AffineRegression(NamedTuple):
    """Least squares over weights that sum to one but may be negative."""

    weights: Array  #: (n, r, k)
    residual: Array  #: (n, r) Euclidean norms
    covariance: Array  #: (n, k, k) of the weights, for errors of unit variance in each output


def affine_regression(Z: Array, Y: Array) -> AffineRegression:
    """Regress each row of ``Y`` (n, r, o) on the rows of ``Z`` (n, k, o), weights summing to one.

    Its residual is a lower bound on that of `simplex_regression`, at a fraction of the cost: all
    rows of an example share one k x k matrix.
    """
    n, k, outputs = Z.shape
    rows = Y.shape[1]
    found = AffineRegression(np.empty((n, rows, k)), np.empty((n, rows)), np.empty((n, k, k)))
    step = max(1, NEAR // (max(rows, k) * outputs))
    for part in (slice(at, at + step) for at in range(0, n, step)):
        for all_of_them, some in zip(found, _affine_regression(Z[part], Y[part]), strict=True):
            all_of_them[part] = some
    return found


def _affine_regression(Z: Array, Y: Array) -> AffineRegression:
    k = Z.shape[1]
    mean = np.full((1, k), 1.0 / k) @ Z
    centred = Z - mean
    gram = centred @ centred.swapaxes(1, 2)
    size = np.trace(gram, axis1=1, axis2=2)[:, None, None] / k
    size = np.where(size > 0, size, 1.0)
    # Adding the missing direction (1, ..., 1) makes the matrix invertible; taking it out of the
    # inverse again leaves the pseudo-inverse, which is the covariance under the constraint.
    ones = np.full((k, k), 1.0 / k)
    covariance = np.linalg.inv(gram + size * (ones + RIDGE * np.eye(k))) - ones / size
    offsets = Y - mean
    weights = (offsets @ centred.swapaxes(1, 2)) @ covariance
    left = offsets - weights @ centred  # what the ridge and rounding left is fitted once more
    weights += (left @ centred.swapaxes(1, 2)) @ covariance
    left = offsets - weights @ centred
    residual = np.sqrt(np.einsum("nro,nro->nr", left, left))
    # Two nearly equal tokens make the covariance huge, and its rounding spoils the sum.
    weights += (1.0 - weights.sum(axis=-1, keepdims=True)) / k
    return AffineRegression(weights, residual, covariance)


def project_to_simplex(V: Array) -> Array:
    """The nearest point of the simplex, for each vector along the last axis.

    >>> project_to_simplex(np.array([[0.2, 0.8], [2.0, 0.0], [0.5, 0.7]]))
    array([[0.2, 0.8],
           [1. , 0. ],
           [0.4, 0.6]])
    """
    k = V.shape[-1]
    descending = -np.sort(-V, axis=-1)
    excess = np.cumsum(descending, axis=-1) - 1.0
    counts = np.arange(1, k + 1)
    support = (descending * counts > excess).sum(axis=-1, keepdims=True)
    threshold = np.take_along_axis(excess, support - 1, axis=-1) / support
    return np.maximum(V - threshold, 0.0)


def simplex_regression(Z: Array, y: Array) -> tuple[Array, Array]:
    """Solve ``n`` problems: ``Z`` (n, k, o), ``y`` (n, o) to weights (n, k) and residuals (n,).

    >>> Z = np.array([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> weights, residual = simplex_regression(Z, np.array([[0.25, 0.75, 3.0]]))
    >>> weights, residual
    (array([[0.25, 0.75]]), array([3.]))
    """
    weights = affine_regression(Z, y[:, None]).weights[:, 0]
    outside = np.flatnonzero(weights.min(axis=1, initial=0.0) < 0.0)
    if len(outside):
        weights[outside] = _bounded_weights(Z[outside], y[outside], weights[outside])
    residual = np.linalg.norm(y - (weights[:, None] @ Z)[:, 0], axis=-1)
    return weights, residual


def _bounded_weights(Z: Array, y: Array, start: Array) -> Array:
    # Weights sum to one: what all rows have in common says nothing, and only costs digits.
    mean = np.full((1, Z.shape[1]), 1.0 / Z.shape[1]) @ Z
    Z, y = Z - mean, y - mean[:, 0]
    gram = Z @ Z.swapaxes(1, 2)
    correlation = (y[:, None] @ Z.swapaxes(1, 2))[:, 0]
    weights, optimal = _by_dropping(gram, correlation, start)
    rest = np.flatnonzero(~optimal)
    if len(rest):
        weights[rest] = _by_gradient(gram[rest], correlation[rest], start[rest])
    return weights


def _by_dropping(gram: Array, correlation: Array, start: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Hold weights at zero that come out negative, until none does; and which are optimal."""
    face = start > 0.0
    weights = start
    for _ in range(start.shape[1]):
        weights = _on_face(gram, correlation, face)
        negative = face & (weights < 0.0)
        if not negative.any():
            break
        face &= ~negative
    weights = np.where(face, np.maximum(weights, 0.0), 0.0)
    # At an optimum the gradient is the same on the face, and nowhere smaller.
    gradient = (weights[:, None] @ gram)[:, 0] - correlation
    on_face = np.sum(gradient * face, axis=1) / np.maximum(face.sum(axis=1), 1)
    size = np.abs(correlation).max(axis=1) + np.trace(gram, axis1=1, axis2=2)
    off = np.where(face, np.abs(gradient - on_face[:, None]), on_face[:, None] - gradient)
    return weights, (off.max(axis=1) <= OPTIMAL * size) & face.any(axis=1)


def _by_gradient(gram: Array, correlation: Array, start: Array) -> Array:
    """Accelerated projected gradient to find the face, then the exact optimum on that face."""
    step = 1.0 / np.maximum(np.linalg.eigvalsh(gram)[:, -1:], np.finfo(float).tiny)
    weights = look_ahead = project_to_simplex(start)
    momentum = 1.0
    for _ in range(GRADIENT_STEPS):
        gradient = (look_ahead[:, None] @ gram)[:, 0] - correlation
        new = project_to_simplex(look_ahead - step * gradient)
        grown = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        # Momentum that points uphill is dropped (gradient restart): problems differ in shape.
        uphill = ((look_ahead - new) * (new - weights)).sum(axis=1, keepdims=True) > 0
        look_ahead = new + np.where(uphill, 0.0, (momentum - 1.0) / grown) * (new - weights)
        change = np.abs(new - weights).max()
        weights, momentum = new, grown
        if change < 1e-15:
            break
    solved = _on_face(gram, correlation, weights > 0.0)
    feasible = (solved >= 0.0).all(axis=1, keepdims=True)
    return np.where(feasible, solved, weights)


def _on_face(gram: Array, correlation: Array, support: NDArray[np.bool_]) -> Array:
    """Solve the optimality conditions with the other weights held at zero."""
    n, k = support.shape
    face = support.astype(float)
    size = np.trace(gram, axis1=1, axis2=2)[:, None, None] / k
    system = np.zeros((n, k + 1, k + 1))
    system[:, :k, :k] = gram * face[:, :, None] * face[:, None, :]
    system[:, :k, :k] += size * np.eye(k) * (FACE_RIDGE + 1.0 - face[:, :, None])
    system[:, :k, k] = system[:, k, :k] = face * size[:, 0]
    right = np.concatenate([correlation * face, size[:, 0]], axis=1)
    return np.asarray(np.linalg.solve(system, right[..., None])[:, :k, 0], np.float64)


def simplex_regression_lp(Z: Array, y: Array) -> tuple[Array, float]:
    """The paper's form for one row: minimise the 1-norm of y - v Z by linear programming.

    ``Z`` is (k, o) and ``y`` (o,); returns the weights (k,) and the 1-norm residual.
    """
    from scipy.optimize import linprog

    k, outputs = Z.shape
    identity = np.eye(outputs)
    answer = linprog(
        np.concatenate([np.zeros(k), np.ones(outputs)]),
        A_ub=np.block([[Z.T, -identity], [-Z.T, -identity]]),
        b_ub=np.concatenate([y, -y]),
        A_eq=np.concatenate([np.ones(k), np.zeros(outputs)])[None],
        b_eq=[1.0],
        method="highs",
    )
    if not answer.success:
        raise RuntimeError(f"the simplex regression LP failed: {answer.message}")
    return answer.x[:k], float(answer.fun)
