"""An axis of the map: a parameter, and the values that it takes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradine.atlas.setting import NAMED, PARAMETERS, WHOLE

__all__ = ["Axis", "number_of", "parse_axis"]

COUNT = 5  # values of an axis, unless it is said how many
MOST_VALUES = 100_000
WIDE = 8.0  # an axis whose ends are so many times apart is logarithmic
DIGITS = 3  # of values that are not whole: nobody asks for scale 2.82842712


@dataclass(frozen=True)
class Axis:
    """A parameter and its values, in order.

    >>> Axis("scale", (1.0, 2.0)).values
    (1.0, 2.0)

    >>> Axis("scale", (1.0, 2.0, 3.0, 4.0)).coarse(2).values
    (1.0, 4.0)
    """

    name: str
    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        _check_name(self.name)
        if not self.values:
            raise ValueError(f"axis {self.name} has no values; expected at least one")
        if len(set(self.values)) < len(self.values):
            raise ValueError(f"axis {self.name} is {self.values}; expected no two values alike")

    def coarse(self, most: int) -> Axis:
        """The same with at most so many values: both ends, and some between."""
        if len(self.values) <= most:
            return self
        chosen = np.linspace(0, len(self.values) - 1, most).round().astype(int)
        return Axis(self.name, tuple(self.values[i] for i in chosen))


def parse_axis(text: str) -> Axis:
    """An axis from PARAM:LO:HI, PARAM:LO:HI:COUNT, either with :log or :lin, or PARAM:V,V,V.

    Without a word on it, an axis is logarithmic where its ends are 8 times apart or more. Values
    of whole-numbered parameters are whole.

    >>> parse_axis("scale:1:8:4")
    Axis(name='scale', values=(1.0, 2.0, 4.0, 8.0))
    >>> parse_axis("heads:1:4"), parse_axis("inputs:boolean,gaussian").values
    (Axis(name='heads', values=(1, 2, 3, 4)), ('boolean', 'gaussian'))
    """
    name, *parts = text.split(":")
    _check_name(name)
    if len(parts) == 1:
        return Axis(name, tuple(number_of(name, value) for value in parts[0].split(",")))
    spacing = parts.pop() if parts and parts[-1] in ("log", "lin") else None
    if name in NAMED or len(parts) not in (2, 3):
        raise ValueError(f"axis is {text!r}; expected PARAM:LO:HI, PARAM:LO:HI:COUNT or PARAM:V,V")
    low, high = (number_of(name, part) for part in parts[:2])
    if not low < high:
        raise ValueError(f"axis is {text!r}; expected LO below HI")
    count = _count(parts[2]) if len(parts) == 3 else None
    if count is None:
        count = min(COUNT, high - low + 1) if name in WHOLE else COUNT
    logarithmic = spacing == "log" or (spacing is None and low > 0 and high / low >= WIDE)
    if logarithmic and low <= 0:
        raise ValueError(f"axis is {text!r}; expected LO above 0 on a logarithmic axis")
    values = np.geomspace(low, high, count) if logarithmic else np.linspace(low, high, count)
    return Axis(name, tuple(dict.fromkeys(_rounded(name, float(value)) for value in values)))


def number_of(name: str, text: str) -> Any:
    """A value of a parameter, from what was written."""
    if name in NAMED:
        return text
    try:
        value = int(text) if name in WHOLE else float(text)
    except ValueError:
        kind = "a whole number" if name in WHOLE else "a number"
        raise ValueError(f"{name} is {text!r}; expected {kind}") from None
    if not math.isfinite(value):
        raise ValueError(f"{name} is {text!r}; expected a finite number")
    return value


def _count(text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        count = 0
    if not 2 <= count <= MOST_VALUES:
        raise ValueError(f"COUNT is {text!r}; expected a whole number from 2 to {MOST_VALUES:,}")
    return count


def _rounded(name: str, value: float) -> int | float:
    return round(value) if name in WHOLE else float(f"{value:.{DIGITS}g}")


def _check_name(name: str) -> None:
    if name not in PARAMETERS:
        raise ValueError(f"parameter is {name!r}; expected one of {', '.join(PARAMETERS)}")
