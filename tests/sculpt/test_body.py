"""The body: membership, chords by membership alone, and the hull in its null space."""

from __future__ import annotations

import numpy as np
import pytest

from gradine.sculpt.body import (
    Body,
    affine_hull,
    count_heads,
    first_of_each,
    plausible_counts,
    slab_normals,
)
from gradine.sculpt.config import SculptConfig


def body_around(point, slack=1.0, slabs=80, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((slabs, len(point)))
    return Body(A, A @ point, rng.uniform(0.5, 2.0, slabs), slack)


def test_membership():
    point = np.arange(5.0)
    body = body_around(point)
    assert body.contains(point)
    assert not body.contains(point + 10.0)
    assert body.with_slack(1e3).contains(point + 10.0)


def test_chord_agrees_with_the_ratio_test():
    point = np.arange(5.0)
    body = body_around(point)
    center = point + 0.01
    direction = np.ones(5) / np.sqrt(5)
    forward, backward = body.chord(center, direction)
    rate, offset = body.A @ direction, body.A @ center - body.b
    steps = (np.sign(rate) * body.width - offset) / rate
    assert forward == pytest.approx(steps.min(), rel=1e-9)
    steps = (np.sign(rate) * body.width + offset) / rate
    assert backward == pytest.approx(steps.min(), rel=1e-9)


def test_chord_from_outside_is_refused():
    with pytest.raises(ValueError, match="outside"):
        body_around(np.zeros(3)).chord(np.full(3, 100.0), np.eye(3)[0])


@pytest.mark.parametrize("m", [1, 2, 4])
def test_hull_of_noise_free_slabs_is_exact(m):
    """Slabs that hold with equality at m points: their null space is the hull, and counts m."""
    rng = np.random.default_rng(m)
    points = 3.0 * rng.standard_normal((m, 20))
    A = rng.standard_normal((300, 20))
    if m > 1:  # normals orthogonal to all differences of the points
        basis = np.linalg.qr((points[1:] - points[0]).T)[0]
        A -= (A @ basis) @ basis.T
    b = A @ points[0]
    hull = affine_hull(A, b, np.ones(300), m)
    for point in points:
        inside = hull.directions.T @ (hull.directions @ (point - hull.base))
        np.testing.assert_allclose(hull.base + inside, point, atol=1e-8)
    np.testing.assert_allclose(hull.directions @ hull.base, 0.0, atol=1e-9)
    assert count_heads(hull.spectrum, SculptConfig()) == m


def test_misfit_points_at_the_slab_that_lies():
    rng = np.random.default_rng(0)
    point = rng.standard_normal(12)
    A = rng.standard_normal((200, 12))
    b = A @ point
    b[17] += 5.0
    assert affine_hull(A, b, np.ones(200), 1).misfit.argmax() == 17


@pytest.mark.parametrize(
    ("spectrum", "heads"),
    [
        ([1e-9, 0.5, 0.52, 0.53, 0.54, 0.55, 0.6], 1),
        ([1e-9, 1e-3, 0.5, 0.52, 0.54, 0.55, 0.6], 2),
        ([0.05, 0.1, 0.12, 0.5, 0.52, 0.55, 0.6], 3),
        ([0.5, 0.52, 0.53, 0.54, 0.55, 0.56, 0.6], 0),
    ],
)
def test_counting(spectrum, heads):
    assert count_heads(np.array(spectrum), SculptConfig(most_heads=5)) == heads


def test_gaps_about_as_wide_leave_the_count_open():
    spectrum = np.array([0.025, 0.11, 0.4, 0.44, 0.45, 0.46, 0.5])
    assert plausible_counts(spectrum, SculptConfig(most_heads=5)) == [1, 2]


def test_normals_are_outer_products():
    q, d = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0, 5.0]])
    assert slab_normals(q, d).tolist() == [[3.0, 4.0, 5.0, 6.0, 8.0, 10.0]]


def test_first_of_each_up_to_sign():
    rows = np.array([[0.0, 1.0], [2.0, 3.0], [0.0, -1.0], [2.0, 3.0], [-2.0, -3.0], [2.0, -3.0]])
    assert first_of_each(rows).tolist() == [0, 1, 5]
