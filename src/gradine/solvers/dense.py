"""Levenberg-Marquardt for small dense problems of any kind: a residual and its Jacobian.

    min over x of  | r(x) |^2,      (J^T J + damping D) step = -J^T r

The normal equations lose digits of the step, not of the answer: residual and gradient are computed
anew at every point.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["DenseSolution", "dense_least_squares"]

Array = NDArray[np.float64]
#: x to r(x) and a function that makes the Jacobian there: steps that are refused need none.
Problem = Callable[[Array], tuple[Array, Callable[[], Array]]]

FIRST_DAMPING = 1e-3
LEAST_DAMPING = 1e-15
REFUSALS = 8  # dampings in a row without a smaller residual before giving up
RESTS = 1e-3  # share of the cost by which so many steps in a row must lower it to go on
PATIENCE = 4
LEAST_SCALE = 1e-12  # of the diagonal, relative: a variable that does nothing must not divide


class DenseSolution(NamedTuple):
    x: Array
    residual: float  #: root mean square
    steps: int  #: that were accepted


def dense_least_squares(
    problem: Problem, start: Array, *, one_unit: bool = False, steps: int = 100
) -> DenseSolution:
    """Walk down from ``start``, until nothing is gained any more.

    D is the diagonal of J^T J, each variable in its own unit. With ``one_unit`` it is their mean,
    for variables of one kind: those that hardly matter then wait until the others have settled,
    and are not sent far away to explain what is left of them.

    >>> squares = lambda x: (x**2 - 4.0, lambda: np.diag(2.0 * x))
    >>> np.round(dense_least_squares(squares, np.array([1.0, -3.0])).x, 12).tolist()
    [2.0, -2.0]
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    x = np.array(start, dtype=np.float64)
    residual, jacobian = problem(x)
    cost = float(residual @ residual)
    damping, growth, refused, resting, accepted = FIRST_DAMPING, 2.0, 0, 0, 0
    normal = gradient = None
    while accepted < steps and refused < REFUSALS and resting < PATIENCE and cost > 0.0:
        if normal is None or gradient is None:
            J = jacobian()
            normal, gradient = J.T @ J, J.T @ residual
        diagonal = np.diag(normal)
        scale = np.maximum(diagonal, LEAST_SCALE * diagonal.max())
        if one_unit:
            scale = np.full_like(scale, scale.mean())
        damped = normal + np.diag(damping * scale)
        try:
            step = -cho_solve(cho_factor(damped, check_finite=False), gradient, check_finite=False)
        except LinAlgError:
            damping, growth, refused = damping * growth, growth * 2.0, refused + 1
            continue
        new_residual, new_jacobian = problem(x + step)
        new_cost = float(new_residual @ new_residual)
        if not new_cost < cost:
            damping, growth, refused = damping * growth, growth * 2.0, refused + 1
            continue
        promised = float(step @ (damping * scale * step - gradient))
        gain = (cost - new_cost) / max(promised, np.finfo(float).tiny)
        damping = max(damping * max(0.1, 1.0 - (2.0 * gain - 1.0) ** 3), LEAST_DAMPING)
        resting = resting + 1 if new_cost > (1.0 - RESTS) * cost else 0
        x, residual, jacobian, cost = x + step, new_residual, new_jacobian, new_cost
        normal = gradient = None
        growth, refused, accepted = 2.0, 0, accepted + 1
    return DenseSolution(x, float(np.sqrt(cost / len(residual))), accepted)
