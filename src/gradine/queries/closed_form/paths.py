"""W by the jumps of answers along a path of queries.

Take two long keys a and -a, and queries z that are long too, but short against the keys. Every head
looks at a or at -a, whichever its logit favours, and at nothing else: up to e^-margin the answer is

    bias + sum_h sign(z^T Theta_h a) a W_h.

Let z go half a turn, from z_0 by way of z_1 to -z_0. The sign of each head changes once, so the
answers are constant but for m jumps, and these are +-2 a W_h: heads are counted and set apart with
no step that is small and nothing that is fitted. The jumps of
a_0, a_p and a_0 + a_p tell which of them belong to the same head: they add up. The sign of a head
comes from the answers to single tokens, which know sum_h W_h.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine.queries.closed_form.around import Around
from gradine.queries.closed_form.separate import split_by_spaces
from gradine.status import NotLearned, Status

__all__ = ["OtherHeads", "Values", "read_values"]

Array = NDArray[np.float64]

LONG, MEDIUM = 1e6, 30.0  # lengths of a key and of a query, in units of a Gaussian token
SHORTER = 300.0  # times shorter than keys are queries at least
PIECE = 48  # points of a path that are asked in one sequence
COARSE, FINE = 96, 24  # points of a path, and those between two that differ
RETRIES = 30  # other paths, where jumps coincide
TINY = 1e-5  # of the largest jump: what attention that is not quite sharp may leave
NOISES = 30.0  # standard deviations of the noise that a plateau may be uneven by
HALF = 0.2  # by which the halves of a jump may differ
UNSURE = 0.05  # by which jumps may miss that they add up to what single tokens show
MATCHED = 0.05  # share of a jump that may be left when jumps should add up
BATCH = 8  # directions at a time, until the heads are seen to be narrow
SPARE, ROUGH_SPARE = 1.2, 3.0  # directions for each rank, of answers as they are and of rough ones


class OtherHeads(NotLearned):
    """The number of heads is known, and another one than was asked for."""


class Values(NamedTuple):
    w: Array  #: (m, d, d_out)
    ranks: list[int]
    directions: int  #: keys that were asked


def read_values(
    around: Around, total: Array, bias: Array, heads: int | None, rng: np.random.Generator
) -> Values:
    """W of every head; ``total`` is sum_h W_h."""
    d = around.dim
    paths = _Paths(around, total, bias, rng)
    frame = np.linalg.qr(rng.standard_normal((d, d)))[0]
    first = _unit(rng.standard_normal((1, d)))
    base = paths.count(first)
    if heads is not None and heads != len(base):
        detail = f"{len(base)} heads are seen to look elsewhere on the way; {heads} were asked for"
        raise OtherHeads(Status.NOT_REALIZABLE, detail)
    spare = ROUGH_SPARE if around.rough else SPARE
    rows: list[Array] = []  # of each direction, z W_h of all heads
    while len(rows) < d:
        rows += _linked(paths, first, base, frame[len(rows) : len(rows) + BATCH])
        stacked = np.array(rows).swapaxes(0, 1)  # (m, directions, d_out)
        ranks = [_rank(part, paths.noise) for part in stacked]
        if spare * max(ranks) <= len(rows) and sum(ranks) <= total.shape[1]:
            break
    stacked = np.array(rows).swapaxes(0, 1)
    ranks = [_rank(part, paths.noise) for part in stacked]
    if len(rows) == d:
        return Values(frame.T @ stacked, ranks, d)
    # Narrow heads: each writes to a space of its own, and the part of sum_h W_h in it is W_h.
    spaces = [
        np.linalg.svd(part, full_matrices=False)[2][:rank]
        for part, rank in zip(stacked, ranks, strict=True)
    ]
    return Values(split_by_spaces(total, spaces), ranks, len(rows))


def _linked(paths: _Paths, first: Array, base: Array, keys: Array) -> list[Array]:
    """a W_h for each key a, in the order of ``base``, which is that of the first key."""
    n, sums = len(keys), keys + first
    asked, lengths = np.concatenate([keys, _unit(sums)]), np.linalg.norm(sums, axis=1)
    seen: dict[int, Array] = {}  # what paths have shown of a key, or of its sum with the first
    linked: dict[int, Array] = {}
    for _ in range(RETRIES):
        left = [i for i in range(2 * n) if i not in seen]
        if not left:
            break
        # Steps that coincide on one path do not on another.
        for i, values in zip(left, paths.values(asked[left]), strict=True):
            if values is not None and len(values) == len(base):
                seen[i] = values
        for i in range(n):
            if i in seen and n + i in seen and i not in linked:
                order = _link(base, seen[i], lengths[i] * seen[n + i])
                if order is None:
                    del seen[i], seen[n + i]
                else:
                    linked[i] = order
    if len(linked) < n:
        raise NotLearned(Status.NOT_REALIZABLE, "what heads make of two keys does not add up")
    return [linked[i] for i in range(n)]


def _link(base: Array, alone: Array, together: Array) -> Array | None:
    """``alone`` in the order in which its sums with ``base`` are in ``together``; None: in none."""
    from scipy.optimize import linear_sum_assignment

    sums = base[:, None] + alone  # (m, m, d_out)
    cost = np.array([np.linalg.norm(row[:, None] - together, axis=2).min(axis=1) for row in sums])
    order, chosen = linear_sum_assignment(cost)
    sizes = np.linalg.norm(base, axis=1) + np.linalg.norm(alone[chosen], axis=1)
    return None if np.any(cost[order, chosen] > MATCHED * sizes) else alone[chosen]


class _Paths:
    """Half turns of queries, each seen by one key and its negative."""

    def __init__(self, around: Around, total: Array, bias: Array, rng: np.random.Generator) -> None:
        self.around, self.total, self.bias, self.rng = around, total, bias, rng
        unit = math.sqrt(around.dim)
        self.long = min(LONG * unit, 0.99 * around.room)
        self.noise = 0.0  #: of a number in a W_h
        self.medium = min(MEDIUM * unit, self.long / SHORTER)

    def count(self, key: Array) -> Array:
        """a W_h of all heads for one key: a set that two paths agree on."""
        sets: list[Array] = []
        for _ in range(RETRIES):
            found = self.values(key)[0]
            if found is None:
                continue
            if any(len(found) == len(other) and _same(found, other) for other in sets):
                return found
            sets.append(found)
        detail = "answers do not change by the same steps along two paths of queries"
        raise NotLearned(Status.NOT_REALIZABLE, detail)

    def values(self, keys: Array) -> list[Array | None]:
        """a W_h of all heads for each key, in any order; None where steps do not add up.

        A path is asked twice: at a few points, and then at many between those that differ.
        """
        turn = np.linalg.qr(self.rng.standard_normal((self.around.dim, 2)))[0].T
        coarse = np.broadcast_to(np.pi * (np.arange(COARSE) + 0.5) / COARSE, (len(keys), COARSE))
        rows, noise = self._ask(keys, turn, coarse)
        steps = [np.flatnonzero(_apart(part, noise)) for part in rows]
        most = max(len(step) for step in steps)
        if most == 0:
            return [None] * len(keys)
        fine = np.stack(
            [
                _between(angles, step, FINE * most)
                for angles, step in zip(coarse, steps, strict=True)
            ]
        )
        more, _ = self._ask(keys, turn, fine)
        angles = np.concatenate([coarse, fine], axis=1)
        order = np.argsort(angles, axis=1, kind="stable")
        rows = np.take_along_axis(np.concatenate([rows, more], axis=1), order[:, :, None], axis=1)
        return [
            _signed(_jumps(part, noise) / (2.0 * self.long), key @ self.total)
            for part, key in zip(rows, keys, strict=True)
        ]

    def _ask(self, keys: Array, turn: Array, angles: Array) -> tuple[Array, float]:
        """Answers along a path for each key, and the noise of a row of them.

        Queries do not meet: a path may be cut into pieces, which cost less to answer than one.
        """
        around, (q, points) = self.around, angles.shape
        pieces = -(-points // PIECE)
        padded = np.concatenate([angles, np.repeat(angles[:, -1:], pieces * PIECE - points, 1)], 1)
        cut = padded.reshape(q * pieces, PIECE, 1)
        path = self.medium * np.concatenate([np.cos(cut), np.sin(cut)], axis=2) @ turn
        long = self.long * np.repeat(keys, pieces, axis=0)[:, None]
        tokens = around.tokens(np.concatenate([long, -long, path], axis=1))
        answers = around.ask(tokens)[:, 2:] - self.bias
        noise = around.noise(answers)
        self.noise = max(self.noise, noise / (2.0 * self.long))
        rows = answers.reshape(q, pieces * PIECE, -1)[:, :points]
        return rows, noise * math.sqrt(rows.shape[2])


def _between(angles: Array, steps: NDArray[np.intp], count: int) -> Array:
    """``count`` angles, shared out over the intervals in which a step lies."""
    if len(steps) == 0:
        return np.full(count, angles[0])
    each = -(-count // len(steps))
    shares = (np.arange(each) + 0.5) / each
    points = angles[steps, None] + shares * (angles[steps + 1] - angles[steps])[:, None]
    return np.sort(points.ravel())[:count] if each * len(steps) == count else points.ravel()[:count]


def _apart(rows: Array, noise: float) -> NDArray[np.bool_]:
    """Whether each row differs from the next by more than noise and blurred attention."""
    moved = np.linalg.norm(np.diff(rows, axis=0), axis=1)
    return moved > NOISES * noise + TINY * moved.max(initial=0.0)


def _same(one: Array, other: Array) -> bool:
    """Whether two sets of rows are the same."""
    apart = np.linalg.norm(one[:, None] - other, axis=2)
    return bool(np.all(apart.min(axis=1) <= MATCHED * np.linalg.norm(one, axis=1)))


def _signed(jumps: Array, total: Array) -> Array | None:
    """The jumps with signs by which they add up to ``total``; None where they do not."""
    if len(jumps) == 0:
        return None
    signs = np.linalg.lstsq(jumps.T, total, rcond=None)[0]
    left = np.linalg.norm(np.sign(signs) @ jumps - total)
    if np.any(np.abs(np.abs(signs) - 1.0) > UNSURE) or left > UNSURE * np.linalg.norm(total):
        return None
    return np.sign(signs)[:, None] * jumps


def _jumps(rows: Array, noise: float) -> Array:
    """Differences of neighbouring plateaus; rows on the way from one to the next are left out.

    Where both keys have a logit of nearly zero, a head may look at another query, whose value is
    small: then a jump comes in two halves.
    """
    runs = np.split(np.arange(len(rows)), np.flatnonzero(_apart(rows, noise)) + 1)
    plateaus = []
    for run in runs:
        if len(run) >= 2:
            quarter = len(run) // 4  # its ends are the least sharp
            plateaus.append(np.mean(rows[run[quarter : len(run) - quarter]], axis=0))
    jumps: list[Array] = []
    for jump in np.diff(np.array(plateaus), axis=0) if len(plateaus) > 1 else []:
        size = HALF * np.linalg.norm(jump)
        other = next((i for i, j in enumerate(jumps) if np.linalg.norm(jump - j) < size), None)
        if other is None:
            jumps.append(jump)
        else:
            jumps[other] = jumps[other] + jump
    return np.array(jumps).reshape(-1, rows.shape[1])


def _rank(rows: Array, noise: float) -> int:
    """Singular values that noise alone would not make."""
    values = np.linalg.svd(rows, compute_uv=False)
    edge = NOISES * noise * (math.sqrt(len(rows)) + math.sqrt(rows.shape[1]))
    return int(np.sum(values > max(edge, 1e-12 * values[0])))


def _unit(rows: Array) -> Array:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
