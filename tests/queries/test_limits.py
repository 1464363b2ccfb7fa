"""Boxes and balls: what is outside, and that the room they promise is there and is all."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradine.queries import Ball, Box
from gradine.queries.asking.limits import Anywhere

LIMITS = [
    Box(-1.0, 1.0),
    Box(0.0, 0.3),
    Box([-1.0, 0.0, 7.0], [2.0, 0.5, 7.25]),
    Box(1e6, 1e6 + 1.0),
    Ball(2.5),
]


@pytest.mark.parametrize("limit", LIMITS, ids=repr)
@given(seed=st.integers(0, 2**32 - 1))
def test_room_is_all_there_is_and_no_more(limit, seed):
    rng = np.random.default_rng(seed)
    center = limit.center(3)
    most = limit.room(center)[1]
    about = center + rng.uniform(-0.9, 0.9, 3) * most
    norm, entry = limit.room(about)
    directions = rng.standard_normal((500, 3))
    sphere = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    corners = np.sign(directions)
    assert not limit.outside((about + norm * sphere)[None]).any()
    assert not limit.outside((about + entry * corners)[None]).any()
    slack = 1.0 + 1e-6  # far above rounding, even a million away from zero
    axes = np.concatenate([np.eye(3), -np.eye(3), about[None] / np.linalg.norm(about)])
    assert limit.outside((about + slack * norm * axes)[None]).any()
    all_corners = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)])
    assert limit.outside((about + slack * entry * all_corners)[None]).any()


def test_the_edge_is_inside():
    X = np.array([[[1.0, -1.0], [1.0, np.nextafter(1.0, 2.0)]]])
    assert Box(-1.0, 1.0).outside(X).tolist() == [[False, True]]
    assert Ball(1.0).outside(np.array([[[0.0, 1.0]]])).tolist() == [[False]]


def test_no_limit_is_endless():
    assert Anywhere().room(np.zeros(4)) == (math.inf, math.inf)
    assert not Anywhere().outside(np.full((2, 3, 4), 1e300)).any()


def test_no_room_at_the_edge():
    assert Box(0.0, 1.0).room(np.array([0.0, 0.5])) == (0.0, 0.0)
    assert Ball(1.0).room(np.array([1.0, 0.0]))[0] == 0.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Box(1.0, 1.0), "low is 1.0 and high 1.0; expected low below high"),
        (lambda: Box([0.0, 0.0], [1.0, -1.0]), "expected low below high"),
        (lambda: Box([0.0, 0.0], [1.0, 1.0, 1.0]), r"high has shape \(3,\); expected \(2,\)"),
        (lambda: Box(0.0, math.inf), "high is inf; expected finite"),
        (lambda: Box("low", 1.0), "low is 'low'; expected a number"),
        (lambda: Ball(0.0), "largest_norm is 0.0; expected a positive"),
        (lambda: Ball(math.nan), "largest_norm is nan"),
        (lambda: Box([0.0, 0.0], 1.0).check(3), "low of the box has 2 coordinates; expected 3"),
    ],
)
def test_limits_that_make_no_sense(make, message):
    with pytest.raises(ValueError, match=message):
        make()
