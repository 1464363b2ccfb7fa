"""Numbers as a short float type holds them, and whether numbers could be of such a type."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["EPS", "FLOATS", "FloatName", "digit_exponents", "rounded_to", "rounded_to_digits"]

Array = NDArray[np.float64]
FloatName = Literal["float64", "float32", "float16", "bfloat16"]

#: Float types by name, with the distance from 1 to the next number of each.
EPS: dict[FloatName, float] = {
    "float64": 2.0**-52,
    "float32": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
}
FLOATS = tuple(EPS)
BFLOAT16_BITS = 8  # of the significand, with the one that is not stored


def rounded_to(values: Array, dtype: FloatName) -> Array:
    """The nearest numbers of a float type, as float64; ties go to the even one.

    >>> rounded_to(np.array([1.0 / 3.0, 1.0]), "float16").tolist()
    [0.333251953125, 1.0]
    """
    if dtype not in EPS:
        raise ValueError(f"dtype is {dtype!r}; expected one of {', '.join(FLOATS)}")
    with np.errstate(over="ignore"):  # what is too large becomes infinite, as in the type itself
        if dtype != "bfloat16":
            return values.astype(dtype).astype(np.float64)
        # Numpy has no bfloat16: it is a short significand with the range of float32.
        significand, exponent = np.frexp(values)
        scale = 2.0**BFLOAT16_BITS
        short = np.ldexp(np.rint(significand * scale) / scale, exponent)
        return short.astype(np.float32).astype(np.float64)


def digit_exponents(values: Array, digits: int) -> NDArray[np.int_]:
    """At each value, the power of ten by which numbers of so many significant digits differ."""
    size = np.where(values == 0.0, 1.0, np.abs(values))
    return np.floor(np.log10(size)).astype(int) + 1 - digits


def rounded_to_digits(values: Array, digits: int) -> Array:
    """The nearest numbers with so many significant digits.

    >>> rounded_to_digits(np.array([123.456, -0.0123456]), 3).tolist()
    [123.0, -0.0123]
    """
    exponents = digit_exponents(values, digits)
    # Powers of ten above one are exact, those below are not: one of these two is always 1.
    up, down = 10.0 ** np.maximum(-exponents, 0), 10.0 ** np.maximum(exponents, 0)
    return np.rint(values * up / down) / up * down
