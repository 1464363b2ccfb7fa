"""Programs over slabs, with scipy's HiGHS and plain geometry as referees."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from gradine.solvers.convex import (
    SolverError,
    elastic_slack,
    farthest_point,
    minimum_norm_point,
)


@pytest.fixture(params=[1.0, 1e-6], ids=["wide", "tiny"])
def slabs(request):
    """Slabs about a point far from zero; tiny ones are what the last rounds of carving give."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 6))
    width = request.param * rng.uniform(0.5, 2.0, 60)
    b = A @ np.arange(1.0, 7.0) + 0.9 * width * rng.uniform(-1, 1, 60)
    return A, b, width


def test_elastic_slack_agrees_with_highs(slabs):
    A, b, width = slabs
    t, theta = elastic_slack(A, b, width)
    rows = A / width[:, None]
    ones = np.ones((len(b), 1))
    referee = linprog(
        [0.0] * 6 + [1.0],
        A_ub=np.block([[rows, -ones], [-rows, -ones]]),
        b_ub=np.concatenate([b / width, -b / width]),
        bounds=[(None, None)] * 7,
    )
    assert t == pytest.approx(referee.fun, rel=1e-5)
    assert np.abs((A @ theta - b) / width).max() == pytest.approx(t, rel=1e-5)


def test_elastic_slack_decides_feasibility(slabs):
    A, b, width = slabs
    t, theta = elastic_slack(A, b, width)
    assert 0 < t < 1  # the point the slabs were made around has 0.9 at most
    # Contradict the body: two parallel slabs that cannot both hold.
    A2, b2 = np.vstack([A, A[:1]]), np.append(b, A[0] @ theta + 10 * width[0])
    t2, _ = elastic_slack(A2, b2, np.append(width, width[0]))
    assert t2 > 2


def test_minimum_norm_point_is_inside_and_smallest(slabs):
    A, b, width = slabs
    point = minimum_norm_point(A, b, width)
    assert (np.abs(A @ point - b) <= width * (1 + 1e-6)).all()
    # Optimal: no point of the body has a smaller projection on it than it has itself.
    lowest = farthest_point(A, b, width, -point, np.zeros((0, 6)), point)
    assert lowest @ point >= point @ point * (1 - 1e-7) - 1e-9


def test_minimum_norm_point_of_a_body_around_zero_is_zero():
    A = np.random.default_rng(1).standard_normal((40, 5))
    assert np.abs(minimum_norm_point(A, np.zeros(40), np.ones(40))).max() < 1e-6


def test_minimum_norm_agrees_with_a_general_method():
    rng = np.random.default_rng(2)
    A = rng.standard_normal((12, 3))
    b = A @ np.array([2.0, -1.0, 1.0])
    width = np.full(12, 0.3)
    referee = minimize(
        lambda x: x @ x,
        [2.0, -1.0, 1.0],
        constraints={
            "type": "ineq",
            "fun": lambda x: np.append(width - (A @ x - b), width + (A @ x - b)),
        },
        options={"ftol": 1e-14},
    )
    np.testing.assert_allclose(minimum_norm_point(A, b, width), referee.x, atol=1e-5)


def test_farthest_point_agrees_with_highs_and_keeps_to_the_plane(slabs):
    A, b, width = slabs
    _, center = elastic_slack(A, b, width)
    rng = np.random.default_rng(4)
    direction, normal = rng.standard_normal((2, 6))
    normal /= np.linalg.norm(normal)
    far = farthest_point(A, b, width, direction, normal[None], center)
    size = np.linalg.norm(far - center)
    assert abs(normal @ (far - center)) < 1e-6 * size
    unit = width.mean()
    rows, offsets = A, (b - A @ center) / unit
    referee = linprog(
        -direction,
        A_ub=np.vstack([rows, -rows]),
        b_ub=np.concatenate([offsets + width / unit, -offsets + width / unit]),
        A_eq=normal[None],
        b_eq=[0.0],
        bounds=[(None, None)] * 6,
    )
    assert direction @ (far - center) == pytest.approx(-referee.fun * unit, rel=1e-4)


def test_an_unbounded_question_is_an_error():
    with pytest.raises(SolverError, match="stopped"):
        farthest_point(
            np.eye(2)[:1],
            np.zeros(1),
            np.ones(1),
            np.array([0.0, 1.0]),
            np.zeros((0, 2)),
            np.zeros(2),
        )
