"""What the stages of the exact learner share: examples of the right number, fits made once."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine import kernels
from gradine.attention_functions import SOFTMAX, attention_function
from gradine.exact.config import ExactConfig
from gradine.exact.count import needed_heads
from gradine.exact.deflate import rows_needed
from gradine.exact.heads import FitTask, fit_heads, refine, unknowns, without_spare
from gradine.exact.passes import refine_by_passes
from gradine.exact.results import HeadFit
from gradine.exact.wide import fit_wide
from gradine.examples import FittingData
from gradine.memory import check_kept, kept_bytes
from gradine.progress import Tell

__all__ = ["RunPhase", "Workshop", "bytes_under_fit"]

Array = NDArray[np.float64]

#: Runs a stage, or recalls its result from an earlier run: (name, result type, what to do).
RunPhase = Callable[[str, type[Any], Callable[[], Any]], Any]

ENOUGH = 1.05  # equations for each unknown; with fewer, no fit means anything
LEAST_RIPE = 1000  # examples on which fits to noisy labels are compared, at least
RANK_ENOUGH = 1.5  # the same where the rank is a guess


def bytes_under_fit(data: FittingData, heads: int) -> int:
    """What one example takes in a fit: for each row and head its attention, its features, and
    copies of these in single precision."""
    each_row = 3 * data.seq_len + 3 * data.width + 2 * data.out_dim
    return 8 * data.seq_len * heads * each_row


class Workshop:
    """Fits with any number of heads, each made at most once and kept in the run's records."""

    def __init__(
        self,
        data: FittingData,
        distinct: int,
        like: Any,
        config: ExactConfig,
        seed: int,
        run: RunPhase,
        tell: Tell | None = None,
    ) -> None:
        self.data, self.like, self.config, self.seed, self.run = data, like, config, seed, run
        self.tell = tell
        self.function = attention_function(config.attention)
        self.keys = data.keys(self.function)
        self.distinct = distinct  # a sequence that comes again says nothing new
        self.fits: dict[int, HeadFit] = {}
        self.ripe: dict[int, HeadFit] = {}
        self.ripe_examples: int | None = None
        #: Where to begin with so many heads, if the moments say so.
        self.known: dict[int, Array] = {}

    def unknowns(self, heads: int, rank: int | None) -> int:
        data = self.data
        return unknowns(heads, data.width, self.keys, data.out_dim, rank)

    def equations(self, heads: int, rank: int | None) -> float:
        """Equations for each unknown, if all examples take part."""
        rows = self.distinct * self.data.seq_len * self.data.out_dim
        return rows / self.unknowns(heads, rank)

    def heads_allowed(self) -> int:
        """As many as are ever tried."""
        return min(self.config.most_heads, self.data.dim)

    def most_heads(self) -> int:
        """As many as the examples could determine."""
        most, rank = self.heads_allowed(), self.config.rank
        return max([m for m in range(1, most + 1) if self.equations(m, rank) >= ENOUGH], default=1)

    def task(self, heads: int, rank: int | None, count: int | None = None) -> FitTask:
        """The examples for a fit with so many heads: enough, or ``count`` if memory allows."""
        data, config = self.data, self.config
        bound = self.unknowns(heads, rank) / (data.seq_len * data.out_dim)
        count = count or math.ceil(config.examples_per_bound * bound)
        allowed = self._allowed(count, math.ceil(bound), bytes_under_fit(data, heads))
        X, Y = self._sample(allowed)
        X_fresh, Y_fresh = data.validation()
        if self.like is not None:
            xp = kernels.namespace(self.like)
            example = kernels.cast(self.like[:1, ...], xp.float64)
            X, Y = kernels.like(X, example), kernels.like(Y, example)
        biased = data.constant and self.keys == data.width
        return FitTask(X, Y, X_fresh, Y_fresh, self.keys, config, self.seed, self.tell, biased)

    def _allowed(self, count: int, least: int, each: int) -> int:
        """As many of ``count`` examples as memory allows, at ``each`` bytes for one of them."""
        memory, share = self.data.memory, self.config.memory_share
        why = f"no fit means anything with fewer than {least} examples"
        check_kept(memory, share, least * each, why)
        return min(count, kept_bytes(memory, share) // each)

    def _sample(self, count: int) -> tuple[Array, Array]:
        """Examples drawn at random; where sequences come again, one of each."""
        again = self.data.split.n_fit / self.distinct
        if again == 1.0:
            return self.data.sample(count, self.seed)
        X, Y = self.data.sample(math.ceil(again * count), self.seed)
        _, first = np.unique(X.reshape(len(X), -1), axis=0, return_index=True)
        chosen = np.sort(first)[:count]
        return X[chosen], Y[chosen]

    def fit(self, heads: int, starts: int | None = None) -> HeadFit:
        """The best fit with so many heads, at the rank that is asked for or that it takes."""
        if heads not in self.fits:
            ranks = self._ranks(heads)
            self.fits[heads] = self.run(
                f"fit_{heads}", HeadFit, lambda: self._at_some_rank(heads, ranks, starts)
            )
        return self.fits[heads]

    def counting_fit(self, heads: int) -> HeadFit:
        return self.fit(heads, self.config.counting_starts)

    def ripe_fit(self, heads: int) -> HeadFit:
        """The same, refined on as many examples as every other number of heads: with noise, fits
        to different examples cannot be compared, nor can few tell noise from what is left."""
        fit = self.counting_fit(heads)
        if fit.exact:
            return fit
        if heads not in self.ripe:
            if self.ripe_examples is None:
                bound = self.unknowns(heads + 1, fit.rank) / (self.data.seq_len * self.data.out_dim)
                self.ripe_examples = max(LEAST_RIPE, math.ceil(self.config.ripe_per_bound * bound))
            task = self.task(heads, fit.rank, count=self.ripe_examples)
            self.ripe[heads] = self.run(f"ripe_{heads}", HeadFit, lambda: refine(task, fit))
        return self.ripe[heads]

    def refined(self, fit: HeadFit, name: str = "refine") -> HeadFit:
        """The same heads by all examples; ``name`` is that of the phase.

        As many as memory allows are fitted at once. The others come by passes.
        """
        task = self.task(fit.heads, fit.rank, count=self.data.split.n_fit)
        if len(task.X) > fit.examples:
            few = fit
            fit = self.run(name, HeadFit, lambda: refine(task, few))
        if len(task.X) < min(self.distinct, self.data.split.n_fit) and self.like is None:
            sample = fit
            work = partial(refine_by_passes, self.data, task, sample)
            fit = self.run(f"{name}_by_passes", HeadFit, work)
        return fit

    def without_spare(self, fit: HeadFit) -> HeadFit:
        """The same without heads that an exact fit does not need."""
        needed = needed_heads(fit)
        if len(needed) == fit.heads:
            return fit
        task = self.task(len(needed), fit.rank)
        name = f"needed_{len(needed)}"
        fewer: HeadFit = self.run(name, HeadFit, lambda: without_spare(task, fit, needed))
        return fewer if fewer.exact else fit

    def wide(self, heads: int) -> bool:
        """Whether the layer is too wide for steps with full matrices, and its rank is known."""
        data, rank = self.data, self.config.rank
        if rank is None or self.like is not None:
            return False
        rows = self.config.examples_per_bound * self.unknowns(heads, rank) / data.out_dim
        wide = rows * heads * data.width * data.dim > self.config.wide_work
        if wide and self.function is not SOFTMAX:
            raise ValueError(
                f"attention is {self.function.name!r}; expected 'softmax' for a layer as wide as "
                f"this one ({heads} heads of rank {rank} at dim {data.dim})"
            )
        return wide

    def wide_task(self, heads: int, rank: int) -> FitTask:
        """As many examples as the moments of a wide layer take, and memory allows."""
        data = self.data
        shape = (data.seq_len, data.width, data.dim, data.out_dim)
        _, count = rows_needed(heads, rank, shape, self.config.deflate)
        each = 8 * data.seq_len * (4 * data.width + 6 * data.out_dim + 3 * heads * data.seq_len)
        X, Y = self._sample(self._allowed(count, 1, each))
        return FitTask(X, Y, *data.validation(), data.dim, self.config, self.seed, self.tell)

    def _ranks(self, heads: int) -> list[int | None]:
        """Full, unless examples are too few for that: then powers of two that they do for."""
        if self.config.rank is not None:
            return [self.config.rank]
        if self.equations(heads, None) >= ENOUGH:
            return [None]
        powers = [2**i for i in range(int(math.log2(self.data.dim)) + 1)]
        return [r for r in powers if self.equations(heads, r) >= RANK_ENOUGH] or [None]

    def _at_some_rank(self, heads: int, ranks: list[int | None], starts: int | None) -> HeadFit:
        best: HeadFit | None = None
        if self.wide(heads) and ranks[0] is not None:
            return fit_wide(self.wide_task(heads, ranks[0]), heads, ranks[0])
        count = self.data.split.n_fit if len(ranks) > 1 else None
        if count is None and self.function is not SOFTMAX:
            # Starts with narrow heads were made for softmax: others take as many as full heads do.
            bound = self.unknowns(heads, None) / (self.data.seq_len * self.data.out_dim)
            count = math.ceil(self.config.examples_per_bound * bound)
        for rank in ranks:
            task = self.task(heads, rank, count)
            found = fit_heads(task, heads, rank, self.known.get(heads), starts)
            if best is None or found.validation_error < best.validation_error:
                best = found
            if best.exact:
                break
        assert best is not None
        return best
