"""Phases 2 and 4: certify matched attention patterns, and carve the body [CL25, phases 2 and 4].

For a row y of Y with query x_r, regress y on the rows of X W_hat with weights v in the simplex. If
all heads share the pattern v on that row, y = v X W; a small residual certifies that they nearly
do. Then every head satisfies

    x_r^T Theta (x_j - x_l) = log(v_j / v_l)   up to a slack,

for tokens j, l whose weights are not tiny. How far off the logarithm can be follows from the
residual: with the covariance C of the weights, its predicted error is

    sigma = residual / sqrt(min(d, d_out) - k + 1)
            * sqrt(C_jj / v_j^2 + C_ll / v_l^2 - 2 C_jl / (v_j v_l)).

The slabs with the smallest sigma are kept, as many as the body needs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine.engine import time_is_up
from gradine.examples import FittingData
from gradine.sculpt.body import affine_hull, count_heads, first_of_each, slab_normals
from gradine.sculpt.config import SculptConfig
from gradine.sculpt.results import Sculpted
from gradine.solvers.convex import elastic_slack
from gradine.solvers.simplex import affine_regression, simplex_regression
from gradine.status import NotLearned, Status

__all__ = ["Screening", "Slabs", "certified_slabs", "sculpt"]

Array = NDArray[np.float64]


class Slabs(NamedTuple):
    """The tightest slabs of some blocks, and what was seen on the way."""

    queries: Array
    differences: Array
    offsets: Array
    sigma: Array
    residual: Array  #: relative residual of the row each slab came from
    rows: int
    screened: int
    informative: int

    @property
    def kept(self) -> int:
        return len(self.sigma)

    def tightest(self, count: int) -> Slabs:
        """The ``count`` slabs of smallest sigma, each normal once: short tokens repeat."""
        order, looked_at = np.argsort(self.sigma, kind="stable"), 2 * count
        while True:  # rows are slow to sort, and few of them are the same
            some = order[:looked_at]
            pairs = np.concatenate([self.queries[some], self.differences[some]], axis=1)
            first = first_of_each(pairs)[:count]
            if len(first) == count or looked_at >= len(order):
                break
            looked_at *= 2
        return self._chosen(some[first])

    def merge(self, other: Slabs, count: int) -> Slabs:
        seen = {name: getattr(self, name) + getattr(other, name) for name in self._fields[5:]}
        if self.kept == count:  # what is wider than all of these never comes in
            other = other._chosen(np.flatnonzero(other.sigma < self.sigma.max()))
            if not other.kept:
                return self._replace(**seen)
        pairs = zip(self._fields[:5], self[:5], other[:5], strict=True)
        both = {name: np.concatenate([a, b]) for name, a, b in pairs}
        return self._replace(**both, **seen).tightest(count)

    def _chosen(self, which: NDArray[np.intp]) -> Slabs:
        return self._replace(**{name: getattr(self, name)[which] for name in self._fields[:5]})


def sculpt(
    data: FittingData, sum_of_projections: Array, config: SculptConfig, heads: int | None
) -> Sculpted:
    """Certify rows with an estimate of W = sum_i W_i, and carve the body from the best."""
    began = time.perf_counter()
    k, outputs, unknowns = data.seq_len, data.out_dim, data.unknowns
    # Rows of X W span no more than d dimensions; k tokens must leave some of them for a misfit.
    if outputs <= k or data.dim < k:
        detail = f"{k} tokens of {data.dim} coordinates against {outputs} output coordinates"
        raise NotLearned(Status.TOO_MANY_TOKENS, detail)
    wanted = int(config.slabs_per_unknown * unknowns)
    screen = Screening(sum_of_projections, data.dim, wanted, config)
    slabs = _screen(data, screen)
    _check_enough(slabs, unknowns, config, data.examples.n)
    A, b = slab_normals(slabs.queries, slabs.differences), slabs.offsets
    # A few residuals are small by luck; slabs of such weight would hide all others.
    sigma = np.maximum(slabs.sigma, config.least_sigma_share * np.median(slabs.sigma))
    kept, spectrum = _agreeing(A, b, sigma, heads, config)
    slack, center = elastic_slack(A[kept], b[kept], sigma[kept])
    return Sculpted(
        queries=slabs.queries[kept],
        differences=slabs.differences[kept],
        offsets=b[kept],
        sigma=sigma[kept],
        center=center.reshape(data.width, data.dim),
        feasible_slack=max(slack, 1e-12),
        spectrum=spectrum[: config.most_heads + 4],
        residual=float(np.median(slabs.residual[kept])),
        rows=slabs.rows,
        slabs=int(np.sum(kept)),
        informative=slabs.informative / max(slabs.screened, 1),
        dropped=int(np.sum(~kept)),
        examples=slabs.rows // k,
        seconds=time.perf_counter() - began,
    )


def _screen(data: FittingData, screen: Screening) -> Slabs:
    """The tightest slabs of all examples, or of as many as make the body smaller."""
    config, until, slabs = screen.config, data.share_of_time(), None
    for leg in data.legs(config.first_leg):
        found = leg.reduce(screen, screen.merged, Slabs, until=until)
        before, slabs = slabs, found if slabs is None else screen.merged(slabs, found)
        if time_is_up(until):
            break
        # Until there are as many as wanted, more examples give more slabs, not tighter ones.
        if before is not None and before.kept == screen.wanted:
            tighter = float(np.median(slabs.sigma) / np.median(before.sigma))
            if tighter > 1.0 - config.shrinking:
                break
    assert slabs is not None
    return slabs


@dataclass(frozen=True, eq=False)
class Screening:
    """What is done with every block: its tightest slabs, and the tightest of all."""

    W: Array  #: an estimate of sum_i W_i
    dim: int
    wanted: int
    config: SculptConfig

    def __call__(self, X: Array, Y: Array) -> Slabs:
        return certified_slabs(X, Y, self.W, self.dim, self.wanted, self.config)

    def merged(self, a: Slabs, b: Slabs) -> Slabs:
        return a.merge(b, self.wanted)


def certified_slabs(
    X: Array, Y: Array, W: Array, dim: int, wanted: int, config: SculptConfig
) -> Slabs:
    """The ``wanted`` tightest slabs of a block of examples."""
    n, k, _ = X.shape
    Z = X @ W
    affine = affine_regression(Z, Y)
    size = np.maximum(np.linalg.norm(Y, axis=-1), np.finfo(float).tiny)
    relative = (affine.residual / size).ravel()
    spread = (np.partition(affine.weights, k - 2, axis=-1)[..., -2] >= config.least_weight).ravel()
    count = min(n * k, max(int(config.screened_share * n * k), 4 * wanted))
    fitting = spread[np.argpartition(relative, count - 1)[:count]]
    # Where attention is sharp, rows that look at one token fit best, and say nothing.
    best = np.argpartition(np.where(spread, relative, np.inf), count - 1)[:count]
    best = np.sort(best[spread[best]])
    example, row = np.unravel_index(best, (n, k))

    v, residual = simplex_regression(Z[example], Y[example, row])
    top = v.argmax(axis=1)
    heavy = v >= config.least_weight
    heavy[np.arange(len(best)), top] = False
    which, j = np.nonzero(heavy)
    ex, r, t = example[which], row[which], top[which]
    distinct = (X[ex, j] != X[ex, t]).any(axis=1)  # equal tokens say nothing
    which, j, ex, r, t = (index[distinct] for index in (which, j, ex, r, t))
    v_j, v_t = v[which, j], v[which, t]
    C = affine.covariance
    variance = C[ex, j, j] / v_j**2 + C[ex, t, t] / v_t**2 - 2.0 * C[ex, j, t] / (v_j * v_t)
    noise = residual[which] / np.sqrt(min(dim, Y.shape[2]) - k + 1)
    return Slabs(
        queries=X[ex, r],
        differences=X[ex, j, :dim] - X[ex, t, :dim],
        offsets=np.log(v_j / v_t),
        sigma=np.maximum(noise * np.sqrt(np.maximum(variance, 0.0)), config.least_sigma),
        residual=residual[which] / size[ex, r],
        rows=n * k,
        screened=count,
        informative=int(fitting.sum()),
    ).tightest(wanted)


def _check_enough(slabs: Slabs, unknowns: int, config: SculptConfig, n: int) -> None:
    """Are there slabs enough, and do they come from rows that fit?"""
    found, needed = len(slabs.sigma), int(config.least_slabs_per_unknown * unknowns)
    misfit = float(np.median(slabs.residual)) if found else 1.0
    share = slabs.informative / max(slabs.screened, 1)
    detail = f"{found} informative rows among {slabs.rows}; {needed} are needed"
    if share < config.sharp_share and (found < needed or misfit > config.largest_sharp_residual):
        if found >= needed:
            detail = (
                f"{share:.1%} of the rows that fit best look at two tokens, "
                f"and those that do fit only to {misfit:.2g}"
            )
        raise NotLearned(Status.TOO_SHARP, detail)
    if found < needed:
        more = int(np.ceil(1.2 * n * needed / max(found, 1)))
        raise NotLearned(Status.TOO_FEW_PATTERNS, f"{detail}, which takes about {more} examples")


def _agreeing(
    A: Array, b: Array, sigma: Array, heads: int | None, config: SculptConfig
) -> tuple[NDArray[np.bool_], Array]:
    """Which slabs agree with the hull of the others, and the spectrum they leave.

    A few rows are certified although the heads differ there (their differences cancel in the
    output). Such a slab excludes the truth, and contradicts the rest along the hull.
    """
    kept = np.ones(len(b), dtype=bool)
    spectrum = affine_hull(A, b, sigma, 1).spectrum
    for _ in range(config.trimming_rounds):
        # Never more than the spectrum shows: a hull that is too large would bend to the slabs.
        seen = max(1, count_heads(spectrum, config))
        count = seen if heads is None else min(heads, seen)
        hull = affine_hull(A, b, sigma, count, kept)
        limit = config.contradiction * np.median(hull.misfit[kept])
        now = hull.misfit <= limit
        spectrum = hull.spectrum
        if (now == kept).all():
            break
        kept = now
    return kept, spectrum
