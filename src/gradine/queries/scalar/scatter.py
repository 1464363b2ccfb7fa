"""Heads from questions at random, by least squares from random starts.

This is what is left where keys may not be large, or tokens have so few coordinates that cliffs cost
more than they bring. It finds one or two heads; with more, ever more starts end in local minima.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradine.layer import softmax
from gradine.queries.scalar.pairs import Linear, Pairs, published_count
from gradine.solvers.dense import dense_least_squares
from gradine.status import NotLearned, Status

__all__ = ["Scattered", "scatter"]

Array = NDArray[np.float64]

TOKENS = 3  # of a sequence: two keys do better than one, as both signs of a logit show at once
SIZE = 1.5  # standard deviation of their entries
PLENTY = 2.5  # equations for each unknown that are asked for
LEAST = 1.1  # fewer than so many mean nothing
STARTS = 9000  # divided by the unknowns: more where each of them is cheap
MOST_STARTS = 150
MOST_HEADS = 3  # that are tried if they have to be counted
START_SCALE = 0.5  # norm of a row of Theta, and of v, at the start
ACCEPTED = 30.0  # standard deviations of the noise that a fit may leave: wrong heads leave far more
EXACT = 1e-10  # the same, relative to the answers: rounding of the fit itself


@dataclass(frozen=True, eq=False)
class Scattered:
    """The best fit to questions at random."""

    theta: Array  #: (m, D, d)
    values: Array  #: (m, d)
    offset: float
    heads: int
    residual: float  #: root mean square, relative to that of the answers
    starts: int
    queries: int  #: of the learner so far
    seconds: float


def scatter(pairs: Pairs, linear: Linear, heads: int | None, seed: int) -> Scattered:
    """Fit the heads, with one more at a time where they are not given."""
    began, rng, d = time.perf_counter(), np.random.default_rng([seed, TOKENS]), pairs.dim
    width = d + linear.query_bias
    X, y = np.repeat(linear.tokens[:, None], TOKENS, axis=1), linear.answers
    tried, starts = range(1, MOST_HEADS + 1) if heads is None else [heads], 0
    for m in tried:
        unknowns = m * d * (width + 1) + linear.value_bias
        left = published_count(m, d + linear.biased) - pairs.used
        # What finding the precision has cost counts as well, where there is room for it.
        probes = pairs.precision.queries if left - pairs.precision.queries > unknowns else 0
        count = min(math.ceil(PLENTY * unknowns) - len(y), left - probes)
        if count > 0:
            asked = pairs.ask_tokens(_tokens(pairs, count, rng))
            X, y = np.concatenate([X, asked[0]]), np.concatenate([y, asked[1]])
        if len(y) < LEAST * unknowns:
            continue
        size = float(np.sqrt(np.mean(y**2)))
        enough = max(ACCEPTED * pairs.noise(size), EXACT * size)
        problem = _Problem(X, y, m, bool(linear.query_bias), bool(linear.value_bias))
        for _ in range(min(STARTS // unknowns + 1, MOST_STARTS)):
            starts += 1
            found = dense_least_squares(problem, problem.start(rng), steps=200)
            if found.residual <= enough:
                theta, values, offset = problem.parts(found.x)
                residual, seconds = found.residual / size, time.perf_counter() - began
                return Scattered(theta, values, offset, m, residual, starts, pairs.used, seconds)
    words = f"{tried[0]}" if len(tried) == 1 else f"1 to {tried[-1]}"
    detail = f"no start with {words} heads explains the answers; {starts} were tried"
    if starts == 0:
        detail = f"the published number of queries is too few for a fit of {words} heads"
    raise NotLearned(Status.NOT_REALIZABLE, detail)


def _tokens(pairs: Pairs, count: int, rng: np.random.Generator) -> Array:
    """Sequences of tokens whose entries are of ordinary size, or what the limit leaves."""
    z = rng.standard_normal((count, TOKENS, pairs.dim))
    room = pairs.oracle.largest_norm()
    norms = np.linalg.norm(SIZE * z, axis=2, keepdims=True)
    return pairs.oracle.center + SIZE * z * np.minimum(1.0, 0.999 * room / norms)


class _Problem:
    """The residual of last rows and its derivatives, at flat Theta (m, D, d), v (m, d) and c."""

    def __init__(self, X: Array, y: Array, heads: int, query_bias: bool, value_bias: bool) -> None:
        self.X, self.y, self.value_bias = X, y, int(value_bias)
        last = X[:, -1]
        self.queries = np.concatenate([last, np.ones((len(X), 1))], axis=1) if query_bias else last
        self.shape = (heads, self.queries.shape[1], X.shape[2])

    def start(self, rng: np.random.Generator) -> Array:
        m, width, d = self.shape
        theta = rng.standard_normal(m * width * d) * (START_SCALE / d)
        values = rng.standard_normal(m * d) * (START_SCALE / np.sqrt(d))
        return np.concatenate([theta, values, np.zeros(self.value_bias)])

    def parts(self, x: Array) -> tuple[Array, Array, float]:
        m, width, d = self.shape
        theta, values = x[: m * width * d], x[m * width * d : m * (width + 1) * d]
        return (
            theta.reshape(self.shape),
            values.reshape(m, d),
            float(x[-1]) if self.value_bias else 0.0,
        )

    def __call__(self, x: Array) -> tuple[Array, Callable[[], Array]]:
        theta, values, offset = self.parts(x)
        n, (m, width, d) = len(self.y), self.shape
        looks = (self.queries @ theta.swapaxes(0, 1).reshape(width, m * d)).reshape(n, m, d)
        weights = softmax(looks @ self.X.swapaxes(1, 2))
        shown = (self.X @ values.T).swapaxes(1, 2)  # (n, m, k)
        heads = np.sum(weights * shown, axis=2)

        def jacobian() -> Array:
            slopes = (weights * (shown - heads[:, :, None])) @ self.X
            over_theta = self.queries[:, None, :, None] * slopes[:, :, None, :]
            parts = [over_theta.reshape(n, -1), (weights @ self.X).reshape(n, -1)]
            return np.concatenate([*parts, np.ones((n, self.value_bias))], axis=1)

        return heads.sum(axis=1) + offset - self.y, jacobian
