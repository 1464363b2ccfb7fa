"""One pass over the examples before anything is learned: are they sound, what do they look like?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gradine.engine import Bookmark, Engine, reduce_blocks
from gradine.examples.errors import BadBlock, BlockError, first_not_finite
from gradine.examples.numbers import example_numbers
from gradine.examples.source import Examples

__all__ = ["Survey", "survey"]

Array = NDArray[np.float64]

STANDARD_ERRORS = 8.0  # a true Gaussian fails one of many comparisons at this distance: never
LARGEST, SMALLEST = 1e70, 1e-70  # numbers whose powers are sums still, and no overflow or zero
SLACK = 0.02  # and a deviation below this share is harmless, however sure we are of it


@dataclass(frozen=True, eq=False)
class Survey:
    """What the inputs and outputs look like. Moments of X leave out a constant last coordinate."""

    n: int
    seq_len: int
    boolean: bool  #: every entry of X is +1 or -1
    constant_column: bool  #: the last coordinate of every token is 1
    x_mean: Array  #: (d,) mean of each coordinate
    x_variance: Array  #: (d,) variance of each coordinate
    x_fourth: Array  #: (d,) E[x^4] of each coordinate
    x_correlation: float  #: largest |E[x_a x_b]| of two coordinates of a token
    token_correlation: float  #: largest |E[x_a x'_b]| of coordinates of two tokens
    y_mean: Array  #: (d_out,) mean of each output
    y_second: Array  #: (d_out,) E[y^2] of each output
    bias_z: float  #: largest |z-score| of the mean of an output: large means a bias
    digest: int = 0  #: by which these examples, in this order, can be told from all others
    left_out: tuple[BadBlock, ...] = ()  #: bad blocks, which are counted nowhere else

    @property
    def skipped(self) -> int:
        """Examples in the blocks that were left out."""
        return sum(block.stop - block.start for block in self.left_out)

    @property
    def kind(self) -> Literal["boolean", "gaussian", "other"]:
        """The input distribution these examples are consistent with."""
        if not self._looks_independent():
            return "other"
        return "boolean" if self.boolean else "gaussian"

    def _looks_independent(self) -> bool:
        """Means and correlations are those of independent coordinates; for inputs that are not
        +-1 throughout, the second and fourth moments are those of N(0, 1), too.

        Each is compared in units of its own standard error over N tokens: Var(x) = 1,
        Var(x^2) = 2, Var(x^4) = 96.
        """
        tokens, pairs = self.n * self.seq_len, self.n * self.seq_len * (self.seq_len - 1) / 2
        deviations = [
            (np.abs(self.x_mean).max(), 1.0 / tokens, 1.0),
            (self.x_correlation, 1.0 / tokens, 1.0),
            (self.token_correlation, 1.0 / pairs, 1.0),
        ]
        if not self.boolean:
            deviations += [
                (np.abs(self.x_variance - 1.0).max(), 2.0 / tokens, 1.0),
                (np.abs(self.x_fourth - 3.0).max(), 96.0 / tokens, 3.0),
            ]
        return all(
            size <= STANDARD_ERRORS * variance**0.5 + SLACK * unit
            for size, variance, unit in deviations
        )


def survey(
    examples: Examples,
    block_size: int | None = None,
    *,
    may_decide: Callable[[int, int], NDArray[np.intp]] | None = None,
    engine: Engine | None = None,
    bookmark: Callable[[type[Any]], Bookmark] | None = None,
    on_block: Callable[[int, object], None] | None = None,
) -> Survey:
    """Look at every example once; a NaN or infinite value raises `BlockError` saying where.

    ``may_decide(start, stop)`` gives the rows of a block whose outputs count for ``y_mean`` and
    ``bias_z``: decisions about the layer are not for held-out labels. All of them by default.
    ``engine`` runs the pass, which ``bookmark`` (by the type of its sums) keeps as it goes on.

    >>> from gradine.examples.source import ArrayExamples
    >>> X = np.random.default_rng(0).standard_normal((500, 4, 3))
    >>> survey(ArrayExamples(X, X), block_size=100).kind
    'gaussian'
    """
    sums = reduce_blocks(
        examples,
        _BlockSums(examples.name, may_decide),
        _Sums.merge,
        block_size=examples.block_size() if block_size is None else block_size,
        engine=engine,
        bookmark=None if bookmark is None else bookmark(_Sums),
        on_block=on_block,
    )
    n, k = examples.n, examples.seq_len
    if float(np.trace(sums.xx)) <= n * k * SMALLEST**2:
        raise ValueError(
            f"{examples.name}: tokens are zero, or all below {SMALLEST:g}; expected larger ones"
        )
    constant = bool(sums.last_is_one) and examples.dim > 1
    d = examples.dim - constant
    mean = sums.x[:d] / (n * k)
    second = sums.xx[:d, :d] / (n * k)
    across = sums.across[:d, :d] / (n * k * (k - 1))
    deciding = max(float(sums.deciding), 1.0)
    y_mean = sums.y / deciding
    # The mean over the rows of an example is one observation: rows of an example depend on
    # each other, examples do not.
    spread = np.maximum(sums.y_squared / deciding - y_mean**2, 0.0)
    # An output that never varies has no error; rounding is the least there can be.
    error = np.maximum(np.sqrt(spread / deciding), np.finfo(float).eps * np.abs(y_mean))
    z = np.divide(np.abs(y_mean), error, out=np.zeros_like(error), where=error > 0)
    return Survey(
        n=n,
        seq_len=k,
        boolean=bool(sums.is_boolean),
        constant_column=constant,
        x_mean=mean,
        x_variance=second.diagonal() - mean**2,
        x_fourth=sums.x_fourth[:d] / (n * k),
        x_correlation=float(np.abs(second - np.diag(second.diagonal())).max()),
        token_correlation=float(np.abs(across).max()),
        y_mean=y_mean,
        y_second=sums.y_second / (n * k),
        bias_z=float(z.max()),
        digest=int(sums.digest[0]),
        left_out=examples.left_out,
    )


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over the examples of some blocks, and what held for all of them."""

    is_boolean: np.bool
    last_is_one: np.bool
    x: Array
    x_fourth: Array
    xx: Array  # within a token
    across: Array  # between different tokens
    deciding: Array  # examples that the next two are over
    y: Array  # of the row means
    y_squared: Array  # of the row means, squared
    y_second: Array
    digest: NDArray[np.uint64]

    def merge(self, other: _Sums) -> _Sums:
        merged = {}
        for item in fields(self):
            mine, theirs = getattr(self, item.name), getattr(other, item.name)
            merged[item.name] = mine & theirs if mine.dtype == bool else mine + theirs
        return _Sums(**merged)


@dataclass(frozen=True, eq=False)
class _BlockSums:
    """The kernel of the pass; an object, as engines send it to their workers."""

    name: str
    may_decide: Callable[[int, int], NDArray[np.intp]] | None

    def __call__(self, X: Array, Y: Array, start: int) -> _Sums:
        stop = start + len(X)
        bad = first_not_finite(X, Y, start)
        if bad is not None:
            raise BlockError(self.name, BadBlock(start, stop, bad[1]))
        for label, array in (("X", X), ("Y", Y)):
            size = max(-float(array.min()), float(array.max()))
            if size > LARGEST:  # fourth powers are summed
                reason = f"{label} has numbers up to {size:.1e}; expected at most {LARGEST:g}"
                raise BlockError(self.name, BadBlock(start, stop, reason))
        tokens = X.reshape(-1, X.shape[2])
        totals, row_means = X.sum(axis=1), Y.mean(axis=1)
        if self.may_decide is not None:
            row_means = row_means[self.may_decide(start, stop)]
        xx = tokens.T @ tokens
        numbers = example_numbers(X, Y, np.arange(start, stop, dtype=float))
        return _Sums(
            is_boolean=(np.abs(X) == 1.0).all(),
            last_is_one=(X[..., -1] == 1.0).all(),
            x=totals.sum(axis=0),
            x_fourth=(tokens**4).sum(axis=0),
            xx=xx,
            across=totals.T @ totals - xx,
            deciding=np.array(float(len(row_means))),
            y=row_means.sum(axis=0),
            y_squared=(row_means**2).sum(axis=0),
            y_second=(Y**2).sum(axis=(0, 1)),
            digest=np.array([numbers.sum()], np.uint64),
        )
