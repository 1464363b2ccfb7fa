"""Random questions of one length, and how many of them are asked for which heads."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine.exact.heads import unknowns
from gradine.queries.asking.oracle import Oracle
from gradine.queries.asking.tokens import allowed_size, gaussian_tokens
from gradine.queries.by_fit.scout import Scouted
from gradine.queries.config import QueryConfig

__all__ = ["Plan", "Questions", "plans"]

Array = NDArray[np.float64]

KEPT_TOKENS = 4  # of the one sequence that no fit sees
KEPT_LOGIT = 2.0  # spread of its logits: sharper than those of the fit, a harder test


class Questions:
    """Random sequences of one length, and the answers to those that were asked so far."""

    def __init__(
        self,
        oracle: Oracle,
        seen: Scouted,
        heads: int,
        logit: float,
        least_tokens: int,
        config: QueryConfig,
        seed: int,
    ) -> None:
        self.oracle, self.seen, self.config = oracle, seen, config
        self.rng = np.random.default_rng([seed, 2])
        self.size = allowed_size(oracle, math.sqrt(logit / seen.logit))
        d, d_out = oracle.dim, seen.out_dim
        even = d * d_out / ((d + d_out) * heads)  # where m (k - 1) numbers are the row's share
        k = 1 + math.ceil(config.spread_tokens * even)
        self.seq_len = min(max(k, least_tokens), config.most_tokens)
        self.X = np.zeros((0, self.seq_len, d))
        self.Y = np.zeros((0, self.seq_len, d_out))

    def kept(self) -> tuple[Array, Array]:
        """One short sequence with sharp attention, for no fit to see."""
        size = math.sqrt(KEPT_LOGIT / self.seen.logit)
        X = gaussian_tokens(self.oracle, self.rng, 1, KEPT_TOKENS, size)
        return X, self.oracle.ask(X)

    def bound(self, heads: int, constant: bool, rank: int | None) -> float:
        """Rows with as many numbers as there are unknowns."""
        d, d_out = self.oracle.dim, self.seen.out_dim
        return unknowns(heads, d + constant, d, d_out, rank) / d_out

    def ask(self, rows: int) -> None:
        """Ask as many more as make so many rows in all."""
        n = math.ceil(rows / self.seq_len) - len(self.X)
        if n <= 0:
            return
        X = gaussian_tokens(self.oracle, self.rng, n, self.seq_len, self.size)
        self.X = np.concatenate([self.X, X])
        self.Y = np.concatenate([self.Y, self.oracle.ask(X)])


class Plan(NamedTuple):
    """What is tried next."""

    heads: int
    rank: int | None
    constant: bool
    rows: int  #: to be asked by then


def plans(questions: Questions, heads: int, open_count: bool) -> Iterator[Plan]:
    """Ever more rows for the counted heads, then for one more, if their number is open."""
    config, seen, biased = questions.config, questions.seen, questions.seen.constant
    hasty = open_count and not seen.sure  # a count that is a guess is soon given up
    more = 0 if not open_count else 1 if seen.sure else config.more_heads
    for m in range(heads, heads + more + 1):
        full = questions.bound(m, True, None)
        if (rank := config.exact.rank) is not None:
            rows = config.narrow_ratio * questions.bound(m, True, rank)
            while rows < config.first_ratio * full:
                yield Plan(m, rank, biased, math.ceil(rows))
                rows *= config.narrow_growth
        ratio = config.first_ratio if m == heads else config.first_ratio * config.ratio_growth
        tries = 0
        while ratio <= config.most_ratio and not (hasty and tries == 2):
            # Biases may be too small for the first look: from the second try on they are allowed.
            constant = biased or tries > 0 or m > heads
            rows = ratio * questions.bound(m, constant, None)
            yield Plan(m, None, constant, math.ceil(rows))
            ratio, tries = ratio * config.ratio_growth, tries + 1
