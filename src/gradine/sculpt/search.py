"""Phase 6: search a net over the hull [CL25, phase 6].

Each head is a point of the (m - 1)-dimensional hull. For every tuple of m points of a net, the
best W_i are one least-squares problem; the tuple that fits best on fresh examples is the answer.
All tuples share one Gram matrix: with Phi_c = softmax(X Theta_c X^T) X for each net point c, a
tuple needs the blocks Phi_c^T Phi_c' and Phi_c^T Y only. The net is coarse; the best tuples are
refined within the hull, over their m (m - 1) coordinates, instead of laying a finer net.
"""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
from numpy.typing import NDArray

from gradine.examples import FittingData
from gradine.layer import attention_features
from gradine.sculpt.config import SculptConfig
from gradine.sculpt.results import Searched, Span
from gradine.solvers.least_squares import solve_projections

__all__ = ["net_over", "search_net", "square", "tuples_of"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

TUPLE_BLOCK = 512  # tuples solved at once


def square(theta: Array, width: int) -> Array:
    """(m, D, d) attention matrices as (m, D, D), with the column that cannot be known at zero."""
    missing = width - theta.shape[-1]
    return np.pad(theta, [(0, 0)] * (theta.ndim - 1) + [(0, missing)])


def search_net(
    data: FittingData, span: Span, center: Array, config: SculptConfig, seed: int
) -> Searched:
    """The theorem's answer: heads from the net, refined within the hull."""
    began = time.perf_counter()
    X, Y = data.sample(config.net_examples, seed)
    X_fresh, Y_fresh = data.validation()
    m = span.heads
    points = net_over(span, center, config)
    tuples = tuples_of(len(points), m, config.net_tuples, np.random.default_rng(seed))
    order = np.argsort(_tuple_errors(_heads_at(span, points, data.width), tuples, X, Y))

    def answer(coordinates: Array) -> tuple[Array, Array, float]:
        theta = _heads_at(span, coordinates, data.width)
        w = solve_projections(attention_features(X, theta), Y)
        return theta, w, relative_error(theta, w, X_fresh, Y_fresh)

    candidates = _apart([points[tuples[i]] for i in order], span, config.refined_tuples)
    net_error = min(answer(coordinates)[2] for coordinates in candidates)
    refined = [_refine(span, coordinates, data.width, X, Y) for coordinates in candidates]
    theta, w, error = min((answer(c) for c in refined), key=lambda found: found[2])
    return Searched(
        theta=theta[:, :, : data.dim],
        w=w,
        points=len(points),
        tuples=len(tuples),
        net_error=net_error,
        validation_error=error,
        seconds=time.perf_counter() - began,
    )


def relative_error(theta: Array, w: Array, X: Array, Y: Array) -> float:
    """|F(X) - Y| / |Y| for square theta, over all examples."""
    n, k, outputs = Y.shape
    design = attention_features(X, theta).swapaxes(1, 2).reshape(n * k, -1)
    error = design @ w.reshape(-1, outputs) - Y.reshape(n * k, outputs)
    return float(np.linalg.norm(error) / max(np.linalg.norm(Y), 1e-300))


def net_over(span: Span, center: Array, config: SculptConfig) -> Array:
    """Coordinates (points, m - 1) of a grid over the part of the hull that the body reaches.

    As fine as possible while the tuples of m points number at most ``net_tuples``, and at least
    three points along each direction.
    """
    axes = span.heads - 1
    if axes == 0:
        return np.zeros((1, 0))
    middle = span.directions.reshape(axes, -1) @ center.ravel()
    fineness = 3
    while (
        fineness < config.finest_net
        and math.comb((fineness + 1) ** axes, span.heads) <= config.net_tuples
    ):
        fineness += 1
    ticks = [
        np.linspace(
            middle[axis] - span.reach[axis, 1], middle[axis] + span.reach[axis, 0], fineness
        )
        for axis in range(axes)
    ]
    return np.stack(np.meshgrid(*ticks, indexing="ij"), axis=-1).reshape(-1, axes)


def tuples_of(points: int, m: int, most: int, rng: np.random.Generator) -> Indices:
    """All m-subsets of the net's points, or a random choice of them where there are too many."""
    if math.comb(points, m) <= most:
        return np.array(list(itertools.combinations(range(points), m)), dtype=np.intp)
    drawn = np.sort(rng.random((most, points)).argpartition(m, axis=1)[:, :m], axis=1)
    return np.unique(drawn, axis=0)


def _apart(tuples: list[Array], span: Span, most: int) -> list[Array]:
    """The first ``most`` tuples that are not neighbours of an earlier one."""
    far = span.reach.sum(axis=1, keepdims=False) / 8.0  # an eighth of the body along each axis
    chosen: list[Array] = []
    for candidate in tuples:
        if all((np.abs(candidate - other) > far).any() for other in chosen):
            chosen.append(candidate)
        if len(chosen) == most:
            break
    return chosen


def _heads_at(span: Span, coordinates: Array, width: int) -> Array:
    """Square attention matrices (points, D, D) at coordinates of the hull."""
    theta = span.base + np.tensordot(coordinates, span.directions, axes=1)
    return square(theta, width)


def _tuple_errors(theta: Array, tuples: Indices, X: Array, Y: Array) -> Array:
    """Squared error of the best projections, for each tuple of the net's points."""
    n, k, outputs = Y.shape
    width = theta.shape[1]
    design = np.concatenate(
        [
            attention_features(X, part).swapaxes(1, 2).reshape(n * k, -1)
            for part in np.array_split(theta, max(1, len(theta) // 16))
        ],
        axis=1,
    )
    gram = (design.T @ design).reshape(len(theta), width, len(theta), width).swapaxes(1, 2)
    moment = (design.T @ Y.reshape(n * k, outputs)).reshape(len(theta), width, outputs)
    m = tuples.shape[1]
    # Heads of a constant coordinate share one direction, and net points may be close.
    ridge = 1e-10 * np.trace(gram[0, 0]) * np.eye(m * width)
    errors = np.empty(len(tuples))
    for start in range(0, len(tuples), TUPLE_BLOCK):
        chosen = tuples[start : start + TUPLE_BLOCK]
        left = gram[chosen[:, :, None], chosen[:, None, :]]  # (tuples, m, m, D, D)
        left = left.swapaxes(2, 3).reshape(len(chosen), m * width, m * width)
        right = moment[chosen].reshape(len(chosen), m * width, outputs)
        explained = np.sum(right * np.linalg.solve(left + ridge, right), axis=(1, 2))
        errors[start : start + TUPLE_BLOCK] = np.sum(Y**2) - explained
    return errors


def _refine(span: Span, coordinates: Array, width: int, X: Array, Y: Array) -> Array:
    """Move the points of a tuple within the hull until the fit is best."""
    if coordinates.size == 0:
        return coordinates
    from scipy.optimize import least_squares

    def misfit(flat: Array) -> Array:
        theta = _heads_at(span, flat.reshape(coordinates.shape), width)
        features = attention_features(X, theta)
        n, m, k, _ = features.shape
        w = solve_projections(features, Y)
        design = features.swapaxes(1, 2).reshape(n * k, -1)
        return (design @ w.reshape(m * width, -1) - Y.reshape(n * k, -1)).ravel()

    return least_squares(misfit, coordinates.ravel(), max_nfev=15).x.reshape(coordinates.shape)
