"""The grid that numbers are on: a float type, so many decimals, or so many significant digits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gradine.queries.asking.rounding import (
    EPS,
    FloatName,
    digit_exponents,
    rounded_to,
    rounded_to_digits,
)

__all__ = ["Printed", "float_type_of", "printed_as"]

Array = NDArray[np.float64]

MOST = 15  # decimals, or digits: a float64 has no more of either than it is good for
CHANCE = 1e-6  # that numbers of a float type are on a grid of decimals by luck, at most


@dataclass(frozen=True, eq=False)
class Printed:
    """Numbers that are short as decimal numbers, and the steps of the grid at each of them."""

    kind: Literal["decimals", "digits"]
    steps: Array


def float_type_of(Y: Array) -> FloatName:
    """The shortest float type that holds all these numbers.

    >>> float_type_of(np.array([0.5, 1.0 + 2.0**-10])), float_type_of(np.array([0.1]))
    ('float16', 'float64')
    """
    for name in reversed(EPS):
        if np.array_equal(rounded_to(Y, name), Y):
            return name
    raise ValueError("Y has numbers that are not finite; expected answers of an oracle")


def printed_as(Y: Array, name: FloatName) -> Printed | None:
    """How numbers were rounded as decimal numbers before they came to be of a float type.

    None if they were not, as far as can be told. Where both decimals and digits fit, the coarser
    grid is the less likely one to fit by luck.
    """
    values = np.unique(Y[Y != 0.0])  # zero is on every grid, and no number counts twice
    fitting = [grid for grid in (_decimals(values, name), _digits(values, name)) if grid]
    if not fitting:
        return None
    best = max(fitting, key=lambda grid: float(np.log(grid.steps).sum()))
    spacing = EPS[name] * 2.0 ** np.floor(np.log2(np.abs(values)))
    luck = np.log(np.minimum(spacing / best.steps, 1.0)).sum()
    return best if luck < math.log(CHANCE) else None


def _decimals(values: Array, name: FloatName) -> Printed | None:
    for decimals in range(MOST + 1):
        if np.array_equal(rounded_to(np.round(values, decimals), name), values):
            return Printed("decimals", np.full(values.shape, 10.0**-decimals))
    return None


def _digits(values: Array, name: FloatName) -> Printed | None:
    for digits in range(1, MOST + 1):
        if np.array_equal(rounded_to(rounded_to_digits(values, digits), name), values):
            return Printed("digits", 10.0 ** digit_exponents(values, digits).astype(float))
    return None
