"""Learning a layer of which one coordinate of the last row is visible.

Three phases, each a block of questions or a few of them:

1. `linear`: single tokens give the sum of the v_h, and tell whether there are biases.
2. `view`: large keys count the heads and show them from one query token, exactly but for rounding;
   a fit to keys of ordinary size takes the rounding away.
3. `directions`: tokens beside that one give the whole matrices.

Where large keys may not be sent, or tokens have few coordinates, `scatter` asks at random.
No more is planned than the published 4 m d^2 - 2 m + 1 for the heads that are seen. With 5
coordinates or more that includes what finding the precision has cost. It is exceeded where heads
are seen that are not there, and where `scatter` goes on to one head more because all starts failed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine.layer import AttentionLayer
from gradine.queries.asking.oracle import Oracle
from gradine.queries.asking.precision import Precision
from gradine.queries.scalar.directions import FAR, NEAR, Base, Directions, ask_directions
from gradine.queries.scalar.pair_fit import accepted, ask_pairs, fit_view, spread_keys
from gradine.queries.scalar.pairs import Linear, Pairs, measure_linear, published_count
from gradine.queries.scalar.scatter import Scattered, scatter
from gradine.queries.scalar.view import Heads, Scene, cost_of_heads
from gradine.status import NotLearned, Status

__all__ = ["View", "learn_scalar"]

Array = NDArray[np.float64]
#: Runs a phase, or recalls its result from an earlier run: (name, result type, what to do).
RunPhase = Callable[[str, type[Any], Callable[[], Any]], Any]

PLANES = 3  # tokens and planes that are tried; another one is needed once in some thousand runs
EQUATIONS = 1.25  # for each unknown: more make the answer hardly better, in double precision
MOST_EQUATIONS = 3.0  # the same where answers are rounded
LEAST_EQUATIONS = 1.1
MORE = 2  # equations on top of those
FEWEST_COORDINATES = 4  # of a token: with fewer, cliffs take more queries than are allowed
DOUBTS = 10.0  # standard deviations of that sum, which do not make a head either
REST = 1e-6  # share of the sum of the v_h that no cliff shows, from which there is a Theta of zero


@dataclass(frozen=True, eq=False)
class View:
    """Heads as one query token shows them."""

    token: Array  #: b, (d,)
    keys: Array  #: u_h, (m, d)
    values: Array  #: v_h, (m, d)
    offset: float  #: c
    heads: int
    trusted: bool  #: whether they explain keys of ordinary size
    reason: str  #: why there are none; empty otherwise
    residual: float  #: root mean square of what they leave
    planes: int  #: that were tried
    queries: int  #: of the learner so far
    seconds: float


def learn_scalar(
    oracle: Oracle, heads: int | None, precision: Precision, seed: int, run: RunPhase
) -> AttentionLayer:
    """The layer behind answers (n, 1, 1): one coordinate of the last row; its outputs have one.

    ``heads`` None counts them. `NotLearned` says why there is no answer.
    """
    readout = oracle.readout
    if readout.rows != "last" or (readout.output is None and oracle.out_dim not in (None, 1)):
        raise ValueError(
            "oracle shows more than one coordinate of the last row; expected rows='last' and output"
        )
    pairs = Pairs(oracle, precision)
    linear: Linear = run("linear", Linear, lambda: measure_linear(pairs, seed))
    pairs.used = linear.queries
    view: View = run("view", View, lambda: _view(pairs, linear, heads, seed))
    pairs.used = view.queries
    if not view.trusted:
        found: Scattered = run(
            "scatter", Scattered, lambda: scatter(pairs, linear, heads or view.heads or None, seed)
        )
        d = pairs.dim
        return _layer(found.theta[:, :d], found.theta[:, d:], found.values, found.offset, linear)
    if heads is not None and view.heads > heads:
        detail = f"{view.heads} heads are seen; {heads} were asked for"
        raise NotLearned(Status.NOT_REALIZABLE, detail)
    whole: Directions = run(
        "directions", Directions, lambda: _directions(pairs, linear, view, seed)
    )
    return _layer(whole.theta, whole.query_bias[:, None], view.values, view.offset, linear)


def _view(pairs: Pairs, linear: Linear, heads: int | None, seed: int) -> View:
    """Look from one token after another, until heads are found that explain ordinary keys."""
    began, d = time.perf_counter(), pairs.dim
    nothing = Heads(np.zeros(d), np.zeros((0, d)), np.zeros((0, d)))
    untrusted = View(*nothing[:3], linear.offset, 0, False, "", 0.0, 0, 0, 0.0)
    complaint = ""

    def ended(view: View, **figures: Any) -> View:
        seconds = time.perf_counter() - began
        return replace(view, queries=pairs.used, seconds=seconds, **figures)

    if d < FEWEST_COORDINATES:
        return ended(untrusted, reason=f"tokens have {d} coordinates")
    for plane in range(1, PLANES + 1):
        rng = np.random.default_rng([seed, plane])
        scene = Scene(pairs, linear, rng)
        if not scene.saturated:
            reason = "no key may be so large that each head looks at one token"
            return ended(untrusted, planes=plane, reason=reason)
        cliffs = scene.cliffs()
        count = len(cliffs.before)
        if count == 0 and scene.cancelling:
            complaint = "the heads cancel wherever they are looked at"
            continue
        if np.any(cliffs.widths <= 0.0):
            complaint = f"{count} heads seem to be there, with cliffs too near each other"
            continue
        share = _equations(pairs, linear, max(heads or count, 1), cost_of_heads(count, d))
        if share < LEAST_EQUATIONS and complaint:
            break
        if share < LEAST_EQUATIONS:
            reason = "too few queries for so few heads"
            return ended(untrusted, heads=count, planes=plane, reason=reason)
        start = _with_flat_head(scene.heads(cliffs) if count else nothing, scene, linear)
        start = scene.brought_near(start)
        count = len(start.v)
        keys = spread_keys(pairs, start.b, start.u, _at_least(share, 2 * count * d), rng)
        once, twice = (ask_pairs(pairs, start.b, keys[n::2], n + 1) for n in range(2))
        asked = once.joined(twice)
        fit = fit_view(asked.with_tokens(linear), start.u, start.v, linear.offset)
        if fit.residual <= accepted(pairs, linear, asked):
            found = (start.b, fit.u, fit.v, fit.offset, count, True, "", fit.residual, plane)
            return ended(View(*found, 0, 0.0))
        complaint = f"{count} heads seem to be there, and leave {fit.residual:.2g} of the answers"
    raise NotLearned(Status.NOT_REALIZABLE, complaint)


def _with_flat_head(heads: Heads, scene: Scene, linear: Linear) -> Heads:
    """A head whose Theta is zero has no cliff: it is what is left of the sum of the v_h."""
    rest = linear.total - heads.v.sum(axis=0)
    largest = max(np.linalg.norm(linear.total), *np.linalg.norm(heads.v, axis=1), 0.0)
    if largest == 0.0:
        raise NotLearned(Status.NOTHING_TO_SEE, "all answers are zero")
    if np.linalg.norm(rest) <= REST * largest + DOUBTS * heads.doubt:
        return heads
    flat = np.zeros((1, len(rest)))
    return Heads(scene.b, np.concatenate([heads.u, flat]), np.concatenate([heads.v, rest[None]]))


def _directions(pairs: Pairs, linear: Linear, view: View, seed: int) -> Directions:
    m, d = view.keys.shape
    share = _equations(pairs, linear, m, 0, view=False)
    counts = {NEAR: _at_least(min(share, EQUATIONS), m * d)}
    if share - EQUATIONS >= LEAST_EQUATIONS:
        counts[FAR] = _at_least(share - EQUATIONS, m * d)
    directions = d if linear.query_bias else d - 1
    spare = _allowed(pairs, linear, m) - directions * sum(counts.values())
    base = Base(view.token, view.keys, view.values, view.offset)
    return ask_directions(pairs, linear, base, counts, spare, seed)


def _allowed(pairs: Pairs, linear: Linear, heads: int) -> int:
    """Queries that are left of the published number; biases count as a coordinate."""
    most = published_count(heads, pairs.dim + linear.biased)
    return most - pairs.used - pairs.precision.queries


def _equations(pairs: Pairs, linear: Linear, heads: int, cost: int, *, view: bool = True) -> float:
    """Equations for each unknown that can be asked for, once ``cost`` is paid."""
    d = pairs.dim
    directions = d if linear.query_bias else d - 1
    unknowns = heads * d * (directions + 2 * view)
    exact = pairs.precision.kind == "float64"
    blocks = directions * (1 if exact else 2) + view
    left = _allowed(pairs, linear, heads) - cost - (MORE + 1) * blocks
    most = EQUATIONS if exact else MOST_EQUATIONS
    return min(left / max(unknowns, 1), most)


def _at_least(share: float, unknowns: int) -> int:
    return math.ceil(share * unknowns) + MORE


def _layer(
    theta: Array, query_bias: Array, values: Array, offset: float, linear: Linear
) -> AttentionLayer:
    """``query_bias`` is (m, 1, d), or (m, 0, d) where there is none."""
    m, d = values.shape
    if not linear.biased:
        return AttentionLayer(theta, values[:, :, None]).canonical()
    whole, w = np.zeros((m, d + 1, d + 1)), np.full((m, d + 1, 1), offset / m)
    whole[:, :d, :d] = theta
    whole[:, d : d + query_bias.shape[1], :d] = query_bias
    w[:, :d, 0] = values
    return AttentionLayer(whole, w, constant=True).canonical()
