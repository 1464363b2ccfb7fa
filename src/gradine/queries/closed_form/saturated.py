"""W from rows where every head looks at one token, by linear least squares.

Long tokens make attention sharp: where the largest logit of every head stands well above its
second, the row of a query is  y - bias = sum_h z_{j(h)} W_h  up to e^-margin, which is nothing
in floating point. Which token j(h) head h looks at is known as soon as Theta is known roughly, and
then W is known exactly: no error of Theta enters. (The theorem's third phase rests on such rows,
too.) Tokens come from one subspace after another, so that each system has few unknowns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradine.layer import softmax
from gradine.queries.closed_form.around import Around

__all__ = ["SaturatedDesign", "design_saturated", "solve_projections"]

Array = NDArray[np.float64]

MARGIN = 40.0  # of logits: e^-40 is below the rounding of 1
STANDING = 0.05  # and of the mean logit: so far Theta may be wrong
LONG = 1e4  # length of tokens, in units of Gaussian ones, if there is room
TOKENS = 32  # in a sequence
UNKNOWNS = 600  # of one system, for each output
ROWS = 1.4  # for each unknown
CANDIDATES = 3  # sequences made for each that is asked: those with the most rows that can be used
TRIM = 5.0  # a row that misses by so many times the median has looked elsewhere
MOST_TRIMS = 6
UNSEEN = 1e-6  # singular values, of the largest: directions that rows do not show


@dataclass(frozen=True, eq=False)
class SaturatedDesign:
    """Sequences from one subspace, as coordinates in it."""

    basis: Array  #: F, (s, d), orthonormal rows
    tokens: Array  #: (n, k, s)
    answers: Array  #: (n, k, d_out)


def design_saturated(
    around: Around, theta: Array, bias: Array, rng: np.random.Generator
) -> list[SaturatedDesign]:
    """Choose tokens by a rough ``theta`` (m, d + 1, d), and ask.

    Empty if tokens must not be so long that heads look at one of them alone.
    """
    m, _, d = theta.shape
    size = min(max(UNKNOWNS // m, 8), d)
    frame = np.linalg.qr(rng.standard_normal((d, d)))[0]
    designs = []
    for part in np.array_split(frame, -(-d // size)):
        length = _length(around, theta, part, rng)
        needed, tokens, useful = ROWS * m * len(part), [], 0
        for _ in range(20):
            few = max(int(1.3 * (needed - useful) / TOKENS), 1)
            Z = (
                length
                / np.sqrt(len(part))
                * rng.standard_normal((CANDIDATES * few, TOKENS, len(part)))
            )
            counts = np.sum(_usable(theta, part, Z), axis=1)
            best = np.sort(np.argsort(-counts, kind="stable")[:few])
            tokens.append(Z[best])
            useful += int(counts[best].sum())
            if useful >= needed:
                break
        else:
            return []
        Z = around.tokens(np.concatenate(tokens) @ part)
        designs.append(SaturatedDesign(part, Z @ part.T, around.ask(Z)))
    return designs


def _length(around: Around, theta: Array, part: Array, rng: np.random.Generator) -> float:
    """Tokens so long that a margin large enough for the roughness of Theta is large enough."""
    Z = rng.standard_normal((4, TOKENS, len(part)))
    logits = np.abs(_logits(theta, part, Z))
    weakest = float(logits.mean(axis=(0, 2, 3)).min())
    # Longer tokens do no harm, and answers that are rounded to decimals then say more.
    needed = max(np.sqrt(1.5 * MARGIN / (STANDING * max(weakest, 1e-30))), LONG)
    length = np.sqrt(len(part)) * needed
    longest = 1.0 + 4.0 / np.sqrt(len(part))  # of Gaussian tokens, over their typical length
    return float(min(2.0 ** np.ceil(np.log2(length)), around.room / longest))


def _logits(theta: Array, part: Array, Z: Array) -> Array:
    """(n, m, k, k), for tokens as coordinates in a subspace."""
    narrow = np.concatenate([part @ theta[:, :-1] @ part.T, theta[:, -1:] @ part.T], axis=1)
    queries = np.concatenate([Z, np.ones((*Z.shape[:2], 1))], axis=2)
    return (queries[:, None] @ narrow) @ Z[:, None].swapaxes(2, 3)


def _usable(theta: Array, part: Array, Z: Array) -> NDArray[np.bool_]:
    """Rows (n, k) at which every head is sure to look at one token."""
    logits = _logits(theta, part, Z)
    top = np.partition(logits, -2, axis=3)[..., -2:]
    margin = top[..., 1] - top[..., 0]
    typical = np.abs(logits).mean(axis=(0, 2, 3))
    enough = np.maximum(MARGIN, STANDING * typical)[:, None]
    return np.all(margin > enough, axis=1)


def solve_projections(
    designs: list[SaturatedDesign], theta: Array, w: Array, bias: Array
) -> tuple[Array, float]:
    """W (m, d, d_out) by all rows that can be used, and the largest relative residual of a row.

    ``w`` is what is known of it: rows that it misses by much more than others looked elsewhere.
    """
    found, worst = np.zeros_like(w), 0.0
    for design in designs:
        F, Z = design.basis, design.tokens
        usable = _usable(theta, F, Z)
        attended = softmax(_logits(theta, F, Z)) @ Z[:, None]  # (n, m, k, s)
        features = attended.transpose(0, 2, 1, 3)[usable].reshape(int(usable.sum()), -1)
        right = design.answers[usable] - bias
        unit = max(float(np.sqrt(np.mean(features**2))), 1e-300)
        features, right = features / unit, right / unit
        before = (F @ w).reshape(-1, w.shape[2])
        solution, residual = _trimmed(features, right, before)
        worst = max(worst, residual)
        found += F.T @ solution.reshape(len(w), len(F), -1)
    return found, worst


def _trimmed(features: Array, right: Array, before: Array) -> tuple[Array, float]:
    """Least squares without the rows that looked elsewhere, and the largest residual left.

    What is solved for is the change: where no head ever looks, ``before`` stays.
    """
    sizes = np.maximum(np.linalg.norm(right, axis=1), 1e-300)
    left = right - features @ before
    misses = np.linalg.norm(left, axis=1) / sizes
    kept = misses <= TRIM * np.median(misses) + 1e-14
    solution, residual = before, np.inf
    for _ in range(MOST_TRIMS):
        solution = before + _least_squares(features[kept], left[kept])
        misses = np.linalg.norm(right - features @ solution, axis=1) / sizes
        residual = float(misses[kept].max())
        wrong = kept & (misses > 30.0 * np.median(misses[kept]) + 1e-14)
        if not wrong.any():
            break
        kept &= ~wrong
    return solution, residual


def _least_squares(A: Array, b: Array) -> Array:
    """The least solution; by a plain QR, which is much faster, where A shows all directions."""
    if len(A) >= A.shape[1]:
        Q, R = np.linalg.qr(A)
        diagonal = np.abs(np.diag(R))
        if diagonal.min() > UNSEEN * diagonal.max():
            return np.asarray(np.linalg.solve(R, Q.T @ b), dtype=np.float64)
    return np.asarray(np.linalg.lstsq(A, b, rcond=UNSEEN)[0], dtype=np.float64)
