"""How many heads there are, and where each of them turns over: cliffs on a circle of large keys.

For keys a so large that every head looks at one token only, E(a) is sum_h sign(<u_h, a>) <v_h, a>:
linear in every cell that the hyperplanes <u_h, a> = 0 leave, with a cliff between two cells. On a
half circle of keys in a plane each hyperplane is crossed once, so there are as many cliffs as
heads. Between two points whose cells differ there is a cliff, and halving finds it: one query says
whether the middle belongs to one side, to the other, or to a cell that was not known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine.status import NotLearned, Status

__all__ = ["Cliffs", "find_cliffs"]

Array = NDArray[np.float64]

FIRST_POINTS = 2  # on the half circle
BEGIN = 0.3  # angle of the first of them: no special direction
SAFETY = 50.0  # standard deviations by which values of one cell may disagree
MOST_CLIFFS = 64


class Cliffs(NamedTuple):
    """The cells of a half circle, in order: cell i begins after cliff i."""

    before: Array  #: (m,) angles between which cliff i lies
    after: Array
    forms: Array  #: (m, 2) E / T of cell i is <form, (cos, sin)>

    @property
    def widths(self) -> Array:
        """Of the cells after each cliff; one without width is a slope taken for a cell."""
        return np.append(self.before[1:], self.before[:1] + np.pi) - self.after


@dataclass(eq=False)
class _Cell:
    """Points where one linear form holds."""

    noise: float
    angles: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, angle: float, value: float) -> None:
        self.angles.append(angle)
        self.values.append(value)

    def point(self, angle: float, value: float) -> _Point:
        """One more point of this cell."""
        self.add(angle, value)
        return _Point(angle, self)

    def form(self) -> Array:
        found = np.linalg.lstsq(_circle(self.angles), np.array(self.values), rcond=None)[0]
        return np.asarray(found, dtype=np.float64)

    def misfit(self, angle: float, value: float) -> float:
        """How far a value is from the form, in units of what noise may do."""
        away = min(abs(angle - known) for known in self.angles)
        spread = max(self.angles) - min(self.angles)
        doubt = SAFETY * self.noise * (1.0 + away / spread)
        return abs(value - float((_circle([angle]) @ self.form())[0])) / doubt


class _Point(NamedTuple):
    angle: float
    cell: _Cell


def find_cliffs(values_at: Callable[[Array], Array], noise: float, width: float) -> Cliffs:
    """All cliffs of a half circle, each between two angles that differ by ``width`` at most.

    ``values_at`` gives E / T at angles, with errors of standard deviation ``noise``.
    """
    # Two values make a form. Near each other they may lie on two sides of a cliff less often; far
    # from each other they make a better form.
    apart = noise ** (1.0 / 3.0)
    first = BEGIN + np.pi * np.arange(FIRST_POINTS) / FIRST_POINTS
    values = values_at(np.concatenate([first, first + apart])).reshape(2, -1)
    points = [
        _Point(at, _Cell(noise, [at, at + apart], [y, z]))
        for at, y, z in zip(first.tolist(), *values.tolist(), strict=True)
    ]
    # E is even: half a turn on, the first values come again.
    again = points[0].cell
    twin = _Cell(noise, [angle + np.pi for angle in again.angles], list(again.values))
    points = _joined([*points, _Point(twin.angles[0], twin)])
    while gaps := [
        (left, right)
        for left, right in pairwise(points)
        if left.cell is not right.cell and right.angle - left.angle > width
    ]:
        if len({id(point.cell) for point in points}) > MOST_CLIFFS + 1:
            detail = f"more than {MOST_CLIFFS} heads seem to be there, or keys are too small"
            raise NotLearned(Status.NOT_REALIZABLE, detail)
        middles = [0.5 * (left.angle + right.angle) for left, right in gaps]
        strange = []
        for gap, at, value in zip(gaps, middles, _asked(values_at, middles), strict=True):
            cell = _side(gap, at, value)
            if cell is None:
                strange.append((gap, at, value, min(apart, (gap[1].angle - gap[0].angle) / 8.0)))
            else:
                points.append(cell.point(at, value))
        # A second value beside a strange one: it makes a form with it, unless it belongs to a side.
        # Then the first one was taken on the slope of a cliff, and is left out.
        beside = [at + step for _, at, _, step in strange]
        for (gap, at, value, _), near, other in zip(
            strange, beside, _asked(values_at, beside), strict=True
        ):
            cell = _side(gap, near, other)
            if cell is None:
                points.append(_Point(at, _Cell(noise, [at, near], [value, other])))
            else:
                points.append(cell.point(near, other))
        points.sort(key=attrgetter("angle"))
    return _cliffs(points)


def _asked(values_at: Callable[[Array], Array], angles: list[float]) -> list[float]:
    return values_at(np.array(angles)).tolist() if angles else []


def _side(gap: tuple[_Point, _Point], angle: float, value: float) -> _Cell | None:
    """The side of a gap that a value belongs to; None: neither."""
    cell = min((point.cell for point in gap), key=lambda side: side.misfit(angle, value))
    return cell if cell.misfit(angle, value) <= 1.0 else None


def _joined(points: list[_Point]) -> list[_Point]:
    """The same points; neighbours that share a form share a cell."""
    joined = [points[0]]
    for point in points[1:]:
        known, cell = joined[-1].cell, point.cell
        pairs = list(zip(cell.angles, cell.values, strict=True))
        if all(known.misfit(angle, value) <= 1.0 for angle, value in pairs):
            for angle, value in pairs:
                known.add(angle, value)
            cell = known
        joined.append(_Point(point.angle, cell))
    return joined


def _cliffs(points: list[_Point]) -> Cliffs:
    sides = [(left, right) for left, right in pairwise(points) if left.cell is not right.cell]
    head, tail = points[0].cell, points[-1].cell
    for angle, value in zip(head.angles, head.values, strict=True):
        if head is not tail:
            tail.add(angle + np.pi, value)
    return Cliffs(
        np.array([left.angle for left, _ in sides]),
        np.array([right.angle for _, right in sides]),
        np.array([right.cell.form() for _, right in sides]).reshape(-1, 2),
    )


def _circle(angles: list[float] | Array) -> Array:
    """(n, 2) points of the circle."""
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)
