"""The examples as a learner sees them: tokens complete, held-out examples out of sight."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from gradine.attention_functions import AttentionFunction
from gradine.engine import Bookmarks, Engine, reduce_blocks
from gradine.examples.source import Examples
from gradine.examples.split import Split, take

__all__ = ["FittingData", "add_each", "append_constant"]

Array = NDArray[np.float64]
Partial = TypeVar("Partial")


def append_constant(X: Array) -> Array:
    """Tokens with a last coordinate 1."""
    return np.concatenate([X, np.ones((*X.shape[:-1], 1))], axis=-1)


def add_each(a: Partial, b: Partial) -> Partial:
    """Sums of several kinds at once, merged: lists, or named tuples.

    >>> add_each([1, 2.0], [3, 4.0])
    [4, 6.0]
    """
    sums = (x + y for x, y in zip(a, b, strict=True))  # pyright: ignore[reportArgumentType]
    return a._make(sums) if hasattr(a, "_make") else type(a)(sums)  # pyright: ignore


@dataclass(frozen=True, eq=False)
class View:
    """Which rows of a block a learner may see, and in which units: all that a worker needs."""

    split: Split
    appended: bool
    basis: Array | None
    unit: float

    def tokens(self, X: Array) -> Array:
        X = append_constant(X) if self.appended else X
        return X if self.basis is None else X @ self.basis

    def outputs(self, Y: Array) -> Array:
        return Y if self.unit == 1.0 else Y / self.unit


@dataclass(frozen=True, eq=False)
class _OnFitted(Generic[Partial]):
    """A kernel for those rows of a block alone."""

    kernel: Callable[[Array, Array], Partial]
    view: View

    def __call__(self, X: Array, Y: Array, start: int) -> Partial:
        rows = self.view.split.fit_rows(start, start + len(X))
        return self.kernel(self.view.tokens(X[rows]), self.view.outputs(Y[rows]))


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
    on_block: Callable[[int, Any], None] | None = None
    basis: Array | None = None  #: (D, D)
    unit: float = 1.0
    engine: Engine | None = None  #: who runs the blocks; None: this process
    bookmarks: Bookmarks | None = None  #: where passes are kept as they go on; None: nowhere
    between: tuple[int, int] | None = None  #: the only examples that passes see; None: all
    deadline: float | None = None  #: by `time.monotonic`, for passes that may end early
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

    @property
    def size_of_block(self) -> int:
        return self.block_size or self.examples.block_size(self.memory)

    def legs(self, blocks: int) -> Iterator[FittingData]:
        """The same data in parts, for passes that may end between them: so many blocks, as many
        again, twice as many, and so on."""
        start, stop, last = 0, blocks * self.size_of_block, self.examples.n
        while start < last:
            yield replace(self, between=(start, min(stop, last)))
            start, stop = stop, 2 * stop

    def share_of_time(self) -> float | None:
        """Until when a pass may take that can go on with what it has: half of the time that is
        left, so that those after it have their share. None: for ever."""
        now = time.monotonic()
        return None if self.deadline is None else now + (self.deadline - now) / 2

    @property
    def view(self) -> View:
        """How examples become what a learner sees, without the examples."""
        return View(self.split, self.appended, self.basis, self.unit)

    def tokens(self, X: Array) -> Array:
        return self.view.tokens(X)

    def outputs(self, Y: Array) -> Array:
        return self.view.outputs(Y)

    def reduce(
        self,
        kernel: Callable[[Array, Array], Partial],
        merge: Callable[[Partial, Partial], Partial],
        kind: type[Any],
        *,
        until: float | None = None,
    ) -> Partial:
        """One pass over the examples that may be fitted: ``kernel`` a block, then ``merge``.

        Workers get the kernel, so that it must be picklable: a function of a module, or an object
        with arrays in it. ``kind`` is the type of what it gives: a record, a list, or an array.
        After the time ``until``, by `time.monotonic`, it goes on with what it has.
        """
        return reduce_blocks(
            self.examples,
            _OnFitted(kernel, self.view),
            merge,
            block_size=self.size_of_block,
            between=self.between,
            engine=self.engine,
            until=until,
            bookmark=None if self.bookmarks is None else self.bookmarks.next(kind),
            on_block=self.on_block,
        )

    def sample(self, count: int, seed: int) -> tuple[Array, Array]:
        """``count`` of the examples that may be fitted, drawn at random."""
        count = min(count, self.split.n_fit)
        chosen = np.random.default_rng(seed).choice(self.split.n_fit, count, replace=False)
        return self._taken(self.split.fitted(np.sort(chosen)))

    def validation(self) -> tuple[Array, Array]:
        return self._taken(self.split.validation)

    def certification(self) -> tuple[Array, Array]:
        """What is looked at once, for the final answer."""
        return self._taken(self.split.certify)

    def _taken(self, indices: NDArray[np.intp]) -> tuple[Array, Array]:
        X, Y = take(self.examples, indices, self.size_of_block, self.engine)
        return self.tokens(X), self.outputs(Y)
