"""A fit of narrow heads to fresh random questions, for answers that are rounded or noisy.

What is read off single answers is as rough as they are, and Theta more so: it comes from logarithms
and inverses. A fit sees many more rows than there are unknowns, and averages over them. Heads that
are roughly right are all the start it needs, so it is the last part of the exact learner alone
(`gradine.exact.finish`), twice:

1. on whitened outputs, on which it is fast, up to the noise: output directions that are below it
   are not made larger;
2. on the answers as they came, on which every row counts as much as it knows.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gradine.exact.deflate import DeflateConfig, fitted_layer, rows_needed
from gradine.exact.finish import FinishConfig, finish
from gradine.factors import nearest_halves
from gradine.progress import Tell
from gradine.queries.asking.tokens import gaussian_tokens
from gradine.queries.closed_form.around import Around, rms
from gradine.solvers.narrow import Heads

__all__ = ["Polished", "polish"]

Array = NDArray[np.float64]

TOKENS = 8  # in a sequence
LOGIT = 2.0  # spread of the logits, in the median head
ROWS = 2.0  # times what a fit of narrow heads takes without noise
KEPT = 256  # sequences that take no part
WEAKEST = 1e-4  # output directions of less variance, of the largest, are not made equal to others
QUICK = FinishConfig(last_products=(20, 60), last_patience=1, fresh=KEPT)
LAST = FinishConfig(
    last_steps=6, last_products=(60, 60), last_damping=1e-4, last_patience=1, fresh=KEPT
)


@dataclass(frozen=True, eq=False)
class Polished:
    """Heads after the fit."""

    theta: Array  #: (m, d + 1, d)
    w: Array  #: (m, d, d_out)
    bias: Array  #: the answer to the center alone
    residuals: Array  #: relative, after each step; first of whitened outputs, then of answers
    whitened_steps: int
    noise: float  #: of the answers, relative to their size
    rows: int
    seconds: float


def polish(
    around: Around,
    theta: Array,
    w: Array,
    ranks: tuple[int, int],
    rng: np.random.Generator,
    tell: Tell | None = None,
) -> Polished:
    """Ask, and fit. ``theta`` (m, d + 1, d) and ``w`` (m, d, d_out) are rough, of these ranks."""
    began = time.perf_counter()
    m, d, out = w.shape
    rank = max(ranks)
    least, _ = rows_needed(m, rank, (TOKENS, d + 1, d, out), DeflateConfig())
    n = math.ceil(ROWS * least)
    spread = float(np.median(np.linalg.norm(theta[:, :d], axis=(1, 2))))
    size = math.sqrt(LOGIT / max(spread, 1e-300))
    oracle = around.oracle
    Z = around.tokens(gaussian_tokens(oracle, rng, n + KEPT, TOKENS, size) - around.center)
    Y = around.ask(Z)
    # Tokens and answers of size one: steps are solved in single precision.
    size, unit = rms(Z), rms(Y)
    X = np.concatenate([Z / size, np.ones((*Z.shape[:2], 1))], axis=2)
    Y, noise = Y / unit, around.noise(Y) / unit
    units = np.append(np.full(d, size), 1.0)[:, None] * size  # queries have a constant, keys none
    U, K = nearest_halves(units * theta, ranks[0])
    V, O = nearest_halves(size / unit * w, ranks[1])  # noqa: E741
    whiten, restore, floor = _whitening(Y[:least], noise)
    heads = Heads(U, K.swapaxes(1, 2), V, O @ whiten)
    first = finish(X, Y @ whiten, d, heads, n, replace(QUICK, least_misfit=3.0 * floor), tell)
    heads = Heads(*first.heads[:3], first.heads.O @ restore)
    # Rounding makes less noise than its worst case: a fit ends where it gains no more.
    last = finish(X, Y, d, heads, n, replace(LAST, least_misfit=0.1 * noise**2), tell)
    theta, w = fitted_layer(X, Y, d, last.heads)
    return Polished(
        theta=theta / units,
        w=unit / size * w[:, :d],
        bias=unit * w[:, d].sum(axis=0),
        residuals=np.sqrt(first.misfits + last.misfits),
        whitened_steps=len(first.misfits),
        noise=noise,
        rows=n * TOKENS,
        seconds=time.perf_counter() - began,
    )


def _whitening(Y: Array, noise: float) -> tuple[Array, Array, float]:
    """Outputs times the first are equally large in all directions but those that are weak; the
    second undoes that; the third is the relative squared size of the noise then."""
    rows = Y.reshape(-1, Y.shape[2])
    rows = rows - rows.mean(axis=0)
    values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    sizes = np.sqrt(np.maximum(values, 0.0) + WEAKEST * values[-1] + noise**2)
    floor = noise**2 * np.sum(sizes**-2.0) / np.sum(values / sizes**2)
    return vectors / sizes, (vectors * sizes).T, float(floor)
