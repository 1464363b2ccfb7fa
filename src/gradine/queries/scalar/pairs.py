"""Asking about pairs: copies of b + a, then b; one coordinate of the last row is seen.

With u_h = Theta_h^T b + g_h (g_h the query bias) and v_h the visible column of W_h, what depends on
the query alone cancels in the softmax, and the answer is

    y = c + <b, V> + sum_h sigma(<u_h, a> + log copies) <v_h, a>,      V = sum_h v_h.

With one copy the part that is odd in a is linear and known, and what is left is

    E(a) = 2 (y - c - <b, V>) - <a, V> = sum_h tanh(<u_h, a> / 2) <v_h, a>.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gradine.queries.asking.oracle import Oracle
from gradine.queries.asking.precision import Precision
from gradine.queries.asking.rounding import EPS

__all__ = ["Linear", "Pairs", "measure_linear", "published_count"]

Array = NDArray[np.float64]

LARGE = 1e14  # norm of the largest keys: heads of any scale show, and nothing overflows
LARGE_HALF = 1e3  # the same for numbers that end at 65504
DOUBLE = 2.0**-53  # what double arithmetic leaves of an answer, relative, at the very least
BIAS_PROBES = 2
SURE = 200.0  # standard deviations of noise beyond which there is a bias, if keys are large
SURE_ALONE = 10.0  # the same for the answer to one token of ordinary size


def published_count(heads: int, dim: int) -> int:
    """Queries of the published learner in exact arithmetic: 4 m d^2 - 2 m + 1."""
    return 4 * heads * dim**2 - 2 * heads + 1


@dataclass(frozen=True, eq=False)
class Linear:
    """What single tokens say, whose answers are affine: y = c + <x, V>."""

    total: Array  #: V, (d,)
    offset: float  #: c, what the biases of the values add up to
    query_bias: bool  #: whether u_h at the token 0 is not 0, or cannot be known to be
    value_bias: bool  #: whether c is more than noise
    tokens: Array  #: the single tokens that were asked, (d + 1, d)
    answers: Array  #: theirs, (d + 1,)
    queries: int  #: of the learner so far
    seconds: float

    @property
    def biased(self) -> bool:
        return self.query_bias or self.value_bias


class Pairs:
    """An oracle that is asked about pairs, with a count of what was asked."""

    def __init__(self, oracle: Oracle, precision: Precision) -> None:
        self.oracle, self.precision, self.dim = oracle, precision, oracle.dim
        self.used = 0  #: queries

    @property
    def token_size(self) -> float:
        """The norm of an ordinary token: entries of about one, or half of what the limit leaves."""
        return min(math.sqrt(self.dim), 0.5 * self.oracle.largest_norm())

    def noise(self, size: float) -> float:
        """Standard deviation of the noise of answers of that size, that of double arithmetic too:
        large answers with so many decimals have no more digits than others."""
        return math.hypot(self.precision.noise(size), DOUBLE * size)

    @property
    def resolution(self) -> float:
        """How exactly tokens can be sent, and answers are read, relative to their size."""
        kind = self.precision.kind
        if kind == "float64":
            return max(DOUBLE, self.precision.relative)
        return max(EPS[kind] if kind in EPS else EPS["float32"], self.precision.relative)

    def largest_key(self, b: Array) -> float:
        """The largest norm of a key a such that b + a may be sent, whatever its direction."""
        large = LARGE_HALF if self.precision.kind == "float16" else LARGE
        return min(large, self.oracle.largest_norm(b))

    def ask_tokens(self, X: Array) -> tuple[Array, Array]:
        """Sequences (n, k, d) as they were sent, and the answers (n,)."""
        sent = self.precision.representable(X)
        self.used += len(sent)
        return sent, self.oracle.ask(sent)[:, 0, 0]

    def ask(self, b: Array, A: Array, copies: int = 1) -> tuple[Array, Array]:
        """``A`` (n, d) as it was sent, and the answers (n,) to copies of b + a before b.

        Rounding b + a takes digits of a: what was sent is the a that is meant from there on. ``b``
        is one token, or one for each a, that can be sent as it is.
        """
        last = np.broadcast_to(b, A.shape)[:, None]
        X = np.concatenate([np.repeat((b + A)[:, None], copies, axis=1), last], axis=1)
        sent, y = self.ask_tokens(X)
        return sent[:, 0] - b, y

    def even(self, linear: Linear, b: Array, A: Array) -> tuple[Array, Array]:
        """``A`` as it was sent, and E of it."""
        A, y = self.ask(b, A)
        return A, 2.0 * (y - linear.offset - b @ linear.total) - A @ linear.total


def measure_linear(pairs: Pairs, seed: int) -> Linear:
    """d + 1 single tokens, and three pairs that show whether there is a query bias."""
    began, d, oracle = time.perf_counter(), pairs.dim, pairs.oracle
    center = pairs.precision.representable(oracle.center)
    tokens = center + pairs.token_size * np.concatenate([np.zeros((1, d)), np.eye(d)])
    tokens, y = pairs.ask_tokens(tokens[:, None])
    tokens = tokens[:, 0]
    total = np.linalg.solve(tokens[1:] - tokens[0], y[1:] - y[0])
    if pairs.precision.absolute > 0.0:
        # Noise that does not grow with the tokens hardly matters to large ones.
        far, large = pairs.ask_tokens(
            (center + 0.5 * pairs.largest_key(center) * np.eye(d))[:, None]
        )
        total = np.linalg.solve(far[:, 0] - tokens[0], large - y[0])
    offset = float(y[0] - tokens[0] @ total)
    noise = pairs.noise(float(np.sqrt(np.mean(y**2))))
    value_bias = abs(offset) > SURE_ALONE * noise
    known = Linear(total, offset, True, value_bias, tokens, y, pairs.used, 0.0)
    query_bias = bool(np.any(center)) or _query_bias(pairs, known, seed)
    seconds = time.perf_counter() - began
    return replace(known, query_bias=query_bias, queries=pairs.used, seconds=seconds)


def _query_bias(pairs: Pairs, linear: Linear, seed: int) -> bool:
    """Whether large keys change the answer of the token 0 beyond their mean."""
    z = np.random.default_rng(seed).standard_normal((1 + BIAS_PROBES, pairs.dim))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    b = np.zeros((len(z), pairs.dim))
    b[0] = pairs.precision.representable(pairs.token_size * z[0])  # with heads, for comparison
    size = 0.5 * pairs.largest_key(np.zeros(pairs.dim))
    _, E = pairs.even(linear, b, size * z[::-1])
    noise = pairs.noise(size * float(np.linalg.norm(linear.total)) + abs(float(E[0])))
    return bool(np.abs(E[1:]).max() > SURE * noise)
