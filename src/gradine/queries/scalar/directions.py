"""From the heads that one token shows to whole matrices: other tokens, near the first.

u_h is affine in the query token. At b + step it has changed by Theta_h^T step, and with v_h known
the old u_h is where least squares begin: near enough for a short step, so that no start fails.
One token for each direction gives Theta_h, and each is a problem of m d unknowns of its own.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradine.queries.scalar.pair_fit import Answers, accepted, ask_pairs, fit_keys, spread_keys
from gradine.queries.scalar.pairs import Linear, Pairs
from gradine.status import NotLearned, Status

__all__ = ["FAR", "NEAR", "Base", "Directions", "ask_directions"]

Array = NDArray[np.float64]

NEAR = 0.1  # length of a step, in ordinary tokens: no fit of some thousand began too far away
FAR = 1.0  # the same where answers are rounded: noise is divided by the step
NEARER = 0.25  # a fit that fails begins again with a step shorter by this factor


@dataclass(frozen=True, eq=False)
class Directions:
    """The attention of the heads."""

    theta: Array  #: (m, d, d)
    query_bias: Array  #: g_h, (m, d); zero where there is none
    residual: float  #: the largest of all directions, root mean square
    again: int  #: directions that needed a shorter step
    queries: int  #: of the learner so far
    seconds: float


@dataclass(frozen=True, eq=False)
class Base:
    """The heads as the first token shows them."""

    b: Array
    u: Array
    v: Array
    offset: float


def ask_directions(
    pairs: Pairs, linear: Linear, base: Base, counts: dict[float, int], spare: int, seed: int
) -> Directions:
    """Theta_h, and g_h if there is a query bias.

    ``counts`` says how many keys are asked at each length of a step, from short to long; ``spare``
    queries are left for directions that need a shorter one.
    """
    began, d = time.perf_counter(), pairs.dim
    walk = _Walk(pairs, linear, base, seed)
    steps, residuals, again, before = walk.frame, np.zeros(1), 0, 1.0
    changes = np.zeros((len(walk.frame), *base.u.shape))
    for length, count in counts.items():
        starts = changes * (length / before)  # u_h is affine
        steps, seen = walk.ask(walk.frame, length, count)
        changes, residuals, bad = walk.fit(seen, starts)
        failed = np.flatnonzero(bad)
        if 0 < len(failed) * count <= spare:
            again, spare = again + len(failed), spare - len(failed) * count
            near = walk.ask(walk.frame[failed], NEARER * length, count)[1]
            starts = walk.fit(near, NEARER * starts[failed])[0] / NEARER
            found = walk.fit([seen[i] for i in failed], starts)
            changes[failed], residuals[failed], bad[failed] = found
        if bad.any():
            which = f"{int(bad.sum())} of {len(bad)} directions"
            detail = f"{which} are not explained by {len(base.u)} heads"
            raise NotLearned(Status.NOT_REALIZABLE, detail)
        before = length
    # Without a query bias u_h is linear, and the first token is a direction of its own.
    rows, known = steps, changes
    if not linear.query_bias:
        rows, known = np.concatenate([base.b[None], rows]), np.concatenate([base.u[None], known])
    flat = np.asarray(np.linalg.solve(rows, known.reshape(d, -1)), dtype=np.float64)
    theta = flat.reshape(d, -1, d).swapaxes(0, 1)
    bias = base.u - base.b @ theta if linear.query_bias else np.zeros_like(base.u)
    seconds = time.perf_counter() - began
    return Directions(theta, bias, float(residuals.max()), again, pairs.used, seconds)


class _Walk:
    """Steps away from the first token, in directions that are orthogonal to it and each other; in
    all directions, if there is a query bias."""

    def __init__(self, pairs: Pairs, linear: Linear, base: Base, seed: int) -> None:
        self.pairs, self.linear, self.base, d = pairs, linear, base, pairs.dim
        self.rng = np.random.default_rng([seed, d])
        columns = np.concatenate([base.b[:, None], self.rng.standard_normal((d, d - 1))], axis=1)
        frame = np.linalg.qr(columns)[0].T
        self.frame = frame if linear.query_bias else frame[1:]

    def ask(self, frame: Array, length: float, count: int) -> tuple[Array, list[Answers]]:
        """The steps as they were made, and ``count`` answers at each token, in two blocks."""
        pairs, base = self.pairs, self.base
        tokens = base.b + length * pairs.token_size * frame
        tokens = pairs.precision.representable(tokens)
        keys = np.array([spread_keys(pairs, token, base.u, count, self.rng) for token in tokens])
        blocks = []
        for copies in (1, 2):
            some = keys[:, copies - 1 :: 2]
            B = np.repeat(tokens, some.shape[1], axis=0)
            asked = ask_pairs(pairs, B, some.reshape(len(B), -1), copies)
            blocks.append([asked.part(i, len(tokens)) for i in range(len(tokens))])
        return tokens - base.b, [once.joined(twice) for once, twice in zip(*blocks, strict=True)]

    def fit(self, seen: list[Answers], starts: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Changes of u_h, residuals, and which of these are too large."""
        base = self.base
        fits = [
            fit_keys(answers, base.u + start, base.v, base.offset)
            for answers, start in zip(seen, starts, strict=True)
        ]
        residuals = np.array([residual for _, residual in fits])
        enough = [accepted(self.pairs, self.linear, answers) for answers in seen]
        return np.array([u - base.u for u, _ in fits]), residuals, residuals > np.array(enough)
