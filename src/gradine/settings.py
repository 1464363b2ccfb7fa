"""Settings that say themselves what they may be, and are checked when they are made.

The type of a field is the rule: ``starts: Count = 4`` is a whole number of at least 1. Whoever
writes `Settings` in front of a frozen dataclass has all its fields checked, in one way.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from numbers import Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from gradine.checks import in_short

__all__ = [
    "Chance",
    "Count",
    "Number",
    "Positive",
    "Settings",
    "Share",
    "Size",
    "Threshold",
    "Whole",
]


@dataclass(frozen=True)
class Rule:
    """Which numbers are meant, in words and as a test that NaN fails."""

    words: str
    holds: Callable[[float], bool]


Whole = Annotated[int, Rule("a whole number of at least 0", lambda n: n >= 0)]
Count = Annotated[int, Rule("a whole number of at least 1", lambda n: n >= 1)]
Number = Annotated[float, Rule("a finite number", math.isfinite)]
Size = Annotated[float, Rule("a finite number of at least 0", lambda x: 0.0 <= x < math.inf)]
Positive = Annotated[float, Rule("a finite number above 0", lambda x: 0.0 < x < math.inf)]
#: What is compared with; infinity is never reached.
Threshold = Annotated[float, Rule("a number of at least 0", lambda x: x >= 0.0)]
#: A part of something, or all of it.
Share = Annotated[float, Rule("a number above 0, at most 1", lambda x: 0.0 < x <= 1.0)]
#: A probability, or a part that leaves something.
Chance = Annotated[float, Rule("a number between 0 and 1", lambda x: 0.0 < x < 1.0)]


class Settings:
    """The base of settings: ``ValueError`` for a field that is not what its type says.

    >>> @dataclass(frozen=True)
    ... class Walk(Settings):
    ...     steps: Count = 10
    >>> Walk(steps=0)
    Traceback (most recent call last):
    ValueError: steps is 0; expected a whole number of at least 1
    """

    def __post_init__(self) -> None:
        kinds = _kinds_of(type(self))
        for field in fields(self):  # pyright: ignore[reportArgumentType]
            value, kind = getattr(self, field.name), kinds[field.name]
            try:
                # As plain numbers, which JSON knows: those of numpy are taken, too.
                object.__setattr__(self, field.name, kind.read(value))
            except _UnfitError:
                raise ValueError(
                    f"{field.name} is {in_short(value)}; expected {kind.words}"
                ) from None


class _UnfitError(Exception):
    """A value is not what was meant."""


class _Kind(NamedTuple):
    words: str  #: what is expected
    read: Callable[[Any], Any]  #: the value as it is kept; raises `_UnfitError`


@cache
def _kinds_of(settings: type) -> dict[str, _Kind]:
    hints = get_type_hints(settings, include_extras=True)
    return {name: _kind_of(hint) for name, hint in hints.items()}


def _kind_of(hint: Any) -> _Kind:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _number(*parts)
    if origin is Literal:
        return _choice(parts)
    if origin in (Union, UnionType):
        return _either([_kind_of(part) for part in parts])
    if origin is tuple:
        length = None if parts[-1] is Ellipsis else len(parts)
        return _several(_kind_of(parts[0]), length)
    if isinstance(hint, type) and hint not in (int, float):
        return _instance(hint)
    raise TypeError(f"a field has type {hint}; expected one that says which numbers are meant")


def _number(kind: type, rule: Rule) -> _Kind:
    def read(value: Any) -> Any:
        number = _whole(value) if kind is int else _real(value)
        if isinstance(value, bool) or not rule.holds(number):
            raise _UnfitError
        return number

    return _Kind(rule.words, read)


def _whole(value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise _UnfitError from None


def _real(value: Any) -> float:
    if not isinstance(value, Real):
        raise _UnfitError
    return float(value)


def _choice(choices: tuple[Any, ...]) -> _Kind:
    def read(value: Any) -> Any:
        if not isinstance(value, str) or value not in choices:
            raise _UnfitError
        return value

    return _Kind(" or ".join(map(repr, choices)), read)


def _either(kinds: list[_Kind]) -> _Kind:
    def read(value: Any) -> Any:
        for kind in kinds:
            try:
                return kind.read(value)
            except _UnfitError:
                continue
        raise _UnfitError

    return _Kind(", or ".join(kind.words for kind in kinds), read)


def _several(each: _Kind, length: int | None) -> _Kind:
    def read(value: Any) -> Any:
        if not isinstance(value, tuple | list) or not value or len(value) != (length or len(value)):
            raise _UnfitError
        return tuple(map(each.read, value))

    return _Kind(f"a tuple{f' of {length}' if length else ''}, each {each.words}", read)


def _instance(kind: type) -> _Kind:
    def read(value: Any) -> Any:
        if not isinstance(value, kind):
            raise _UnfitError
        return value

    words = {NoneType: "None", bool: "True or False", str: "a text"}
    return _Kind(words.get(kind, kind.__name__), read)
