"""Examples without their bad blocks: found once, before anything else, and left out for good."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradine.engine import Engine, reduce_blocks
from gradine.examples.errors import BadBlock, BlockError, first_not_finite, one_line
from gradine.examples.source import Examples

__all__ = ["RemainingExamples", "without_bad_blocks"]

Array = NDArray[np.float64]


class RemainingExamples(Examples):
    """Those of ``examples`` that lie in no bad block, numbered anew from 0."""

    def __init__(self, examples: Examples, bad: tuple[BadBlock, ...]) -> None:
        edges = [0, *(edge for block in bad for edge in (block.start, block.stop)), examples.n]
        self._starts = np.array(edges[::2])  # of what remains, between the bad blocks
        self._before = np.concatenate([[0], np.cumsum(np.array(edges[1::2]) - self._starts)])
        n = int(self._before[-1])
        if n == 0:
            raise BlockError(examples.name, bad[0])
        shape = (n, examples.seq_len)
        super().__init__(examples.name, (*shape, examples.dim), (*shape, examples.out_dim))
        self._examples, self._bad = examples, bad
        self.like, self.piece = examples.like, examples.piece
        self.left_out = (*examples.left_out, *bad)

    def __reduce__(self) -> tuple[object, ...]:
        return RemainingExamples, (self._examples, self._bad)

    def _read(self, start: int, stop: int) -> tuple[Array, Array]:
        parts = []
        while start < stop:
            run = int(np.searchsorted(self._before, start, side="right")) - 1
            upto = min(stop, int(self._before[run + 1]))
            shift = int(self._starts[run] - self._before[run])
            parts.append(self._examples.block(start + shift, upto + shift))
            start = upto
        if len(parts) == 1:
            return parts[0]
        X, Y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return X, Y


def without_bad_blocks(
    examples: Examples,
    block_size: int | None = None,
    engine: Engine | None = None,
    on_block: Callable[[int, object], None] | None = None,
) -> Examples:
    """The examples without the pieces that cannot be read or have a number that is not finite.

    This is one pass over all of them. What is left out depends on the examples alone, not on the
    size of blocks; ``left_out`` of the answer says what it was.

    >>> from gradine.examples.source import ArrayExamples
    >>> X = np.ones((5000, 2, 1))
    >>> X[1500] = np.nan
    >>> sound = without_bad_blocks(ArrayExamples(X, X))
    >>> sound.n, str(sound.left_out[0])
    (3976, 'examples 1024:2048: X has a NaN or infinite value in example 1500')
    """
    size = examples.block_size() if block_size is None else block_size
    bad = reduce_blocks(
        _Indices(examples),
        _Inspection(examples, size),
        operator.add,
        block_size=max(size // examples.piece, 1) * examples.piece,  # whole pieces
        engine=engine,
        on_block=on_block,
    )
    return RemainingExamples(examples, bad) if bad else examples


@dataclass(frozen=True)
class _Indices:
    """As many examples, without their numbers: the kernel reads those, as reading may fail."""

    examples: Examples

    @property
    def n(self) -> int:
        return self.examples.n

    seq_len = dim = out_dim = 0

    def block(self, start: int, stop: int) -> tuple[Array, Array]:
        return np.empty((stop - start, 0, 0)), np.empty((stop - start, 0, 0))


@dataclass(frozen=True)
class _Inspection:
    """The kernel of the pass: bad pieces of a block."""

    examples: Examples
    size: int

    def __call__(self, X: Array, Y: Array, start: int) -> tuple[BadBlock, ...]:
        stop, piece = start + len(X), self.examples.piece
        if self._bad(start, stop) is None:
            return ()
        pieces = [(first, min(first + piece, stop)) for first in range(start, stop, piece)]
        return tuple(bad for bounds in pieces if (bad := self._bad(*bounds)) is not None)

    def _bad(self, start: int, stop: int) -> BadBlock | None:
        """What is wrong with start:stop, read in parts that memory has room for."""
        for first in range(start, stop, self.size):
            try:
                X, Y = self.examples.block(first, min(first + self.size, stop))
            except BlockError as error:
                return BadBlock(start, stop, error.block.reason)
            except OSError as error:
                return BadBlock(start, stop, one_line(error))
            found = first_not_finite(X, Y, first)
            if found is not None:
                return BadBlock(start, stop, found[1])
        return None
