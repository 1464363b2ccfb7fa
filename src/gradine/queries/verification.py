"""The last check: fresh questions, of which no learner has heard, and a budget that allows them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradine.checks import whole_number
from gradine.exact.workshop import RunPhase
from gradine.layer import AttentionLayer
from gradine.queries.asking.errors import BudgetSpent
from gradine.queries.asking.oracle import Oracle
from gradine.queries.asking.precision import Precision
from gradine.queries.asking.tokens import allowed_size, gaussian_tokens
from gradine.queries.config import QueryConfig
from gradine.status import NotLearned
from gradine.verdict import Ended, Verdict, judge_answers

__all__ = ["Budget", "Verified", "fresh_questions", "verified"]

Array = NDArray[np.float64]

LARGEST_TOKENS = 1e4  # entries of tokens that verify a layer whose attention hardly varies


@dataclass(frozen=True, eq=False)
class Verified:
    """The fresh questions, and what they took."""

    queries: int
    rows: int
    size: float  #: standard deviation of the entries of their tokens, about the center
    error: float  #: relative RMS error of the answer on them
    seconds: float


class Budget:
    """How many queries there may be, and how many of them are for the last check."""

    def __init__(self, oracle: Oracle, given: int | None, config: QueryConfig) -> None:
        self.verify = max(config.verify_queries, config.least_certify)
        self.most = self._before = oracle.max_queries
        self._oracle = oracle
        if given is not None:
            given = whole_number("max_queries", given, 0) + oracle.queries_used
            self.most = given if self.most is None else min(given, self.most)
        self.hopeless: NotLearned | None = None
        left = None if self.most is None else self.most - oracle.queries_used
        if left is not None and left <= self.verify:
            detail = f"{left} queries are allowed, and verifying an answer alone takes"
            self.hopeless = BudgetSpent(f"{detail} {self.verify}")
        oracle.max_queries = self.most

    def end(self) -> None:
        """Leaves the oracle with the budget that it came with."""
        self._oracle.max_queries = self._before

    @contextmanager
    def without_verification(self) -> Iterator[None]:
        """Takes its share away from what the oracle may be asked, and gives it back."""
        if self.most is not None:
            self._oracle.max_queries = self.most - self.verify
        try:
            yield
        finally:
            self._oracle.max_queries = self.most


def fresh_questions(
    oracle: Oracle, layer: AttentionLayer | None, n: int, config: QueryConfig, seed: int
) -> Array:
    """Questions that no learner has seen, with tokens of a size at which attention matters."""
    rng = np.random.default_rng([seed, 3])
    size = allowed_size(oracle, 1.0 if layer is None else _telling_size(layer, config))
    return gaussian_tokens(oracle, rng, n, config.verify_tokens, size)


def _telling_size(layer: AttentionLayer, config: QueryConfig) -> float:
    """The size of tokens at which a logit has the spread that is wanted, in the median head."""
    d = layer.dim
    spread = float(np.median(np.linalg.norm(layer.theta[:, :d, :d], axis=(1, 2))))
    # Attention that is nothing but rounding would ask for tokens that are nothing but huge.
    return min(float(np.sqrt(config.verify_logit / max(spread, 1e-300))), LARGEST_TOKENS)


def verified(
    oracle: Oracle,
    ended: Ended,
    precision: Precision | None,
    X: Array,
    config: QueryConfig,
    run: RunPhase,
) -> tuple[Verdict, Array]:
    """The verdict, and the answers to X; zeros where they were not asked."""
    nothing = np.zeros((*X.shape[:2], oracle.out_dim or 1))
    if ended.layer is None or precision is None:
        assert ended.ending is not None
        return Verdict(ended.ending.status, ended.ending.detail), nothing
    layer, answers = ended.layer, {}

    def ask() -> Verified:
        began, rows = time.perf_counter(), oracle.rows_used
        Y = answers["Y"] = oracle.ask(X)
        error = np.linalg.norm(layer(X)[:, -Y.shape[1] :] - Y) / (np.linalg.norm(Y) or 1.0)
        spread = float(np.std(X - oracle.center))
        seconds = time.perf_counter() - began
        return Verified(len(X), oracle.rows_used - rows, spread, float(error), seconds)

    try:
        run("verify", Verified, ask)
    except NotLearned as stopped:
        return Verdict(stopped.status, stopped.detail), nothing
    Y = answers["Y"]
    noise = precision.noise(float(np.sqrt(np.mean(Y**2))))
    return judge_answers(ended, X, Y, noise, config), Y
