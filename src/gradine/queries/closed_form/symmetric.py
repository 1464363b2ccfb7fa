"""Symmetric sequences: every token together with its negative.

With tokens +-z_1 .. +-z_n, head h gives the query z the output

    sum_j sinh(s_j) z_j W_h / sum_j cosh(s_j),      s_j = (z + bias)^T Theta_h z_j.

For tokens of length delta the part that is odd in z is delta^3 z^T M(C) and terms of order
delta^5, delta^7, ..., where

    M(C) = sum_h Theta_h C W_h,      C = (1/n) sum_j z_j z_j^T.

So one sequence of 2 d tokens, asked at a few lengths and extrapolated to length zero, gives the
whole d x d_out matrix M(C): every row of the answers is used.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine.queries.closed_form.around import Around, rms
from gradine.status import NotLearned, Status

__all__ = ["Steps", "choose_steps", "measure_forms"]

Array = NDArray[np.float64]

MOST_LEVELS = 6
PILOT_PAIRS, PILOT_LENGTHS = 48, 16
SPREAD = 0.7  # of the logarithms of the tokens' lengths: C must differ between sequences
LONGEST = 1e8  # in units of a Gaussian token: attention that does not show by then is none
CURVED = 0.5  # share of the answers that is bent: longer tokens would say nothing more


class Steps(NamedTuple):
    """Lengths of the tokens at which a symmetric sequence is asked."""

    length: float  #: the largest; each of the others is smaller by the root of 2
    levels: int
    error: float  #: relative error of M(C) that can be expected

    def lengths(self) -> Array:
        return self.length * np.exp2(-0.5 * np.arange(self.levels, dtype=np.float64))


def extrapolation(levels: int) -> Array:
    """Weights of values at lengths 1, 2^-1/2, 2^-1, ... that remove so many even orders.

    >>> extrapolation(2)
    array([-1.,  2.])
    """
    squares = 2.0 ** -np.arange(levels)
    others = np.array([np.delete(squares, i) for i in range(levels)])
    return np.prod(others / (others - squares[:, None]), axis=1)


def choose_steps(around: Around, bias: Array, rng: np.random.Generator) -> Steps:
    """Lengths at which rounding and curvature together leave the least error, by a few questions.

    Answers at many lengths are extrapolated from each of them with ever more levels; what one
    level more changes, and what rounding makes of it, is the error of the choice.
    """
    Z = _tokens(min(PILOT_PAIRS, around.dim), around.dim, rng)
    longest = min(around.room, LONGEST * math.sqrt(around.dim)) / math.exp(SPREAD)
    length = min(1.0, longest)
    odd, noise = _odd(around, Z, bias, length)
    while length < longest:  # until answers are bent, or tokens may not be longer
        further = min(2.0 * length, longest)
        before, (odd, noise) = odd, _odd(around, Z, bias, further)
        grown = (further / length) ** 3
        length = further
        if rms(odd) > 10.0 * noise and rms(odd - grown * before) > CURVED * rms(odd):
            break
    if not rms(odd) > 3.0 * noise:
        detail = f"tokens up to {length:.2g} long do not show how heads attend"
        raise NotLearned(Status.NOTHING_TO_SEE, detail)
    lengths = length * 2.0 ** (-0.5 * np.arange(PILOT_LENGTHS))
    seen = [_odd(around, Z, bias, float(x)) for x in lengths]
    values = np.array([odd / x**3 for (odd, _), x in zip(seen, lengths, strict=True)])
    noises = np.array([noise / x**3 for (_, noise), x in zip(seen, lengths, strict=True)])
    best = Steps(length, 1, math.inf)
    for first in range(PILOT_LENGTHS - 1):
        for levels in range(1, min(MOST_LEVELS, PILOT_LENGTHS - first - 1) + 1):
            found, better = (
                np.tensordot(extrapolation(n), values[first : first + n], 1)
                for n in (levels, levels + 1)
            )
            rounding = np.linalg.norm(extrapolation(levels) * noises[first : first + levels])
            error = (rms(better - found) + rounding) / max(rms(better), 1e-300)
            if error < 0.7 * best.error:  # a level more must be worth its questions
                best = Steps(float(lengths[first]), levels, float(error))
    return best


def _tokens(count: int, dim: int, rng: np.random.Generator) -> Array:
    """Orthogonal tokens of lengths about 1."""
    lengths = np.exp(SPREAD * rng.uniform(-1.0, 1.0, count))
    return np.linalg.qr(rng.standard_normal((dim, count)))[0].T * lengths[:, None]


def _odd(around: Around, Z: Array, bias: Array, length: float) -> tuple[Array, float]:
    """The odd part of the answers to +-length z, and the noise in it."""
    Y = around.ask(around.tokens(length * np.concatenate([Z, -Z]))[None])[0]
    noise = around.noise(Y if Y.any() else bias) / math.sqrt(2.0)
    return (Y[: len(Z)] - Y[len(Z) :]) / 2.0, noise


def measure_forms(around: Around, steps: Steps, count: int, rng: np.random.Generator) -> Array:
    """M(C) for ``count`` matrices C of full rank: (count, d, d_out)."""
    d = around.dim
    forms = []
    for _ in range(count):
        Z = _tokens(d, d, rng)
        odd = 0.0
        for scale, weight in zip(steps.lengths(), extrapolation(steps.levels), strict=True):
            Y = around.ask(around.tokens(scale * np.concatenate([Z, -Z]))[None])[0]
            odd = odd + weight * (Y[:d] - Y[d:]) / (2.0 * scale**3)
        forms.append(np.linalg.solve(Z, odd))
    return np.array(forms)
