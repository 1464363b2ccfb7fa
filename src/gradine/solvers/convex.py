"""Linear and quadratic programs over a body of slabs, |A theta - b| <= width, by piqp.

Bodies are dense and tall (thousands of slabs in hundreds of dimensions); a dense interior-point
method is an order of magnitude faster on them than the general solvers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["SolverError", "elastic_slack", "farthest_point", "minimum_norm_point"]

Array = NDArray[np.float64]


class SolverError(RuntimeError):
    """The convex solver did not reach an optimum."""


def elastic_slack(A: Array, b: Array, width: Array) -> tuple[float, Array]:
    r"""The feasibility primitive: the smallest t for which the body is not empty, and a point.

    .. math:: \min_{\theta, t} t \quad |a_i \theta - b_i| \le t \, w_i

    A solver's verdict "infeasible" is unreliable for bodies that are barely empty; t is a number
    that can be compared. The body with slack s is empty exactly if s < t.

    >>> t, theta = elastic_slack(np.array([[1.0], [1.0]]), np.array([0.0, 1.0]), np.ones(2))
    >>> round(t, 6), theta.round(6)
    (0.5, array([0.5]))
    """
    scaled = _Scaled(A, b, width)
    ones = np.ones((len(b), 1))
    constraints = np.block([[scaled.A, -ones], [-scaled.A, -ones]])
    cost = np.zeros(A.shape[1] + 1)
    cost[-1] = 1.0
    quadratic = np.zeros((len(cost), len(cost)))
    solution = _solve(quadratic, cost, constraints, None, np.concatenate([scaled.b, -scaled.b]))
    return float(solution[-1]), scaled.point(solution[:-1])


def minimum_norm_point(A: Array, b: Array, width: Array) -> Array:
    r"""The point of the body nearest to zero.

    .. math:: \min_\theta \|\theta\|^2 \quad |a_i \theta - b_i| \le w_i

    >>> minimum_norm_point(np.eye(2), np.array([3.0, 0.0]), np.ones(2)).round(6)
    array([2., 0.])
    """
    scaled = _Scaled(A, b, width)
    # |origin + unit u|^2 / (2 unit) as a function of u
    quadratic = scaled.unit * np.eye(A.shape[1])
    return scaled.point(_solve(quadratic, scaled.origin, scaled.A, scaled.b - 1.0, scaled.b + 1.0))


def farthest_point(
    A: Array, b: Array, width: Array, direction: Array, orthogonal_to: Array, through: Array
) -> Array:
    r"""The point of the body that lies farthest in a direction.

    .. math:: \max_\theta \langle g, \theta \rangle \quad |a_i \theta - b_i| \le w_i, \quad
       \langle q_j, \theta - c \rangle = 0

    ``orthogonal_to`` (number, p) holds the q_j, ``through`` is c.
    """
    p = A.shape[1]
    scaled = _Scaled(A, b, width, through)
    lower, upper = scaled.b - 1.0, scaled.b + 1.0
    return scaled.point(
        _solve(np.zeros((p, p)), -direction, scaled.A, lower, upper, equal=orthogonal_to)
    )


class _Scaled:
    """Slabs in units of their width, about a point, with variables of the body's own size.

    Bodies shrink to a millionth of their distance from zero as the phases go on; an
    interior-point method wants numbers near one.
    """

    def __init__(self, A: Array, b: Array, width: Array, origin: Array | None = None) -> None:
        rows = A / width[:, None]
        nearest = np.linalg.lstsq(rows, b / width, rcond=1e-10)[0] if origin is None else origin
        self.origin: Array = np.asarray(nearest, dtype=np.float64)
        self.unit = 1.0 / float(np.median(np.linalg.norm(rows, axis=1)))
        self.A = rows * self.unit
        self.b = (b - A @ self.origin) / width

    def point(self, u: Array) -> Array:
        return self.origin + self.unit * u


def _solve(
    P: Array,
    c: Array,
    G: Array,
    lower: Array | None,
    upper: Array,
    equal: Array | None = None,
) -> Array:
    import piqp

    solver = piqp.DenseSolver()
    solver.settings.verbose = False
    at = None if equal is None or not len(equal) else equal
    zeros = None if at is None else np.zeros(len(at))
    solver.setup(P, c, at, zeros, G, lower, upper, None, None)
    status = solver.solve()
    if status != piqp.PIQP_SOLVED:
        raise SolverError(f"the convex solver stopped with {status} on a body of {len(G)} slabs")
    return np.array(solver.result.x)
