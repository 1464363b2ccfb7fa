"""The first of many examples: no more are looked at than a budget allows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradine.checks import whole_number
from gradine.examples.source import Examples

__all__ = ["FirstExamples"]

Array = NDArray[np.float64]


class FirstExamples(Examples):
    """The first ``count`` examples of a source, or all if there are fewer.

    >>> from gradine.examples.source import ArrayExamples
    >>> FirstExamples(ArrayExamples(np.ones((5, 3, 2)), np.zeros((5, 3, 1))), 4)
    FirstExamples('arrays', n=4, seq_len=3, dim=2, out_dim=1)
    """

    def __init__(self, examples: Examples, count: int) -> None:
        n = min(whole_number("examples_budget", count, 1), examples.n)
        shape = (n, examples.seq_len)
        super().__init__(examples.name, (*shape, examples.dim), (*shape, examples.out_dim))
        self._all = examples
        self.like, self.piece, self.left_out = examples.like, examples.piece, examples.left_out

    def __reduce__(self) -> tuple[object, ...]:
        return FirstExamples, (self._all, self.n)

    def _read(self, start: int, stop: int) -> tuple[Array, Array]:
        return self._all.block(start, stop)
