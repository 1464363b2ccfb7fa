r"""The conditions of the theorem, as numbers of one layer [CL25].

Chen and Li's learner is proven under non-degeneracy conditions: attention matrices that are
incoherent across heads, not of too low rank, with dense rows and columns; projection matrices whose
sum is well conditioned; few heads and short sequences against the dimension. What each is for, and
its threshold, is in `gradine.theory.rules`.

Norms are Frobenius norms unless it says op; :math:`\langle A, B\rangle = \mathrm{tr}\, A^\top B`.
A layer with a constant coordinate is judged without the column that cancels in the softmax, and its
projections without the constant row.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gradine.attention_functions import SOFTMAX
from gradine.checks import whole_number
from gradine.inputs import InputKind, Seed, sample_inputs
from gradine.layer import AttentionLayer
from gradine.sculpt.config import SculptConfig
from gradine.theory.judgement import Check, Condition
from gradine.theory.rules import RULES

__all__ = ["EXAMPLES", "check", "check_sizes", "conditioning", "largest_cosine"]

Array = NDArray[np.float64]

SAMPLES = 4000  # sequences by which probabilities are estimated
NUMBERS = 2**24  # attention weights of them at most: long sequences are sampled less often
MATCHED = 0.1  # difference of two attention weights up to which heads agree on a row
ONE_TOKEN = 0.9  # attention of every head on one token: the row shows a row of X W
SLAB_SHARE = 0.5  # of the slabs that phase 2 keeps: so many must come from matched rows
TRUE_SHARE = 0.25  # of the rows that phase 3 looks at: so many must be what it takes them for
EXAMPLES = 40_000  # with how many examples probabilities are taken to be used
TINY = np.finfo(float).tiny


def check(
    layer: AttentionLayer,
    seq_len: int,
    *,
    examples: int = EXAMPLES,
    kind: InputKind = "boolean",
    seed: Seed = 0,
) -> Check:
    """Every condition of the theorem, for sequences of ``seq_len`` tokens.

    The probabilities are estimated over random sequences; how probable is probable enough depends
    on how many ``examples`` a learner will be given.

    >>> from gradine.inputs import plant
    >>> layer = plant(heads=2, dim=10, scale=4.0)
    >>> check(layer, seq_len=3).holds
    True
    >>> check(AttentionLayer(0.1 * layer.theta, layer.w), seq_len=3)["logits_not_flat"].holds
    False
    """
    if not isinstance(layer, AttentionLayer):
        kind_given = type(layer).__name__
        raise ValueError(f"layer is a {kind_given}; expected gradine.AttentionLayer")
    whole_number("seq_len", seq_len, 2)
    whole_number("examples", examples, 1)
    if layer.function is not SOFTMAX:
        raise ValueError(
            f"layer has attention {layer.function.name!r}; the theorem is about 'softmax'"
        )
    d = layer.dim
    theta, w = layer.theta[:, :, :d], layer.w[:, :d]
    values = _of_attention(theta) | _of_projections(w, seq_len)
    values |= _of_sizes(layer.n_heads, d, seq_len, layer.out_dim)
    conditions = {name: RULES[name].judge(name, value) for name, value in values.items()}
    samples = min(SAMPLES, max(1, NUMBERS // (layer.n_heads * seq_len**2)))
    X = sample_inputs(samples, seq_len, d, kind, seed)
    conditions |= _of_patterns(layer.attention(X), examples, d, layer.width)
    subject = f"{layer.n_heads} heads, {seq_len} tokens, {d} coordinates"
    return Check(tuple(conditions[name] for name in RULES), subject)


def check_sizes(heads: int, dim: int, seq_len: int, out_dim: int, scale: float) -> Check:
    """The conditions that are known before there is a layer: of its sizes, and of its logits.

    >>> check_sizes(heads=2, dim=8, seq_len=4, out_dim=8, scale=4.0).failing()[0].name
    'tokens'
    """
    values = {"logits_not_flat": scale, "logits_not_sharp": scale}
    values |= _of_sizes(heads, dim, seq_len, out_dim)
    conditions = tuple(RULES[name].judge(name, value) for name, value in values.items())
    return Check(conditions, f"{heads} heads, {seq_len} tokens, {dim} coordinates")


def _of_sizes(heads: int, dim: int, seq_len: int, out_dim: int) -> dict[str, float]:
    return {"tokens": seq_len / min(dim, out_dim), "heads": heads / dim}


def _of_attention(theta: Array) -> dict[str, float]:
    """Of the attention matrices (m, D, d): the worst head, the closest pair."""
    squares = np.sum(theta**2, axis=(1, 2))
    whole = np.maximum(squares, TINY)
    largest = np.maximum(np.linalg.norm(theta, 2, axis=(1, 2)) ** 2, TINY)
    return {
        "logits_not_flat": float(np.sqrt(squares.min())),
        "logits_not_sharp": float(np.sqrt(squares.max())),
        "effective_rank": float((squares / largest).min()),
        "row_share": float((np.sum(theta**2, axis=2).max(axis=1) / whole).max()),
        "column_share": float((np.sum(theta**2, axis=1).max(axis=1) / whole).max()),
        "theta_incoherence": largest_cosine(theta),
    }


def _of_projections(w: Array, k: int) -> dict[str, float]:
    """Of the projection matrices (m, d, d_out), and of their sum."""
    total = w.sum(axis=0)
    norms = np.linalg.norm(w, axis=(1, 2))
    return {
        "w_incoherence": largest_cosine(w),
        "w_balance": float(norms.min() / max(norms.max(), TINY)),
        "sum_size": float(np.sum(total**2) / max(np.sum(w**2), TINY)),
        "sum_conditioning": conditioning(total, k),
    }


def conditioning(total: Array, k: int) -> float:
    """sigma_{k+1} / sigma_1 of the summed projections; 0 where there are k directions or fewer.

    Values of k tokens span k directions; only beyond them can a wrong pattern show.

    >>> conditioning(np.diag([4.0, 3.0, 2.0]), 2)
    0.5
    """
    values = np.linalg.svd(total, compute_uv=False)
    return float(values[k] / max(values[0], TINY)) if k < len(values) else 0.0


def largest_cosine(matrices: Array) -> float:
    """The largest |<A_i, A_j>| / (|A_i| |A_j|) of two matrices (m, ...); 0 if there is but one.

    >>> largest_cosine(np.array([[[1.0, 0.0]], [[-2.0, 0.0]], [[0.0, 3.0]]]))
    1.0
    """
    flat = matrices.reshape(len(matrices), -1)
    flat = flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), TINY)
    cosines = np.abs(flat @ flat.T)
    np.fill_diagonal(cosines, 0.0)
    return min(float(cosines.max()), 1.0)


def _of_patterns(attention: Array, examples: int, d: int, width: int) -> dict[str, Condition]:
    """How often heads agree, from their attention (n, m, k, k); the sample is of sequences."""
    config = SculptConfig()
    k = attention.shape[-1]
    matched = np.ptp(attention, axis=1).max(axis=-1) <= MATCHED  # (n, k)
    second = np.partition(attention.mean(axis=1), k - 2, axis=-1)[..., -2]
    events = {
        "matched_patterns": matched & (second >= config.least_weight),
        "one_token_patterns": (attention >= ONE_TOKEN).all(axis=1).any(axis=-1),
    }
    # Rows that a phase is to have, among those of the examples.
    needed = {
        "matched_patterns": SLAB_SHARE * config.slabs_per_unknown * width * d,
        "one_token_patterns": TRUE_SHARE * config.margin_rows_per_unknown * width,
    }
    conditions = {}
    for name, happened in events.items():
        shares = happened.mean(axis=1)
        error = float(shares.std() / np.sqrt(len(shares)))
        rule = replace(RULES[name], sculpt=needed[name] / (examples * k))
        conditions[name] = rule.judge(name, float(shares.mean()), error)
    return conditions
