"""Find the outputs that a head writes to: parts of the outputs that grow and shrink together.

A head of rank r writes to r directions of the outputs. How far its attention is from what is linear
in the tokens differs from row to row, and is a matter of that head alone: the sizes of two parts of
what it writes go up and down together, those of two heads hardly do. So its space is one of r
directions, whitened, in which

    E[ g(|P e|) e e^T ],      g increasing, with mean zero

is largest on the span of P itself (independent subspace analysis). Rounds that replace P by the r
leading eigenvectors of this matrix settle there, from a random direction. Nothing is asked of the
tokens: they may be those of real text.

Rows e are taken of length one first. Else a few rows in which everything is large decide alone.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Space", "find_spaces"]

Array = NDArray[np.floating]

WHOLE = 3  # rounds at last, of all spaces together and with all rows
SOME = 48  # rows for each output, and at least so many, that show a space well enough to begin
LEAST = 16384


class Space(NamedTuple):
    """Outputs of a head: ``outputs @ read`` is what it writes, times ``write``."""

    read: Array  #: (q, r)
    write: Array  #: (r, q)


def find_spaces(
    R: Array, count: int, rank: int, *, starts: int, rounds: int, rng: np.random.Generator
) -> list[Space]:
    """At most ``count`` spaces of ``rank`` <= q directions of a residual R (rows, q).

    Only the directions count in which most is left: the others are those of heads that are found.
    Of so many ``starts`` the clearest is taken, and the next is looked for in what is orthogonal to
    those before: of whitened outputs, heads have nearly orthogonal ones. Two that were found as
    mixtures of each other part within what they span. At last all are led together.
    """
    rows, whiten, restore = _whitened(R, count * rank)
    some = rows[:: max(1, len(rows) // max(SOME * rows.shape[1], LEAST))]
    found: list[Array] = []
    free = np.eye(rows.shape[1], dtype=R.dtype)
    while len(found) < count and free.shape[1] >= rank:
        part = some @ free
        tries = (_settled(part, rank, rounds, rng) for _ in range(starts))
        found.append(max(tries, key=lambda settled: settled[1])[0] @ free.T)
        taken = np.concatenate(found)
        free = np.linalg.svd(taken)[2][len(taken) :].T
    for i, j in itertools.combinations(range(len(found)), 2):
        found[i], found[j] = _parted(some, found[i], found[j], rounds, rng)
    for _ in range(WHOLE):
        led = np.concatenate([_leading(rows, basis, rank)[0] for basis in found])
        left, _, right = np.linalg.svd(led, full_matrices=False)
        found = np.split(left @ right, len(found))
    return [Space(whiten @ p.T, p @ restore) for p in found]


def _whitened(R: Array, most: int) -> tuple[Array, Array, Array]:
    """Rows of length one in at most so many directions, the largest, as uncorrelated numbers of
    mean square 1; the matrix (q, p) that makes these of outputs, and the one (p, q) that undoes it.
    """
    covariance = (R.T @ R).astype(np.float64)
    strongest = np.linalg.eigh(covariance)[1][:, -most:]
    rows = R @ strongest.astype(R.dtype)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(R.dtype).tiny)
    values, vectors = np.linalg.eigh((rows.T @ rows).astype(np.float64) / len(rows))
    size = np.sqrt(np.maximum(values, np.finfo(R.dtype).eps * values[-1]))
    whiten, restore = (vectors / size).astype(R.dtype), (vectors * size).T.astype(R.dtype)
    return rows @ whiten, strongest.astype(R.dtype) @ whiten, restore @ strongest.T.astype(R.dtype)


def _settled(rows: Array, rank: int, rounds: int, rng: np.random.Generator) -> tuple[Array, float]:
    """A space that the rounds come to, and how clear it is; it grows from a single direction."""
    direction = rng.standard_normal((1, rows.shape[1]))
    basis, clear = (direction / np.linalg.norm(direction)).astype(rows.dtype), 0.0
    for done in range(rounds):
        basis, clear = _leading(rows, basis, min(rank, 2 << done))
    return basis, clear


def _parted(
    rows: Array, one: Array, other: Array, rounds: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Two spaces within what both span, clearer than these where there are such."""
    rank, both = len(one), np.concatenate([one, other])
    part, identity = rows @ both.T, np.eye(2 * rank, dtype=rows.dtype)
    before = sum(_leading(part, basis, rank)[1] for basis in np.split(identity, 2))
    basis, clear = _settled(part, rank, rounds, rng)
    rest = np.linalg.svd(basis)[2][rank:]
    if clear + _leading(part, rest, rank)[1] <= before:
        return one, other
    return basis @ both, rest @ both


def _leading(rows: Array, basis: Array, rank: int) -> tuple[Array, float]:
    """The ``rank`` directions that are largest where those of ``basis`` are, and by how much."""
    sizes = np.linalg.norm(rows @ basis.T, axis=1)
    sizes -= sizes.mean()
    sizes /= max(float(sizes.std()), np.finfo(rows.dtype).tiny)
    values, vectors = np.linalg.eigh((rows * sizes[:, None]).T @ rows / len(rows))
    return vectors[:, -rank:].T, float(values[-rank:].sum())
