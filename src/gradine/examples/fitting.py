"""The examples as a learner sees them: tokens complete, held-out examples out of sight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gradine.attention_functions import AttentionFunction
from gradine.engine import choose_block_size, reduce_blocks
from gradine.examples.source import Examples
from gradine.examples.split import Split, take

__all__ = ["FittingData", "append_constant"]

Array = NDArray[np.float64]
Partial = TypeVar("Partial")


def append_constant(X: Array) -> Array:
    """Tokens with a last coordinate 1."""
    return np.concatenate([X, np.ones((*X.shape[:-1], 1))], axis=-1)


@dataclass(frozen=True, eq=False)
class FittingData:
    """Examples, which of them may be fitted, and how their tokens become D coordinates.

    ``constant`` says that the layer has a constant coordinate; ``appended`` that the examples come
    without it, so that it has to be added. Tokens are multiplied by ``basis`` and outputs divided
    by ``unit``, if a learner wants them so.
    """

    examples: Examples
    split: Split
    constant: bool = False
    appended: bool = False
    block_size: int | None = None
    on_block: Callable[[int], None] | None = None
    basis: Array | None = None  #: (D, D)
    unit: float = 1.0
    memory: int | None = None  #: bytes allowed in all; None: see `gradine.memory`

    @property
    def width(self) -> int:
        """D."""
        return self.examples.dim + self.appended

    @property
    def dim(self) -> int:
        """d: coordinates without the constant one."""
        return self.width - self.constant

    def keys(self, function: AttentionFunction) -> int:
        """Coordinates that take part as keys; the constant one cancels in the softmax."""
        return self.dim if function.shift_invariant else self.width

    @property
    def seq_len(self) -> int:
        return self.examples.seq_len

    @property
    def out_dim(self) -> int:
        return self.examples.out_dim

    @property
    def unknowns(self) -> int:
        """Numbers in one attention matrix that can be known, with softmax."""
        return self.width * self.dim

    def tokens(self, X: Array) -> Array:
        X = append_constant(X) if self.appended else X
        return X if self.basis is None else X @ self.basis

    def outputs(self, Y: Array) -> Array:
        return Y if self.unit == 1.0 else Y / self.unit

    def reduce(
        self,
        kernel: Callable[[Array, Array], Partial],
        merge: Callable[[Partial, Partial], Partial],
    ) -> Partial:
        """One pass over the examples that may be fitted: ``kernel`` a block, then ``merge``."""

        def fitted(X: Array, Y: Array, start: int) -> Partial:
            rows = self.split.fit_rows(start, start + len(X))
            return kernel(self.tokens(X[rows]), self.outputs(Y[rows]))

        def progress(seen: int, _: Partial) -> None:
            if self.on_block is not None:
                self.on_block(seen)

        size = self.block_size or choose_block_size(self.examples)
        return reduce_blocks(self.examples, fitted, merge, block_size=size, on_block=progress)

    def sample(self, count: int, seed: int) -> tuple[Array, Array]:
        """``count`` of the examples that may be fitted, drawn at random."""
        count = min(count, self.split.n_fit)
        chosen = np.random.default_rng(seed).choice(self.split.n_fit, count, replace=False)
        X, Y = take(self.examples, self.split.fitted(np.sort(chosen)), self.block_size)
        return self.tokens(X), self.outputs(Y)

    def validation(self) -> tuple[Array, Array]:
        X, Y = take(self.examples, self.split.validation, self.block_size)
        return self.tokens(X), self.outputs(Y)
