"""Random tokens that may be sent: Gaussian about the center of the limit, and within it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gradine.queries.asking.oracle import Oracle

__all__ = ["allowed_size", "gaussian_tokens", "pulled_in"]

Array = NDArray[np.float64]

BEYOND = 2.0  # entries of this many standard deviations must be allowed, or
BEYOND_NORM = 1.2  # norms of this many times the typical one; what lies beyond is pulled in


def allowed_size(oracle: Oracle, wanted: float = math.inf) -> float:
    """The standard deviation that entries of tokens may have, ``wanted`` at most.

    ``ValueError`` if the limit leaves no room at all.
    """
    entry, norm = oracle.largest_entry(), oracle.largest_norm()
    room = max(entry / BEYOND, norm / (BEYOND_NORM * math.sqrt(oracle.dim)))
    if room == 0.0:
        raise ValueError("the limit of the oracle leaves no room around its center")
    return min(room, wanted)


def pulled_in(oracle: Oracle, v: Array) -> Array:
    """Differences (..., d) from the center, shortened where the limit would not let them pass."""
    entry, norm = oracle.largest_entry(), oracle.largest_norm()
    if math.isinf(entry) and math.isinf(norm):
        return v
    tiny = np.finfo(float).tiny
    by_entry = entry / np.maximum(np.abs(v).max(axis=-1), tiny)
    by_norm = norm / np.maximum(np.linalg.norm(v, axis=-1), tiny)
    return v * np.minimum(np.maximum(by_entry, by_norm), 1.0)[..., None]


def gaussian_tokens(
    oracle: Oracle, rng: np.random.Generator, n: int, seq_len: int, size: float
) -> Array:
    """``n`` sequences (n, seq_len, d) about the center, with entries of about that size."""
    v = allowed_size(oracle, size) * rng.standard_normal((n, seq_len, oracle.dim))
    return oracle.center + pulled_in(oracle, v)
