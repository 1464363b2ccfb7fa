"""Which tokens may be sent: all, those of a box, or those of a ball.

A learner scales its designs by what a limit leaves: around a point, how far tokens may go in every
direction, and how large the entries of what is added may be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Anywhere", "Ball", "Box", "Limit"]

Array = NDArray[np.float64]

HAIR = 1e-12  # what room falls short of the limit by, so that rounding does not cross it


class Limit(Protocol):
    """What the oracle asks of a limit. Points and rooms are those of tokens with d coordinates."""

    def check(self, dim: int) -> None:
        """``ValueError`` if tokens of so many coordinates cannot be meant."""

    def outside(self, X: Array) -> NDArray[np.bool_]:
        """Which tokens of (n, k, d) must not be sent: (n, k)."""
        ...

    def center(self, dim: int) -> Array:
        """The point with the most room around it."""
        ...

    def room(self, about: Array) -> tuple[float, float]:
        """The largest norm, and the largest entry, of everything that may be added to a point."""
        ...


@dataclass(frozen=True)
class Anywhere:
    """No limit."""

    def check(self, dim: int) -> None:
        pass

    def outside(self, X: Array) -> NDArray[np.bool_]:
        return np.zeros(X.shape[:2], dtype=bool)

    def center(self, dim: int) -> Array:
        return np.zeros(dim)

    def room(self, about: Array) -> tuple[float, float]:
        return math.inf, math.inf


@dataclass(frozen=True, eq=False)
class Box:
    """Every coordinate between ``low`` and ``high``; each of them one number, or one a coordinate.

    >>> Box(-1.0, 1.0).outside(np.array([[[0.5, -1.0], [0.5, 1.5]]]))
    array([[False,  True]])

    >>> Box(-1.0, 1.0).check(dim=2), Box(0.0, 4.0).center(dim=2).tolist()
    (None, [2.0, 2.0])
    >>> [round(size, 6) for size in Box(-1.0, 1.0).room(np.array([0.5, 0.0]))]  # of norm, of entry
    [0.5, 0.5]
    """

    low: Any
    high: Any

    def __post_init__(self) -> None:
        low, high = _bound("low", self.low), _bound("high", self.high)
        if low.ndim and high.ndim and low.shape != high.shape:
            raise ValueError(f"high has shape {high.shape}; expected {low.shape}, as low has")
        if not (low < high).all():
            raise ValueError(f"low is {self.low} and high {self.high}; expected low below high")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def __repr__(self) -> str:
        return f"Box({self.low.tolist()}, {self.high.tolist()})"

    def check(self, dim: int) -> None:
        for name, bound in (("low", self.low), ("high", self.high)):
            if bound.ndim and len(bound) != dim:
                raise ValueError(
                    f"{name} of the box has {len(bound)} coordinates; expected {dim} as tokens have"
                )

    def outside(self, X: Array) -> NDArray[np.bool_]:
        return ((self.low > X) | (self.high < X)).any(axis=-1)

    def center(self, dim: int) -> Array:
        return np.broadcast_to((self.low + self.high) / 2, dim).copy()

    def room(self, about: Array) -> tuple[float, float]:
        largest = max(float(np.abs(self.low).max()), float(np.abs(self.high).max()))
        free = float(np.minimum(about - self.low, self.high - about).min())
        room = _within(free, largest)
        return room, room


@dataclass(frozen=True)
class Ball:
    """Every token of a Euclidean norm of at most ``largest_norm``.

    >>> Ball(5.0).outside(np.array([[[3.0, 4.0], [4.0, 4.0]]]))
    array([[False,  True]])

    >>> Ball(5.0).check(dim=2), Ball(5.0).center(dim=2).tolist()
    (None, [0.0, 0.0])
    >>> [round(size, 3) for size in Ball(5.0).room(np.zeros(2))]  # of the norm, of an entry
    [5.0, 3.536]
    """

    largest_norm: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.largest_norm) and self.largest_norm > 0):
            raise ValueError(
                f"largest_norm is {self.largest_norm}; expected a positive finite number"
            )

    def check(self, dim: int) -> None:
        pass

    def outside(self, X: Array) -> NDArray[np.bool_]:
        return np.linalg.norm(X, axis=-1) > self.largest_norm

    def center(self, dim: int) -> Array:
        return np.zeros(dim)

    def room(self, about: Array) -> tuple[float, float]:
        radius, dim = self.largest_norm, len(about)
        norm, sum_ = float(np.linalg.norm(about)), float(np.abs(about).sum())
        # The corner that goes farthest has the signs of the point:
        # |about|^2 + 2 s |about|_1 + d s^2 = radius^2.
        inside = radius**2 - norm**2
        root = math.sqrt(max(sum_**2 + dim * inside, 0.0))
        return _within(radius - norm, radius), _within(inside / (sum_ + root), radius)


def _bound(name: str, value: ArrayLike) -> Array:
    try:
        bound = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {value!r}; expected a number, or one a coordinate") from None
    if bound.ndim > 1 or bound.size == 0 or not np.isfinite(bound).all():
        raise ValueError(f"{name} is {value!r}; expected finite numbers, one or one a coordinate")
    bound.setflags(write=False)
    return bound


def _within(free: float, largest: float) -> float:
    """A hair less than the exact room: a point at the very edge would be a matter of rounding."""
    return max(free * (1.0 - HAIR) - 4.0 * float(np.finfo(float).eps) * largest, 0.0)
