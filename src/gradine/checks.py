"""What a number that someone gave must be."""

from __future__ import annotations

import operator

__all__ = ["whole_number"]


def whole_number(name: str, value: object, least: int) -> int:
    """``value`` as an integer of at least ``least``; ``ValueError`` if it is none.

    >>> whole_number("heads", 3, 1)
    3
    """
    try:
        number = operator.index(value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}; expected a whole number of at least {least}")
    return number
