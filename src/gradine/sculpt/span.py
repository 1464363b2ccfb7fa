"""Phase 5: the affine hull of the attention matrices [CL25, phase 5].

The body is thin in every direction but the m - 1 of the hull. Two ways to find them:

*Chords.* The longest chord through the center of the body, then the longest one orthogonal to it,
and so on. With gauge(u) = max_i |a_i u| / width_i a chord has length 1 / gauge(u) on either side,
so a longest chord minimises the gauge over the sphere; each step solves

    min_u gauge(u)   <g, u> = 1

for the current direction g (a linear program: how far does the body reach in direction g?), and
takes the answer as the next g. Lengths are then measured by membership queries.

*Spectrum.* The same with the 2-norm |A u| in place of the gauge is inverse power iteration, whose
limit is the smallest right singular vector: the near-null space of [A, -b] is the hull, all at
once, and its dimension is the number of heads.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from gradine.sculpt.body import Body, affine_hull, count_heads
from gradine.sculpt.config import SculptConfig
from gradine.sculpt.results import Span
from gradine.solvers.convex import farthest_point

__all__ = ["longest_chords", "span_of_heads"]

Array = NDArray[np.float64]


def span_of_heads(
    body: Body, center: Array, proxy: Array, heads: int, config: SculptConfig, seed: int
) -> Span:
    """The hull of ``heads`` heads, and how far the body reaches along it.

    ``center`` (D, d) is the deepest point of the body and ``proxy`` (D, d) its minimum-norm point.
    """
    began = time.perf_counter()
    shape, inside = center.shape, center.ravel()
    m = heads
    hull = affine_hull(body.A, body.b, body.sigma, m)
    spectrum = hull.spectrum
    wide = _CountingBody(body.with_slack(config.hull_slack * body.slack))
    reach = [wide.chord(inside, direction) for direction in hull.directions]
    chords, lengths = np.zeros((0, inside.size)), np.zeros(0)
    agreement: float | None = None
    if config.chords:
        rng = np.random.default_rng(seed)
        chords, lengths = longest_chords(wide, inside, proxy.ravel(), m, config.chord_steps, rng)
        chords = chords[: m - 1]
        if m > 1:
            agreement = float(np.linalg.svd(chords @ hull.directions.T, compute_uv=False).min())
    return Span(
        base=hull.base.reshape(shape),
        directions=hull.directions.reshape(m - 1, *shape),
        heads=m,
        counted=count_heads(spectrum, config),
        spectrum=spectrum[: config.most_heads + 4],
        gap=float(spectrum[m] / max(spectrum[m - 1], 1e-12)),
        reach=np.array(reach).reshape(m - 1, 2),
        chord_directions=chords.reshape(len(chords), *shape),
        chord_lengths=lengths,
        chord_agreement=agreement,
        queries=wide.queries,
        seconds=time.perf_counter() - began,
    )


def longest_chords(
    body: Body,
    center: Array,
    proxy: Array,
    count: int,
    steps: int,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """``count`` orthonormal directions (count, p) of long chords, and the chords' lengths.

    All are orthogonal to the proxy: the point of an affine subspace nearest to zero is orthogonal
    to the subspace's directions.
    """
    found = [proxy / max(np.linalg.norm(proxy), 1e-300)]
    lengths = []
    for _ in range(count):
        basis = np.array(found)
        direction = _unit_outside(rng.standard_normal(center.size), basis)
        for _ in range(steps):
            ends = [
                farthest_point(body.A, body.b, body.width, sign * direction, basis, center)
                for sign in (1.0, -1.0)
            ]
            direction = _unit_outside(ends[0] - ends[1], basis)
        lengths.append(sum(body.chord(center, direction)))
        found.append(direction)
    return np.array(found[1:]).reshape(count, center.size), np.array(lengths)


def _unit_outside(vector: Array, basis: Array) -> Array:
    vector = vector - basis.T @ (basis @ vector)
    vector = vector - basis.T @ (basis @ vector)  # twice is enough
    return vector / np.linalg.norm(vector)


class _CountingBody(Body):
    """A body that counts the membership queries it is asked."""

    def __init__(self, body: Body) -> None:
        super().__init__(body.A, body.b, body.sigma, body.slack)
        object.__setattr__(self, "queries", 0)

    queries: int

    def contains(self, theta: Array) -> bool:
        object.__setattr__(self, "queries", self.queries + 1)
        return super().contains(theta)
