"""Which examples a learner may fit, and which are kept away to check it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gradine.engine import Engine
from gradine.examples.source import ArrayExamples, Examples

__all__ = ["MOST_CERTIFY", "Split", "held_out_sizes", "make_split", "take"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

SHARES = 4  # of each worker, where single examples are fetched
MOST_CERTIFY = 0.6  # share of all examples that certify at most, where the usual one is too little


@dataclass(frozen=True, eq=False)
class Split:
    """Two disjoint, sorted sets of example indices that are not for fitting.

    ``validation`` chooses between candidates and may be looked at often; ``certify`` is looked
    at once, for the final answer.
    """

    n: int
    validation: Indices
    certify: Indices
    seed: int
    _held: Indices = field(init=False, repr=False)

    def __post_init__(self) -> None:
        held = np.sort(np.concatenate([self.validation, self.certify]))
        if len(held) and (held[0] < 0 or held[-1] >= self.n or (np.diff(held) == 0).any()):
            raise ValueError(f"validation and certify must be disjoint indices below n = {self.n}")
        object.__setattr__(self, "_held", held)

    @property
    def held(self) -> Indices:
        """All that are not for fitting, sorted."""
        return self._held

    @property
    def n_fit(self) -> int:
        """How many examples are left for fitting."""
        return self.n - len(self._held)

    def fitted(self, ranks: Indices) -> Indices:
        """The examples that are for fitting, by their rank among these: 0 is the first of them."""
        before = self._held - np.arange(len(self._held))  # fitting examples below each held one
        return ranks + np.searchsorted(before, ranks, side="right")

    def fit_rows(self, start: int, stop: int) -> Indices:
        """Rows of the block start:stop that may be used for fitting, counted from its start."""
        usable = np.ones(stop - start, dtype=bool)
        first, last = np.searchsorted(self._held, [start, stop])
        usable[self._held[first:last] - start] = False
        return np.flatnonzero(usable)


def make_split(
    n: int,
    *,
    validation: int = 2000,
    certify: int = 2000,
    largest_share: float = 0.2,
    least_certify: int = 0,
    seed: int = 0,
) -> Split:
    """Draw the held-out examples at random, as many as `held_out_sizes` says.

    >>> split = make_split(100, validation=10, certify=50)
    >>> len(split.validation), len(split.certify), split.n_fit
    (10, 20, 70)
    """
    validation, certify = held_out_sizes(n, validation, certify, largest_share, least_certify)
    if validation + certify >= n:
        raise ValueError(
            f"{validation + certify} of {n} examples are held out: none is left to fit"
        )
    chosen = np.random.default_rng(seed).choice(n, validation + certify, replace=False)
    return Split(n, np.sort(chosen[:validation]), np.sort(chosen[validation:]), seed)


def held_out_sizes(
    n: int, validation: int, certify: int, largest_share: float, least_certify: int = 0
) -> tuple[int, int]:
    """How many of n examples validate and certify: neither more than ``largest_share`` of all.

    Where that leaves fewer than ``least_certify`` to certify, although as many are wanted, so many
    do if they are at most 0.6 of all; ``largest_share`` of the others validate then.

    >>> held_out_sizes(300, 2000, 2000, 0.2, least_certify=165)
    (27, 165)
    """
    for name, value, least in (("n", n, 1), ("validation", validation, 0), ("certify", certify, 0)):
        if value < least:
            raise ValueError(f"{name} is {value}; expected at least {least}")
    if not 0.0 < largest_share < 1.0:
        raise ValueError(f"largest_share is {largest_share}; expected between 0 and 1")
    most = int(largest_share * n + 1e-9)
    if most < least_certify <= min(certify, MOST_CERTIFY * n + 1e-9):
        rest = int(largest_share * (n - least_certify) + 1e-9)
        return min(validation, rest), least_certify
    return min(validation, most), min(certify, most)


def take(
    examples: Examples,
    indices: Sequence[int] | Indices,
    block_size: int | None = None,
    engine: Engine | None = None,
) -> tuple[Array, Array]:
    """The examples at sorted ``indices``: X (len, k, d) and Y (len, k, d_out).

    Memory beyond the answer itself is one block, however far apart the indices are, and pieces
    of the source in which none of them lies are not read. Examples that have to be made or
    unpacked are so by the workers of the ``engine``.
    """
    wanted = np.asarray(indices, dtype=np.intp)
    if wanted.ndim != 1 or (np.diff(wanted) < 0).any():
        raise ValueError("indices must be one sorted list of example numbers")
    if len(wanted) and (wanted[0] < 0 or wanted[-1] >= examples.n):
        raise ValueError(
            f"indices run from {wanted[0]} to {wanted[-1]}; expected within 0:{examples.n}"
        )
    X = np.empty((len(wanted), examples.seq_len, examples.dim))
    Y = np.empty((len(wanted), examples.seq_len, examples.out_dim))
    size = examples.block_size() if block_size is None else block_size
    count = size
    if engine is None or isinstance(examples, ArrayExamples):
        engine = Engine()
    else:
        count = min(size, -(-len(wanted) // (SHARES * engine.workers)))
    done = 0
    for part_X, part_Y in engine.blocks(examples, _Picked(wanted, size), _shares(wanted, count)):
        X[done : done + len(part_X)] = part_X
        Y[done : done + len(part_X)] = part_Y
        done += len(part_X)
    return X, Y


def _shares(wanted: Indices, count: int) -> list[tuple[int, int]]:
    """Ranges of examples with about ``count`` wanted ones in each; equal indices stay together."""
    shares, done = [], 0
    while done < len(wanted):
        upto = int(np.searchsorted(wanted, wanted[min(done + count, len(wanted)) - 1], "right"))
        shares.append((int(wanted[done]), int(wanted[upto - 1]) + 1))
        done = upto
    return shares


@dataclass(frozen=True, eq=False)
class _Picked:
    """Some examples of a range, read in blocks of ``size`` at most."""

    wanted: Indices
    size: int

    def read(self, examples: Examples, start: int, stop: int) -> tuple[Array, Array]:
        first, last = np.searchsorted(self.wanted, (start, stop))
        wanted, parts = self.wanted[first:last], []
        while len(wanted):
            upto = int(np.searchsorted(wanted, wanted[0] + self.size))
            far = np.diff(wanted[:upto]) > examples.piece
            if far.any():
                upto = int(far.argmax()) + 1
            begin, here, wanted = int(wanted[0]), wanted[:upto] - wanted[0], wanted[upto:]
            # A block that fails is tried once more, as in a pass.
            ends = (begin, begin + int(here[-1]) + 1)
            _, (X, Y) = next(Engine().run(examples.block, [ends], blocks=True))
            parts.append((X[here], Y[here]))
        X, Y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return X, Y
