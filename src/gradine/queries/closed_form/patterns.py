"""Theta from attention that is read off the answers, once W is known.

A sequence of tokens z_1 .. z_k and the zero token, read at the row of z: with W known,

    y - bias = sum_h sum_j p_hj z_j W_h

is a linear system for the attention p_hj of all heads, as long as the z_j W_h are independent. The
zero token has the logit 0 and no value, so that

    z^T Theta_h z_j = log p_hj - log (1 - sum_l p_hl) :

no step is small, and nothing is linearised. Sequences combine a few of a set of p anchors with a
few of a basis; every row is a query, so they give B Theta E^T and E Theta B^T at once, and with p
above its rank these are all of Theta.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine.queries.closed_form.around import Around, rms
from gradine.status import NotLearned, Status

__all__ = ["PatternDesign", "Patterns", "design_patterns", "read_theta"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

#: Of even attention, what the weakest keys of every head should get; more if it is read roughly.
LEAST_SHARE, ROUGH_SHARE = 0.1, 0.2
WEAKEST = 0.02  # share of the keys that may get less
OVERSAMPLED = 1.5  # anchors for each rank of a head
SHORTER = 20  # times that tokens are made shorter for that
PILOTS = 8  # sequences that the length of tokens is chosen by
SEQUENCES = 64  # that are read at once
FLOOR = 1e-12  # attention that is read as less is noise


@dataclass(frozen=True, eq=False)
class PatternDesign:
    """Which anchors meet which directions, and the answers."""

    anchors: Array  #: B, (p, d)
    basis: Array  #: E, (d, d), orthogonal rows
    groups: list[tuple[Indices, Indices]]  #: of each sequence: its anchors, and its rows of E
    tokens: Array  #: (n, k, d); the last of a sequence is zero
    answers: Array  #: (n, k, d_out)


class Patterns(NamedTuple):
    theta: Array  #: (m, d + 1, d); the last row is the bias of the queries
    ranks: list[int]
    noise: Array  #: standard deviation of a logit that was read, by head
    residual: float  #: what the heads leave of the answers


def design_patterns(
    around: Around, w: Array, bias: Array, ranks: list[int], rng: np.random.Generator
) -> PatternDesign:
    """Choose the tokens, with lengths at which every head looks at several of them, and ask."""
    m, d, out = w.shape
    # Independent z_j W_h, and well so: in what each head writes to, and in all outputs.
    keys = min(int(0.4 * min(ranks)), int(0.4 * out / m), 16) // 2
    if keys < 1:
        detail = f"heads of rank {min(ranks)} write too little to tell tokens apart"
        raise NotLearned(Status.NOT_REALIZABLE, detail)
    wanted = int(np.ceil(OVERSAMPLED * max(ranks))) + 2
    anchors = rng.standard_normal((-(-wanted // keys) * keys, d))
    anchors /= np.linalg.norm(anchors, axis=1, keepdims=True)
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
    rows = np.arange(-(-d // keys) * keys) % d
    groups = [
        (a, e) for a in np.arange(len(anchors)).reshape(-1, keys) for e in rows.reshape(-1, keys)
    ]
    share = ROUGH_SHARE if around.rough else LEAST_SHARE
    length = min(np.sqrt(d), around.room)
    for _ in range(SHORTER):
        spread = np.linspace(0, len(groups) - 1, min(PILOTS, len(groups))).astype(int)
        tokens = _sequences(around, length * anchors, length * basis, [groups[i] for i in spread])
        attention, _ = _attention(tokens, around.ask(tokens), w, bias)
        weakest = np.quantile(attention.reshape(len(tokens), m, -1), WEAKEST, axis=(0, 2)).min()
        if weakest > share / (2 * keys + 1):
            break
        length /= 2.0**0.5
    else:
        detail = f"{m} heads do not explain how attention spreads over short tokens"
        raise NotLearned(Status.NOT_REALIZABLE, detail)
    tokens = _sequences(around, length * anchors, length * basis, groups)
    return PatternDesign(length * anchors, length * basis, groups, tokens, around.ask(tokens))


def _sequences(
    around: Around, anchors: Array, basis: Array, groups: list[tuple[Indices, Indices]]
) -> Array:
    zero = np.zeros((1, anchors.shape[1]))
    return around.tokens(
        np.stack([np.concatenate([anchors[a], basis[e], zero]) for a, e in groups])
    )


def _attention(tokens: Array, answers: Array, w: Array, bias: Array) -> tuple[Array, float]:
    """Attention (n, m, k, k) to all tokens, the zero token last, and the relative residual."""
    n, k, d = tokens.shape
    m, _, out = w.shape
    side_by_side = w.transpose(1, 0, 2).reshape(d, -1)
    p, left = np.empty((n, m, k, k)), 0.0
    for at in range(0, n, SEQUENCES):
        part = slice(at, at + SEQUENCES)
        values = (tokens[part, :-1] @ side_by_side).reshape(-1, (k - 1) * m, out)
        right = (answers[part] - bias).swapaxes(1, 2)
        gram = values @ values.swapaxes(1, 2)
        size = gram.shape[1]
        # So that it can be solved whatever W is; refinement takes it away again.
        gram[:, range(size), range(size)] *= 1.0 + 1e-13
        solved = np.linalg.solve(gram, values @ right)
        # Normal equations square the condition; a step of refinement takes that back.
        solved += np.linalg.solve(gram, values @ (right - values.swapaxes(1, 2) @ solved))
        left += float(np.sum((right - values.swapaxes(1, 2) @ solved) ** 2))
        p[part, ..., :-1] = solved.reshape(-1, k - 1, m, k).transpose(0, 2, 3, 1)
    p[..., -1] = 1.0 - p[..., :-1].sum(axis=3)
    return p, float(np.sqrt(left) / max(float(np.linalg.norm(answers - bias)), 1e-300))


def read_theta(design: PatternDesign, w: Array, bias: Array, least: int = 1) -> Patterns:
    """Theta of every head, by the answers that are there and the W that is known by now.

    Directions that noise would show as well are left out, but for the ``least`` largest.
    """
    attention, residual = _attention(design.tokens, design.answers, w, bias)
    logs = np.log(np.maximum(attention, FLOOR))
    logits = logs[..., :-1] - logs[..., -1:]
    heads = [_theta(design, logits[:, h], least) for h in range(len(w))]
    return Patterns(
        np.array([head[0] for head in heads]),
        [head[1] for head in heads],
        np.array([head[2] for head in heads]),
        residual,
    )


def _theta(design: PatternDesign, logits: Array, least: int) -> tuple[Array, int, float]:
    """Theta of one head from logits (n, k, k - 1), its rank, and the noise of the logits."""
    B, E = design.anchors, design.basis
    keys = len(design.groups[0][0])
    ahead = np.zeros((len(B), len(E)))  # B Theta E^T
    back = np.zeros((len(E), len(B)))  # E Theta B^T
    repeated = np.zeros((len(B), len(design.groups) * keys // len(B)))  # bias Theta B^T
    for i, (a, e) in enumerate(design.groups):
        ahead[np.ix_(a, e)] = logits[i, :keys, keys:]
        back[np.ix_(e, a)] = logits[i, keys : 2 * keys, :keys]
        repeated[a, i % repeated.shape[1]] = logits[i, -1, :keys]
    bias = np.median(repeated, axis=1)
    inverse = E.T / np.sum(E**2, axis=1)  # rows of E are orthogonal
    known = np.concatenate([B, np.ones((len(B), 1))], axis=1)  # its product with Theta is known
    columns = np.concatenate([inverse @ (back - bias), bias[None]])  # Theta B^T
    rows = ahead @ inverse.T
    # A bias that is read again and again shows rounding; what is known of B Theta B^T by queries
    # and by keys shows what is wrong with W, too.
    noise = max(rms(repeated - bias[:, None]), rms(rows @ B.T - known @ columns) / np.sqrt(2.0))
    U, values, _ = np.linalg.svd(columns, full_matrices=False)
    # What noise alone would make of such a matrix, with room to spare.
    size = float(np.linalg.norm(E[0]))
    edge = 3.0 * noise / size * (np.sqrt(len(columns)) + np.sqrt(len(B)))
    rank = max(int(np.sum(values > max(edge, 1e-13 * values[0]))), least)
    U = U[:, :rank]
    return U @ np.linalg.lstsq(known @ U, rows, rcond=None)[0], rank, noise
