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
        self._all = examples
        self.name, self.like = examples.name, examples.like
        self.n = min(whole_number("examples_budget", count, 1), examples.n)
        self.seq_len, self.dim, self.out_dim = examples.seq_len, examples.dim, examples.out_dim

    def block(self, start: int, stop: int) -> tuple[Array, Array]:
        if stop > self.n:
            raise ValueError(f"block is {start}:{stop}; expected a range within 0:{self.n}")
        return self._all.block(start, stop)
