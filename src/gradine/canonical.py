"""The one form of a layer that examples can identify."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradine.attention_functions import SOFTMAX, AttentionFunction

__all__ = ["canonical_form", "unit_scale"]

Array = NDArray[np.float64]

SAME_HEAD = 1e-12  # relative difference of Theta below which two heads cannot be told apart
UNIT = 1e-15  # a norm this near to 1 is 1: the form is its own canonical


def canonical_form(
    theta: Array, w: Array, constant: bool, function: AttentionFunction = SOFTMAX
) -> tuple[Array, Array]:
    """(theta, w) of the same function, as `AttentionLayer.canonical` describes it."""
    width, out_dim = w.shape[1:]
    shared = constant and function.normalised  # the constant's feature is 1 for every head
    dim = width - shared
    theta = theta.copy()
    if constant and function.shift_invariant:
        theta[:, :, -1] = 0.0
    if constant and function.mirror is not None:
        _unmirror(theta, function.mirror)
    if function.scale_free:
        theta, w = unit_scale(theta, w)
        seen = np.any(theta != 0.0, axis=(1, 2))  # the others have no weights at all
        theta, w = theta[seen], w[seen]
    heads = sorted(
        _merge_heads(theta, w[:, :dim]),
        key=lambda head: (-_norm(head[1]), -_norm(head[0]), head[0].tobytes()),
    )
    if not heads:  # nothing but the bias is left: one head that does nothing carries it
        heads = [(np.zeros((width, width)), np.zeros((dim, out_dim)))]
    new_w = np.zeros((len(heads), width, out_dim))
    new_w[:, :dim] = [head[1] for head in heads]
    if shared:
        rows = w[:, -1]
        # Shares that are equal already stay to the last bit: the form is its own canonical.
        settled = len(heads) == len(rows) and bool((rows == rows[0]).all())
        new_w[:, -1] = rows[0] if settled else rows.sum(axis=0) / len(heads)
    return np.stack([head[0] for head in heads]), new_w


def unit_scale(theta: Array, w: Array) -> tuple[Array, Array]:
    """(Theta_i / c_i, c_i W_i) with c_i the Frobenius norm of Theta_i; where it is 0 nothing moves.

    >>> theta, w = unit_scale(np.full((1, 2, 2), 3.0), np.ones((1, 2, 1)))
    >>> theta[0, 0, 0], w[0, 0, 0]
    (np.float64(0.5), np.float64(6.0))
    """
    norms = np.linalg.norm(theta, axis=(1, 2))[:, None, None]
    norms = np.where((norms == 0.0) | (np.abs(norms - 1.0) <= UNIT), 1.0, norms)
    return theta / norms, w * norms


def _unmirror(theta: Array, about: float) -> None:
    """Of Theta and its mirror image, -Theta - 2 a in the corner of the constant, keep one.

    That with the corner above -a; where both have it there, that whose largest entry is positive.
    """
    for Theta in theta:
        Theta[-1, -1] += about
        side = Theta[-1, -1] or Theta.flat[np.argmax(np.abs(Theta))]
        if side < 0.0:
            Theta *= -1.0
        Theta[-1, -1] -= about


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
