"""The published way to learn heads from one visible number, in double precision.

[BKK26, KK26] n copies of a + b, then b:  y(n) = <b, V> + sum_h n / (n + e^{-s_h}) <a, v_h>, with
s_h = b^T Theta_h a: a rational function of n. Values at n = 1..2m determine it, its poles are the
heads, and its residues the <a, v_h>. Pairs of basis tokens give all s_h, and every pair but the
first has a second one, of a sum with a pair that is known, to say which pole belongs to which head:

    2m (2 d^2 - 1) + 1 = 4 m d^2 - 2 m + 1 queries, of 2m + 1 tokens at most.

This is our reconstruction: the function of n and the count are theirs, how poles are matched across
pairs is ours, and their own code is not public. In exact arithmetic this is all there is to it. The
linear system for the function and the roots of its denominator are ill-conditioned, and the loss
grows by more than a digit with every head.

[BKK26] Bhattamishra et al., arXiv 2601.16873. [KK26] Kim and Kim, arXiv 2608.03294.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine import AttentionLayer
from gradine.queries import Oracle

__all__ = ["learn_by_poles"]

Array = NDArray[np.float64]

LEAST_POLE = 1e-12  # e^{-s} that rounding has made negative: there is nothing left to save


class Found(NamedTuple):
    """What one pair shows, heads in any order."""

    logits: Array  #: (m,)
    shares: Array  #: <a, v_h>, (m,)

    def __add__(self, other: object) -> Found:
        """What the sum of two keys shows, if heads are in the same order."""
        assert isinstance(other, Found)
        return Found(self.logits + other.logits, self.shares + other.shares)


def learn_by_poles(oracle: Oracle, heads: int, seed: int) -> AttentionLayer:
    """The layer, with the number of heads given; tokens are such that logits are about the scale
    of the heads, which is where poles lie best apart."""
    d, rng = oracle.dim, np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0] * np.sqrt(d)
    first = float(oracle.ask(basis[:1, None])[0, 0, 0])  # <b_0, V>

    def pairs(b: Array, a: Array, constants: Array) -> list[Found]:
        return _all_poles(oracle, b, a, constants, heads)

    # Pairs with the first query token, and the sums of their keys with the first key.
    one, constants = np.repeat(basis[:1], d, axis=0), np.full(d, first)
    row = pairs(one, basis, constants)
    sums = pairs(one[1:], basis[1:] + basis[0], constants[1:])
    known = [row[0]]
    for found, both in zip(row[1:], sums, strict=True):
        known.append(_in_order(row[0], found, both, "key"))
    totals = np.array([found.shares.sum() for found in known])  # <a_i, V>, and so <b_j, V>
    # All others, and the sums of their query tokens with the first one.
    j, i = np.divmod(np.arange(d, d * d), d)
    rest = pairs(basis[j], basis[i], totals[j])
    sums = pairs(basis[j] + basis[0], basis[i], totals[j] + totals[0])
    logits = np.zeros((heads, d, d))  # by query and key
    logits[:, 0] = np.array([found.logits for found in known]).T
    for q, k, found, both in zip(j, i, rest, sums, strict=True):
        logits[:, q, k] = _in_order(known[k], found, both, "query").logits
    inverse = np.linalg.inv(basis)
    theta = inverse @ logits @ inverse.T
    v = np.array([found.shares for found in known]).T @ inverse.T
    return AttentionLayer(theta, v[:, :, None])


def _all_poles(oracle: Oracle, b: Array, a: Array, constants: Array, heads: int) -> list[Found]:
    """What each of the pairs (b, a) shows, by 2m queries each."""
    counts = np.arange(1, 2 * heads + 1)
    values = []
    for copies in counts:
        X = np.concatenate([np.repeat((a + b)[:, None], copies, axis=1), b[:, None]], axis=1)
        values.append(oracle.ask(X)[:, 0, 0] - constants)
    return [_poles(counts.astype(float), y) for y in np.array(values).T]


def _poles(n: Array, y: Array) -> Found:
    """y = n P(n) / Q(n), Q of degree m with leading coefficient 1: a linear system, and roots."""
    m = len(n) // 2
    unit = n[-1]
    powers = (n[:, None] / unit) ** np.arange(m + 1)
    system = np.concatenate([powers[:, 1:], -y[:, None] * powers[:, :m]], axis=1)
    solved = np.linalg.lstsq(system, y * powers[:, m], rcond=None)[0]
    roots = np.roots(np.concatenate([[1.0], solved[: m - 1 : -1]]))
    places = np.maximum(-unit * roots.real, LEAST_POLE)  # e^{-s}
    shares = np.linalg.lstsq(n[:, None] / (n[:, None] + places), y, rcond=None)[0]
    return Found(-np.log(places), shares)


def _in_order(known: Found, found: Found, both: Found, summed: str) -> Found:
    """Found heads in the order of the known ones; ``both`` shows the sum of the two pairs.

    A sum of keys adds logits and shares; a sum of query tokens adds logits, and leaves shares.
    """
    from scipy.optimize import linear_sum_assignment

    logits = known.logits[:, None] + found.logits
    if summed == "key":
        shares, apart = known.shares[:, None] + found.shares, 0.0
    else:
        shares, apart = (
            0.5 * (known.shares[:, None] + found.shares),
            np.abs(known.shares[:, None] - found.shares),
        )
    misfit = np.abs(logits[:, :, None] - both.logits) + np.abs(shares[:, :, None] - both.shares)
    order = linear_sum_assignment(misfit.min(axis=2) + apart)[1]
    return Found(found.logits[order], found.shares[order])
