"""Blocks of examples that cannot be used: where they are, and what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["BadBlock", "BlockError", "first_not_finite", "one_line"]


@dataclass(frozen=True)
class BadBlock:
    """Examples start:stop of a source, and why they cannot be used."""

    start: int
    stop: int
    reason: str

    def __str__(self) -> str:
        return f"examples {self.start}:{self.stop}: {self.reason}"


class BlockError(ValueError):
    """A block that cannot be used; the message names the source, the examples and the reason.

    >>> str(BlockError("data.npz", BadBlock(0, 512, "Y has a NaN")))
    'data.npz: examples 0:512: Y has a NaN'
    """

    name: str
    block: BadBlock

    def __init__(self, name: str, block: BadBlock) -> None:
        super().__init__(name, block)  # both, so that it can be pickled
        self.name, self.block = name, block

    def __str__(self) -> str:
        return f"{self.name}: {self.block}"


def one_line(error: Exception) -> str:
    """What an error says, in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def first_not_finite(
    X: NDArray[np.float64], Y: NDArray[np.float64], start: int
) -> tuple[int, str] | None:
    """The first example with a NaN or an infinity, by its index, and what to say of it.

    >>> X = np.zeros((3, 2, 1))
    >>> first_not_finite(X, X, 10), first_not_finite(X, X + [[[0]], [[np.nan]], [[0]]], 10)
    (None, (11, 'Y has a NaN or infinite value in example 11'))
    """
    found = []
    for label, array in (("X", X), ("Y", Y)):
        bad = ~np.isfinite(array).all(axis=(1, 2))
        if bad.any():
            example = start + int(bad.argmax())
            found.append((example, f"{label} has a NaN or infinite value in example {example}"))
    return min(found, default=None)
