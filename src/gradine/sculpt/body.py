"""The convex body: slabs, membership, chords, and the near-null space of the slabs.

A slab says |<x_r (x_j - x_l)^T, Theta> - log(v_j / v_l)| <= slack * sigma. Every head satisfies it
where all heads share the pattern v. With A the matrix of normals and b the offsets, the affine hull
of m heads is where A theta = b: in homogeneous coordinates (theta, 1) it is an m-dimensional
null space of [A, -b], and m is the number of near-zero singular values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gradine.examples.numbers import example_numbers
from gradine.sculpt.config import SculptConfig

__all__ = [
    "Body",
    "Hull",
    "affine_hull",
    "count_heads",
    "first_of_each",
    "plausible_counts",
    "slab_normals",
]

Array = NDArray[np.float64]


def slab_normals(queries: Array, differences: Array) -> Array:
    """The matrices x_r (x_j - x_l)^T as rows of length D d."""
    return (queries[:, :, None] * differences[:, None, :]).reshape(len(queries), -1)


def first_of_each(rows: Array) -> NDArray[np.intp]:
    """Indices, ascending, of the first of each group of rows that are equal up to sign."""
    leading = rows[np.arange(len(rows)), (rows != 0).argmax(axis=1)]
    signed = rows * np.where(leading < 0, -1.0, 1.0)[:, None]
    # By numbers: to compare whole rows takes most of the time of a merge.
    return np.sort(np.unique(example_numbers(signed), return_index=True)[1])


@dataclass(frozen=True, eq=False)
class Body:
    """All theta with |A theta - b| <= width."""

    A: Array  #: (K, p)
    b: Array  #: (K,)
    sigma: Array  #: (K,)
    slack: float  #: in units of sigma

    @property
    def width(self) -> Array:
        return self.slack * self.sigma

    def with_slack(self, slack: float) -> Body:
        return replace(self, slack=slack)

    def contains(self, theta: Array) -> bool:
        """The membership query."""
        return bool((np.abs(self.A @ theta - self.b) <= self.width).all())

    def chord(self, center: Array, direction: Array, halvings: int = 40) -> tuple[float, float]:
        """How far the body reaches from ``center`` along +direction and -direction.

        Found by membership queries alone: double until outside, then halve the bracket.
        """
        forward = self._reach(center, direction, halvings)
        return forward, self._reach(center, -direction, halvings)

    def _reach(self, center: Array, direction: Array, halvings: int) -> float:
        if not self.contains(center):
            raise ValueError("center lies outside the body; expected a point inside")
        inside, outside = 0.0, 1.0
        while outside < 1e9 and self.contains(center + outside * direction):
            inside, outside = outside, 2.0 * outside
        for _ in range(halvings):
            middle = (inside + outside) / 2.0
            if self.contains(center + middle * direction):
                inside = middle
            else:
                outside = middle
        return inside


@dataclass(frozen=True, eq=False)
class Hull:
    """An affine subspace {base + directions^T c} and the spectrum it was read from."""

    base: Array  #: (p,) the point nearest to zero
    directions: Array  #: (m - 1, p) orthonormal
    spectrum: Array  #: all singular values of [A, -b], ascending, over their median
    misfit: Array  #: (K,) how much each slab contradicts the hull


def affine_hull(
    A: Array, b: Array, sigma: Array, heads: int, kept: NDArray[np.bool_] | None = None
) -> Hull:
    """The affine hull of ``heads`` points that fits the slabs best, each in units of its sigma."""
    use = np.ones(len(b), dtype=bool) if kept is None else kept
    # The offsets are scaled like the other columns; otherwise the direction of the hull's own
    # base point, in which certified slabs are short by selection, would pass for a head.
    unit = np.sqrt(np.mean(A[use] ** 2) / max(float(np.mean(b[use] ** 2)), 1e-300))
    homogeneous = np.concatenate([A, -unit * b[:, None]], axis=1) / sigma[:, None]
    squares, vectors = np.linalg.eigh(homogeneous[use].T @ homogeneous[use])
    values = np.sqrt(np.maximum(squares, 0.0))
    null = vectors[:, :heads]
    base, directions = _affine_coordinates(null, unit)
    return Hull(
        base=base,
        directions=directions,
        spectrum=values / np.median(values),
        misfit=np.linalg.norm(homogeneous @ null, axis=1),
    )


def _affine_coordinates(null: Array, unit: float) -> tuple[Array, Array]:
    """From a basis of (theta, 1 / unit)-vectors to a base point and directions."""
    heads = null.shape[1]
    # Rotate the basis so that only its first vector has a last coordinate.
    first = null[-1] / np.linalg.norm(null[-1])
    rotation = np.linalg.qr(np.column_stack([first, np.eye(heads)]))[0]
    rotated = null @ rotation
    base = rotated[:-1, 0] / (unit * rotated[-1, 0])
    directions = np.linalg.qr(rotated[:-1, 1:])[0].T
    return base - directions.T @ (directions @ base), directions


def plausible_counts(spectrum: Array, config: SculptConfig) -> list[int]:
    """How many of the smallest singular values are apart from the bulk, likeliest first.

    A count ends at a gap, among values clearly below the bulk's edge; the widest gap comes first,
    and others follow if they are wide too. Values that are zero for all purposes are alike,
    however many orders of magnitude lie between them.
    """
    most = min(config.most_heads, len(spectrum) - 2)
    if most < 1:  # a single unknown: there is no bulk to be apart from
        return [1]
    values = np.maximum(spectrum[: most + 1], config.negligible)
    gaps = np.where(values[:-1] < config.hull_edge * values[-1], values[1:] / values[:-1], 0.0)
    order = np.argsort(-gaps, kind="stable")
    widest = order[0]
    # A faint head is a small gap above a wide one; below it, only one about as wide means much.
    enough = np.where(np.arange(most) > widest, config.faint_gap, config.open_gap * gaps[widest])
    return [int(i) + 1 for i in order if gaps[i] > max(0.0, min(enough[i], gaps[widest] * 0.999))]


def count_heads(spectrum: Array, config: SculptConfig) -> int:
    """The likeliest count; 0 if nothing is apart from the bulk."""
    return next(iter(plausible_counts(spectrum, config)), 0)
