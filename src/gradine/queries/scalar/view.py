"""The heads as they are seen from one query token b: u_h = Theta_h^T b + g_h, and v_h.

Everything is read off large keys, where heads are told apart by their cliffs; see `cliffs`.

1. The cliffs of a half circle count the heads. Beside a cliff E is another linear form, and half
   the difference of the two forms is v_h; d - 2 queries in each cell make the forms of the plane
   those of all directions.
2. At a cliff all other heads look at one token still, and E = <rest, a> + t <v_h, a> gives
   t = tanh(<u_h, a> / 2). One query for each direction around it gives u_h.
3. (u_h, v_h) and (-u_h, -v_h) have the same E. A second copy of the key moves the weight towards
   it, and the answer moves by a positive multiple of <v_h, a>: that is the sign.

No search over heads, no poles and no roots: in double precision this leaves errors of 1e-9 or so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine.queries.scalar.cliffs import Cliffs, find_cliffs
from gradine.queries.scalar.pairs import Linear, Pairs

__all__ = ["Heads", "Scene", "cost_of_heads"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
#: Keys (n, d) and the head that each is meant for, to the keys as they were sent and t of the head.
Weights = Callable[[Array, Indices], tuple[Array, Array]]

WIDTH = 1e-5  # angle within which a cliff is found: two heads this near would be taken for one
WIDER = 1e-3  # the same for tokens of fewer than so many coordinates, where queries are few
MANY_COORDINATES = 6
STEEP = 1e9  # keys are so large that a cliff is narrower than that by about this factor
CANCEL = 1e-6  # the sum of the v_h, relative to what large keys show, below which it is zero
SLOPE = 4e3  # logits, for tokens and heads of ordinary size, of the angle that is resolved at least
ROOMY = 1e12  # a limit above this is none
SAMPLES = 2  # large keys that say how large answers are, and whether each head sees one token
SAME = 1e3  # standard deviations by which E / T may change with T where it does
ASIDE = 1e-3  # of a cell's width: going farther out of the plane could lead to another cell
ASIDE_NOISE = 0.3  # the same, for the fourth root of the noise: going not so far divides by less
SHRINK = 128.0  # keys become smaller by this factor until their answer lies on the slope
ON_SLOPE = 0.98  # |t| below which it does
FLAT = 1e-6  # 1 - |t| below which rounding is all that is left of the slope
SHORTER = 8.0  # a step that leaves the slope is tried again, shorter by this factor
TRIES = 6
EXTRA = 7  # queries for a head on top of 2 d: smaller keys, shorter steps, the sign


class Heads(NamedTuple):
    """Heads as one query token shows them."""

    b: Array  #: (d,)
    u: Array  #: (m, d)
    v: Array  #: (m, d)
    doubt: float = 0.0  #: what noise may do to the sum of the v_h


def cost_of_heads(heads: int, dim: int) -> int:
    """Queries that `Scene.heads` takes for so many cliffs, about."""
    return heads * (2 * dim + EXTRA)


class Scene:
    """A query token, and a frame of directions whose first two are the plane of the circle."""

    def __init__(self, pairs: Pairs, linear: Linear, rng: np.random.Generator) -> None:
        self.pairs, self.linear, d = pairs, linear, pairs.dim
        # Logits are products of both sizes: where keys have a limit, the token must be large, too.
        room = pairs.oracle.largest_norm()
        size = pairs.token_size if room > ROOMY else 0.5 * room
        b = rng.standard_normal(d)
        b = pairs.oracle.center + b * (size / np.linalg.norm(b))
        self.b = pairs.precision.representable(b)
        self.frame = np.linalg.qr(rng.standard_normal((d, d)))[0].T
        width = WIDTH if d >= MANY_COORDINATES else WIDER
        width = max(width, math.sqrt(pairs.resolution))
        self.size = min(STEEP / width, pairs.largest_key(self.b))
        #: Angle within which a cliff is found; it should not be less than its slope.
        self.width = max(width, SLOPE * math.sqrt(d) / (self.size * size))
        # Answers are as large as some v_h, and their sum V may be small: samples say how large.
        large, small = (self._even(size * self.frame[:SAMPLES])[1] / size for size in self._sizes)
        total = float(np.linalg.norm(linear.total))
        scale = total + math.sqrt(d) * float(np.abs(large).max())
        #: Whether the v_h add up to nothing: then cells where all heads agree look the same.
        self.cancelling = total < CANCEL * scale
        #: Standard deviation of E over the size of the keys, which rounding takes off the circle.
        noise = pairs.noise(self.size * scale) / self.size
        self.noise = 2.0 * math.hypot(noise, pairs.resolution * scale)
        #: Whether each head looks at one token: then E is linear, and its E / T that of other T.
        moved = np.abs(large - small) > SAME * self.noise
        self.saturated = bool(np.sum(moved) <= SAMPLES // 2)

    @property
    def _sizes(self) -> tuple[float, float]:
        return self.size, 0.5 * self.size

    def cliffs(self) -> Cliffs:
        return find_cliffs(
            lambda angles: self._even(self.size * self._circle(angles))[1] / self.size,
            self.noise,
            self.width,
        )

    def heads(self, cliffs: Cliffs) -> Heads:
        """What the cliffs show."""
        after = self._forms(cliffs)
        before = np.concatenate([-after[-1:], after[:-1]])
        v, rest = 0.5 * (after - before), 0.5 * (after + before)
        spots, u = self._slopes(cliffs, v, rest)
        signs = self._signs(spots, v)
        doubt = self.noise * math.sqrt(u.size) / float(self._aside(cliffs).min())
        return Heads(self.b, signs[:, None] * u, signs[:, None] * v, doubt)

    def brought_near(self, heads: Heads) -> Heads:
        """The same heads seen from a token of ordinary size, if they have no query bias.

        Keys that suit a large token are small, and most digits of the answers would be lost.
        """
        if self.linear.query_bias:
            return heads
        share = min(1.0, self.pairs.token_size / float(np.linalg.norm(self.b)))
        b = self.pairs.precision.representable(share * self.b)
        return Heads(b, share * heads.u, heads.v, heads.doubt)

    def _even(self, A: Array) -> tuple[Array, Array]:
        return self.pairs.even(self.linear, self.b, A)

    def _circle(self, angles: Array) -> Array:
        return np.cos(angles)[:, None] * self.frame[0] + np.sin(angles)[:, None] * self.frame[1]

    def _aside(self, cliffs: Cliffs) -> Array:
        """How far out of the plane the queries go that find the form of each cell."""
        return max(ASIDE, ASIDE_NOISE * self.noise**0.25) * cliffs.widths

    def _forms(self, cliffs: Cliffs) -> Array:
        """The linear form of the cell after each cliff, in all directions: (m, d)."""
        middles, aside = cliffs.after + 0.5 * cliffs.widths, self._aside(cliffs)
        inside, out = cliffs.forms @ self.frame[:2], self.frame[2:]
        A = self._circle(middles)[:, None] + aside[:, None, None] * out
        A, E = self._even(self.size * A.reshape(-1, self.pairs.dim))
        known = np.sum(A.reshape(len(inside), len(out), -1) * inside[:, None], axis=2)
        beyond = (E.reshape(known.shape) - known) / (self.size * aside[:, None])
        return inside + beyond @ out

    def _slopes(self, cliffs: Cliffs, v: Array, rest: Array) -> tuple[Array, Array]:
        """A key on the slope of each cliff, and u_h there: (m, d) and (m, d)."""
        angles = 0.5 * (cliffs.before + cliffs.after)
        centers, along = self._circle(angles), self._circle(angles + 0.5 * np.pi)

        def weights(A: Array, of: Indices) -> tuple[Array, Array]:
            A, E = self._even(A)
            along = np.sum(A * v[of], axis=1)
            return A, (E - np.sum(A * rest[of], axis=1)) / np.where(along == 0.0, np.inf, along)

        # Smaller keys until the answer lies on the slope.
        sizes, t, spots = np.full(len(v), self.size), np.ones(len(v)), np.zeros_like(v)
        steep = np.arange(len(v))
        while len(steep) and sizes.min() > 1.0 / self.size:
            sizes[steep] /= SHRINK
            spots[steep], t[steep] = weights(sizes[steep, None] * centers[steep], steep)
            steep = steep[np.abs(t[steep]) > ON_SLOPE]
        logits = _logit(t)
        # Along the circle first: that says how far to go in other directions.
        steps = sizes * (cliffs.after - cliffs.before) / SHORTER
        tangent = _derivatives(weights, spots, logits, along[:, None], steps)[:, 0]
        steps = 1.0 / (np.maximum(np.abs(tangent), 1.0 / self.size) * np.sqrt(0.5 * self.pairs.dim))
        out = np.repeat(self.frame[None, 2:], len(v), axis=0)
        beyond = _derivatives(weights, spots, logits, out, steps)
        # <u, spot> is the logit itself, which leaves next to nothing along the spot.
        u = tangent[:, None] * along + (logits / sizes)[:, None] * centers
        return spots, u + beyond @ self.frame[2:]

    def _signs(self, spots: Array, v: Array) -> Array:
        """+1 where v_h has the sign that was taken, -1 where the other."""
        once, twice = (self.pairs.ask(self.b, spots, copies)[1] for copies in (1, 2))
        return np.where((twice - once) * np.sum(v * spots, axis=1) >= 0.0, 1.0, -1.0)


def _derivatives(
    weights: Weights, spots: Array, logits: Array, directions: Array, steps: Array
) -> Array:
    """<u_h, direction> for directions (m, p, d), by differences of logits: (m, p)."""
    lengths = np.repeat(steps[:, None], directions.shape[1], axis=1)
    found = np.full_like(lengths, np.nan)
    for _ in range(TRIES):
        h, i = _where(np.isnan(found))
        if len(h) == 0:
            break
        A, t = weights(spots[h] + lengths[h, i, None] * directions[h, i], h)
        moved = np.sum((A - spots[h]) * directions[h, i], axis=1)
        fine = (1.0 - np.abs(t) > FLAT) & (moved != 0.0)
        found[h[fine], i[fine]] = ((_logit(t) - logits[h]) / np.where(fine, moved, 1.0))[fine]
        lengths[h, i] /= SHORTER
    return np.nan_to_num(found)


def _where(mask: NDArray[np.bool_]) -> tuple[Indices, Indices]:
    """Row and column of every entry that is set."""
    flat = np.flatnonzero(mask)
    return flat // mask.shape[1], flat % mask.shape[1]


def _logit(t: Array) -> Array:
    """s with tanh(s / 2) = t."""
    return 2.0 * np.arctanh(np.clip(t, -1.0 + 1e-12, 1.0 - 1e-12))
