"""The one form of a layer that examples can identify."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["canonical_form"]

Array = NDArray[np.float64]

SAME_HEAD = 1e-12  # relative difference of Theta below which two heads cannot be told apart


def canonical_form(theta: Array, w: Array, constant: bool) -> tuple[Array, Array]:
    """(theta, w) of the same function, as `AttentionLayer.canonical` describes it."""
    width, out_dim = w.shape[1:]
    dim = width - constant
    theta = theta.copy()
    if constant:
        theta[:, :, -1] = 0.0
    heads = sorted(
        _merge_heads(theta, w[:, :dim]),
        key=lambda head: (-_norm(head[1]), -_norm(head[0]), head[0].tobytes()),
    )
    if not heads:  # nothing but the bias is left: one head that does nothing carries it
        heads = [(np.zeros((width, width)), np.zeros((dim, out_dim)))]
    new_w = np.zeros((len(heads), width, out_dim))
    new_w[:, :dim] = [head[1] for head in heads]
    if constant:
        rows = w[:, -1]
        # Shares that are equal already stay to the last bit: the form is its own canonical.
        settled = len(heads) == len(rows) and bool((rows == rows[0]).all())
        new_w[:, -1] = rows[0] if settled else rows.sum(axis=0) / len(heads)
    return np.stack([head[0] for head in heads]), new_w


def _norm(matrix: Array) -> float:
    return float(np.linalg.norm(matrix))


def _merge_heads(theta: Array, w: Array) -> list[tuple[Array, Array]]:
    """Distinct heads (Theta, W): equal Theta merged with W summed, heads with W = 0 left out."""
    groups: list[tuple[Array, list[Array]]] = []
    for Theta, W in zip(theta, w, strict=True):
        for representative, members in groups:
            size = max(_norm(Theta), _norm(representative))
            if _norm(Theta - representative) <= SAME_HEAD * size:
                members.append(W)
                break
        else:
            groups.append((Theta, [W]))
    merged = [
        (Theta, np.sum(members, axis=0), sum(map(_norm, members))) for Theta, members in groups
    ]
    # Heads that cancel leave rounding behind: that is zero too.
    return [(Theta, W) for Theta, W, total in merged if _norm(W) > SAME_HEAD * total]
