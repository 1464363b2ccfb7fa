"""Heads fitted to answers about pairs, whose query token is the same: small dense least squares.

    y = c + sum_h <v_h, b + sigma(<u_h, a> + log copies) a>

Seen from the first token, all of u_h, v_h and c are unknown. From any other one only u_h is. Half
of the keys come in two copies: with one copy alone, (u_h, v_h) and (-u_h, -v_h) beside a head that
averages are the same function, and heads whose u_h are opposite could not be told apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine.queries.scalar.pairs import Linear, Pairs
from gradine.solvers.dense import dense_least_squares

__all__ = ["Answers", "FittedView", "accepted", "ask_pairs", "fit_keys", "fit_view", "spread_keys"]

Array = NDArray[np.float64]

LOGIT = 2.0  # standard deviation of the logits of a head, at keys that are meant for it
ACCEPTED = 30.0  # standard deviations of the noise that a fit may leave: wrong heads leave far more
EXACT = 1e-10  # the same, relative to what keys change of the answers: rounding of the fit itself


class Answers(NamedTuple):
    """What was asked about pairs, and answered; a = 0 stands for a single token."""

    b: Array  #: (n, d)
    a: Array  #: (n, d)
    y: Array  #: (n,)
    copies: Array  #: (n,)

    def part(self, i: int, of: int) -> Answers:
        """Part i of so many equal ones."""
        size = len(self.y) // of
        return Answers(*(values[i * size : (i + 1) * size] for values in self))

    def joined(self, other: Answers) -> Answers:
        return Answers(*(np.concatenate(both) for both in zip(self, other, strict=True)))

    def with_tokens(self, linear: Linear) -> Answers:
        """And those to single tokens, which say what the v_h add up to."""
        one = np.ones(len(linear.answers))
        alone = (linear.tokens, np.zeros_like(linear.tokens), linear.answers, one)
        return Answers(*alone).joined(self)


class FittedView(NamedTuple):
    u: Array  #: (m, d)
    v: Array  #: (m, d)
    offset: float
    residual: float  #: root mean square


def spread_keys(pairs: Pairs, b: Array, u: Array, count: int, rng: np.random.Generator) -> Array:
    """Gaussian keys, each of a size at which some head is on its slope: (count, d)."""
    norms = np.linalg.norm(u, axis=1)
    typical = float(np.median(norms)) or 1.0
    sizes = LOGIT / np.where(norms > 1e-6 * typical, norms, typical)
    A = rng.permuted(np.resize(sizes, count))[:, None] * rng.standard_normal((count, pairs.dim))
    room = 0.999 * pairs.oracle.largest_norm(b)
    return A * np.minimum(1.0, room / np.linalg.norm(A, axis=1, keepdims=True))


def ask_pairs(pairs: Pairs, b: Array, A: Array, copies: int = 1) -> Answers:
    """Ask, and keep what was asked; ``b`` is one token, or one for each key."""
    sent, y = pairs.ask(b, A, copies)
    return Answers(np.broadcast_to(b, A.shape), sent, y, np.full(len(y), float(copies)))


def accepted(pairs: Pairs, linear: Linear, seen: Answers) -> float:
    """The largest residual of heads that explain such answers."""
    alone = linear.offset + seen.b @ linear.total
    return max(ACCEPTED * pairs.noise(_rms(seen.y)), EXACT * _rms(seen.y - alone))


def fit_view(seen: Answers, u: Array, v: Array, offset: float) -> FittedView:
    """u_h, v_h and c, from a start."""
    m, d = u.shape
    n = len(seen.y)

    def parts(x: Array) -> tuple[Array, Array]:
        return x[: m * d].reshape(m, d), x[m * d : -1].reshape(m, d)

    def problem(x: Array) -> tuple[Array, Callable[[], Array]]:
        u, v = parts(x)
        weights, slopes = _weights(seen, u)
        along = seen.a @ v.T

        def jacobian() -> Array:
            over_u = (slopes * along)[:, :, None] * seen.a[:, None]
            over_v = seen.b[:, None] + weights[:, :, None] * seen.a[:, None]
            pieces = [over_u.reshape(n, -1), over_v.reshape(n, -1), np.ones((n, 1))]
            return np.concatenate(pieces, axis=1)

        predicted = x[-1] + seen.b @ v.sum(axis=0) + np.sum(weights * along, axis=1)
        return predicted - seen.y, jacobian

    start = np.concatenate([u.ravel(), v.ravel(), [offset]])
    found = dense_least_squares(problem, start)
    return FittedView(*parts(found.x), float(found.x[-1]), found.residual)


def fit_keys(seen: Answers, u: Array, v: Array, offset: float) -> tuple[Array, float]:
    """u_h alone, from a start, and the root mean square residual."""
    along = seen.a @ v.T
    linear = offset + seen.b @ v.sum(axis=0)

    def problem(x: Array) -> tuple[Array, Callable[[], Array]]:
        weights, slopes = _weights(seen, x.reshape(u.shape))

        def jacobian() -> Array:
            return ((slopes * along)[:, :, None] * seen.a[:, None]).reshape(len(seen.y), -1)

        return linear + np.sum(weights * along, axis=1) - seen.y, jacobian

    found = dense_least_squares(problem, u.ravel(), one_unit=True)
    return found.x.reshape(u.shape), found.residual


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _weights(seen: Answers, u: Array) -> tuple[Array, Array]:
    """sigma and its derivative, (n, m)."""
    t = np.tanh(0.5 * (seen.a @ u.T + np.log(seen.copies)[:, None]))
    return 0.5 * (1.0 + t), 0.25 * (1.0 - t * t)
