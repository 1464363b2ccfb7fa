"""Learn narrow heads by queries, in closed form: no search, and no start to be lucky with.

1. A few long symmetric sequences give M(C), and M(C) the space that each head writes to
   (`symmetric`, `separate`). This counts the heads.
2. A single token z has the answer z sum_h W_h: its part in each space is z W_h.
3. With W, short sequences show how each head attends, and this is linear in Theta (`patterns`).
4. The spaces of weak directions were rough. But a rough Theta tells where long tokens make each
   head look at one token alone, and there W is exact (`saturated`); then step 3 again, with the
   answers that are there already, is exact as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine.layer import AttentionLayer
from gradine.queries.around import Around
from gradine.queries.oracle import Oracle
from gradine.queries.patterns import design_patterns, read_theta
from gradine.queries.precision import Precision
from gradine.queries.saturated import design_saturated, solve_projections
from gradine.queries.separate import FORMS, separate
from gradine.queries.symmetric import choose_steps, measure_forms
from gradine.status import NotLearned, Status

__all__ = ["learn_blocks"]

Array = NDArray[np.float64]

NO_BLOCKS = 0.3  # share of the answers that wrong blocks leave unexplained
MOST_PASSES = 5
ROUNDING = 64.0  # times that of the answers: residuals that are nothing else
UNBIASED = 1e-6  # what is even in the tokens, over what is odd, of a layer without biases


@dataclass(frozen=True, eq=False)
class Blocks:
    """What symmetric sequences and single tokens show."""

    w: Array  #: (m, d, d_out), rough
    bias: Array  #: the answer to the center alone
    ranks: NDArray[np.int64]
    affinities: Array  #: one 1 for each head, then a gap
    error: float  #: relative, of M(C)
    unbiased: bool
    seconds: float


@dataclass(frozen=True, eq=False)
class Heads:
    """Heads as they are known after the last pass."""

    theta: Array  #: (m, d + 1, d)
    w: Array  #: (m, d, d_out)
    theta_ranks: NDArray[np.int64]
    w_ranks: NDArray[np.int64]
    changes: Array  #: relative change of W in each pass
    residuals: Array  #: largest relative residual of a saturated row in each pass
    logit_noise: Array  #: standard deviation of a logit that was read, by head
    seconds: float


def learn_blocks(
    oracle: Oracle,
    heads: int | None,
    precision: Precision,
    seed: int,
    run: Callable[[str, type[Any], Callable[[], Any]], Any],
) -> AttentionLayer:
    """The layer behind an oracle that shows all rows, if ranks of its heads add up to at most d."""
    around = Around(oracle, precision)
    blocks: Blocks = run("blocks", Blocks, lambda: _blocks(around, heads, seed))
    try:
        found: Heads = run("heads", Heads, lambda: _heads(around, blocks, seed))
    except np.linalg.LinAlgError:  # what they write is not independent: these are no heads
        detail = f"the outputs do not split into {len(blocks.w)} spaces, one for each head"
        raise NotLearned(Status.NOT_REALIZABLE, detail) from None
    return around.layer(found.theta, found.w, blocks.bias, blocks.unbiased)


def _blocks(around: Around, heads: int | None, seed: int) -> Blocks:
    began = time.perf_counter()
    rng = np.random.default_rng([seed, 1])
    d = around.dim
    bias = around.ask(np.zeros((1, 1, d)))[0, 0]
    unit = min(np.sqrt(d), 0.99 * around.room)
    singles = around.tokens(unit * np.linalg.qr(rng.standard_normal((d, d)))[0])
    total = np.linalg.solve(singles, around.ask(singles[:, None])[:, 0] - bias)  # sum_h W_h
    steps = choose_steps(around, bias, rng)
    forms, even = measure_forms(around, steps, FORMS, bias, rng)
    spaces, affinities = separate(forms, steps.error, heads)
    side_by_side = np.linalg.pinv(np.concatenate(spaces))
    ranks = np.array([len(space) for space in spaces])
    parts = np.split(side_by_side, np.cumsum(ranks)[:-1], axis=1)
    w = np.array([total @ part @ space for part, space in zip(parts, spaces, strict=True)])
    return Blocks(
        w=w,
        bias=bias,
        ranks=ranks,
        affinities=affinities,
        error=steps.error,
        unbiased=even < UNBIASED and not bias.any(),
        seconds=time.perf_counter() - began,
    )


def _heads(around: Around, blocks: Blocks, seed: int) -> Heads:
    began = time.perf_counter()
    rng = np.random.default_rng([seed, 2])
    w, bias = blocks.w, blocks.bias
    patterns = design_patterns(around, w, bias, blocks.ranks.tolist(), rng)
    seen = read_theta(patterns, w, bias)
    if seen.residual > NO_BLOCKS:
        detail = f"{len(w)} heads that write to spaces of their own leave {seen.residual:.2g}"
        raise NotLearned(Status.NOT_REALIZABLE, detail)
    precision_of_rows = around.precision.noise(1.0)
    saturated = design_saturated(around, seen.theta, bias, rng)
    changes, residuals, ranks = [], [], blocks.ranks
    for _ in range(MOST_PASSES if saturated else 0):
        before = w
        w, residual = solve_projections(saturated, seen.theta, w, bias)
        w, ranks = _truncated(w, max(residual, np.finfo(float).eps))
        seen = read_theta(patterns, w, bias)
        changes.append(float(np.linalg.norm(w - before) / np.linalg.norm(w)))
        residuals.append(residual)
        # Rows that a wrong W could not all agree with: it is right.
        if residual < ROUNDING * max(precision_of_rows, np.finfo(float).eps):
            break
    return Heads(
        theta=seen.theta,
        w=w,
        theta_ranks=np.array(seen.ranks),
        w_ranks=ranks,
        changes=np.array(changes),
        residuals=np.array(residuals),
        logit_noise=seen.noise,
        seconds=time.perf_counter() - began,
    )


def _truncated(w: Array, error: float) -> tuple[Array, NDArray[np.int64]]:
    """Each W_h without the directions that are no more than its error."""
    U, values, V = np.linalg.svd(w, full_matrices=False)
    edge = error * (np.sqrt(w.shape[1]) + np.sqrt(w.shape[2]))
    values = np.where(values > edge * values[:, :1], values, 0.0)
    return U * values[:, None, :] @ V, np.sum(values > 0.0, axis=1)
