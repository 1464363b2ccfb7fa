"""Tokens and outputs in units of their own, so that no size of theirs matters to a fit.

A start, a penalty and single precision all mean something only next to the size of the tokens. So
tokens that are neither +-1 nor standard Gaussian are multiplied by S^(-1/2), S their second
moments, and become as isotropic as they can; what the tokens never show is left out. Heads go back
by Theta = B Theta' B^T, W = B W' u, with B the basis and u the unit of the outputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine.examples import FittingData
from gradine.examples.numbers import example_numbers

__all__ = ["Units", "measure"]

Array = NDArray[np.float64]

UNSEEN = 1e-12  # second moment, of coordinates of size 1, below which a direction never shows
FOLLOWED = 100_000  # sequences whose repetitions are counted
CONSTANT = 1e-10  # relative square by which a combination of coordinates that is constant may vary


@dataclass(frozen=True, eq=False)
class Units:
    """What one pass over the examples says of their size."""

    basis: Array | None  #: (D, D) tokens are multiplied by it; None: they are as they should be
    unit: float  #: of the outputs, a power of two
    distinct: int  #: sequences that differ; beyond 100,000 of them, nearly
    blind: str  #: what the tokens can never show, in words; empty: nothing
    silent: bool  #: all outputs are zero

    def apply(self, data: FittingData) -> FittingData:
        return replace(data, basis=self.basis, unit=self.unit)

    def theta(self, theta: Array) -> Array:
        """Attention matrices (m, D, d), or changes of them, for tokens as they came."""
        if self.basis is None:
            return theta
        keys = self.basis[: theta.shape[2], : theta.shape[2]]
        return self.basis @ theta @ keys.T

    def rounding(self, X: Array) -> Array:
        """By how much tokens X in these units are off: they are rounded sums."""
        if self.basis is None:
            return np.zeros_like(X)
        as_they_came = X @ np.linalg.pinv(self.basis)
        return np.finfo(float).eps * (np.abs(as_they_came) @ np.abs(self.basis))

    def w(self, w: Array) -> Array:
        return self.unit * (w if self.basis is None else self.basis @ w)


def measure(data: FittingData, isotropic: bool) -> Units:
    """``isotropic`` says that the tokens are known to be uniform on +-1 or standard Gaussian."""
    sums = data.reduce(_sums, _merged, _Sums)
    moments = sums.moments / sums.moments[-1, -1]
    silent = sums.energy == 0.0
    unit = 1.0 if silent else 2.0 ** round(0.5 * math.log2(sums.energy / sums.size))
    basis = None if isotropic else _basis(moments[:-1, :-1], data.constant)
    blind = _blind(moments, data.constant)
    return Units(basis, unit, _distinct(sums, data.seq_len), blind, silent)


class _Sums(NamedTuple):
    """What is known of a block, or of several."""

    energy: float  #: |Y|^2
    size: int  #: numbers in Y
    moments: Array
    sequences: NDArray[np.uint64]  #: the smallest of the numbers that sequences have
    times: NDArray[np.int64]  #: how often each of these came


def _sums(X: Array, Y: Array) -> _Sums:
    rows = X.reshape(-1, X.shape[2])
    seen = _smallest(example_numbers(X), np.ones(len(X), np.int64))
    return _Sums(float(np.sum(Y * Y)), Y.size, _second_moments(rows), *seen)


def _merged(a: _Sums, b: _Sums) -> _Sums:
    seen = _smallest(np.concatenate([a.sequences, b.sequences]), np.concatenate([a.times, b.times]))
    return _Sums(a.energy + b.energy, a.size + b.size, a.moments + b.moments, *seen)


def _smallest(
    sequences: NDArray[np.uint64], times: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Those that differ, and how often each came: of all, or of a sample that is one whatever the
    order of the examples, as long as they are too many."""
    different, which = np.unique(sequences, return_inverse=True)
    total = np.zeros(len(different), np.int64)
    np.add.at(total, which, times)
    return different[:FOLLOWED], total[:FOLLOWED]


def _distinct(sums: _Sums, seq_len: int) -> int:
    """How many sequences differ: all over how often one comes, in the mean of those followed."""
    if len(sums.sequences) < FOLLOWED:
        return len(sums.sequences)
    return round(sums.moments[-1, -1] / seq_len / float(np.mean(sums.times)))


def _second_moments(rows: Array) -> Array:
    """Sums of products of the coordinates and 1, (D + 1, D + 1)."""
    first = rows.sum(axis=0)
    return np.block([[rows.T @ rows, first[:, None]], [first[None], np.full((1, 1), len(rows))]])


def _basis(moments: Array, constant: bool) -> Array:
    """S^(-1/2), zero where tokens show nothing; a constant coordinate stays what it is."""
    basis = np.eye(len(moments))
    d = len(moments) - constant
    correlations, size = _correlations(moments[:d, :d])
    values, vectors = np.linalg.eigh(correlations)
    seen = values > UNSEEN * values[-1]
    scale = np.where(seen, 1.0 / np.sqrt(np.where(seen, values, 1.0)), 0.0)
    basis[:d, :d] = (vectors * scale) @ vectors.T / size[:, None]
    return basis


def _correlations(moments: Array) -> tuple[Array, Array]:
    """Second moments of coordinates in units of their size, and that size; 1 where it is zero."""
    size = np.sqrt(np.diag(moments))
    size = np.where(size > 0.0, size, 1.0)
    return moments / np.outer(size, size), size


def _blind(moments: Array, constant: bool) -> str:
    """What no example of such tokens can show of a head."""
    d = len(moments) - 1 - constant
    correlations, size = _correlations(moments[:d, :d])
    values = np.linalg.eigvalsh(correlations)
    rank = int(np.sum(values > UNSEEN * values[-1]))
    if rank < d:
        return f"tokens of {d} coordinates span only {rank} dimensions"
    # The part of a constant 1 that no combination of the coordinates makes.
    mean = moments[:d, -1] / size
    if 1.0 - float(mean @ np.linalg.solve(correlations, mean)) < CONSTANT:
        return "a combination of the coordinates is constant"
    return ""
