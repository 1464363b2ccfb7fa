"""What a number, or a path, that someone gave must be."""

from __future__ import annotations

import operator
import os
from typing import Any

__all__ = ["in_short", "some_path", "whole_number"]

SHORT = 40  # characters of a value that are still read in a message


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


def some_path(name: str, value: Any, expected: str) -> str | os.PathLike[str]:
    """``value`` if it can be a path, which the empty text is not; ``ValueError`` otherwise.

    >>> some_path("path", None, "a layer file")
    Traceback (most recent call last):
    ValueError: path is None; expected a layer file
    """
    if not isinstance(value, str | os.PathLike) or value == "":
        raise ValueError(f"{name} is {in_short(value)}; expected {expected}")
    return value


def in_short(value: object) -> str:
    """A value for a message, or its type where that is shorter.

    >>> in_short([]), in_short(list(range(100)))
    ('[]', 'of type list')
    """
    shown = repr(value)
    return shown if len(shown) <= SHORT and "\n" not in shown else f"of type {type(value).__name__}"
