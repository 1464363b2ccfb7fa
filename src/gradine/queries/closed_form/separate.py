"""The spaces that heads write to, from M(C) = sum_h Theta_h C W_h at a few C.

With Theta_h = Q_h K_h^T and W_h = V_h O_h all of them are  M(C) = Q B(C) O,  where B(C) is block
diagonal with the blocks K_h^T C V_h, Q puts the Q_h side by side and O the O_h below each other. If
the ranks of the heads add up to at most d, then  M(C_0)^+ M(C_1) = O^-1 (B_0^-1 B_1) O : its left
eigenvectors lie each in the space of one head, and two of them belong together if another C
couples them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["FORMS", "separate", "split_by_spaces"]

Array = NDArray[np.float64]

FORMS = 5  # matrices C: two for the eigenvectors, the others say which of these belong together
CLEAR = 0.01  # ratio of neighbouring singular values that ends a rank
FAINT = 1e3  # times the error: singular values that it may have made


def separate(forms: Array, error: float, heads: int | None = None) -> list[Array]:
    """Orthonormal rows that span what each head writes to; with ``heads`` None they are counted.

    ``forms`` (q, d, d_out) are M(C), known to a relative ``error``.
    """
    left = np.linalg.svd(np.concatenate(forms, axis=1), full_matrices=False)
    right = np.linalg.svd(np.concatenate(forms, axis=0), full_matrices=False)[2]
    rank = _rank(left[1], error)
    narrow, S = left[0][:, :rank].T @ forms @ right[:rank].T, right[:rank]
    steps = np.linalg.solve(narrow[0], narrow[1:]).swapaxes(1, 2)
    _, E = np.linalg.eig(steps[0])
    affinity = np.zeros((rank, rank))
    for step in steps[1:]:
        coupling = np.abs(np.linalg.solve(E, step @ E)) + 1e-300
        affinity += coupling / np.sqrt(np.outer(coupling.sum(axis=1), coupling.sum(axis=0)))
    affinity = np.maximum(affinity, affinity.T)
    np.fill_diagonal(affinity, affinity.max())
    labels = _clusters(affinity**2, heads, error)
    spaces = []
    for label in range(labels.max() + 1):
        members = E[:, labels == label]
        both = np.concatenate([np.real(members), np.imag(members)], axis=1)
        basis = np.linalg.svd(both, full_matrices=False)[0][:, : members.shape[1]]
        spaces.append(basis.T @ S)
    return spaces


def split_by_spaces(total: Array, spaces: list[Array]) -> Array:
    """W_h (m, d, d_out) of heads that write to spaces of their own and add up to ``total``."""
    bounds = np.cumsum([len(space) for space in spaces])[:-1]
    parts = np.split(np.linalg.pinv(np.concatenate(spaces)), bounds, axis=1)
    return np.array([total @ part @ space for part, space in zip(parts, spaces, strict=True)])


def _rank(values: Array, error: float) -> int:
    """Where singular values fall to what may be error, if they fall clearly; else all of them.

    Weak directions that are cut off would mix the blocks; those that are noise hurt less.
    """
    values = np.maximum(values / values[0], 1e-15)
    falls = np.where(values[1:] < FAINT * error + 1e-14, values[1:] / values[:-1], 1.0)
    if len(falls) and falls.min() < CLEAR:
        return int(np.argmin(falls)) + 1
    return len(values)


def _clusters(affinity: Array, heads: int | None, error: float) -> NDArray[np.intp]:
    """Spectral clustering: labels 0, 1, ...; a gap of the eigenvalues counts the clusters."""
    from scipy.cluster.hierarchy import fcluster, linkage

    degree = affinity.sum(axis=1)
    values, vectors = np.linalg.eigh(affinity / np.sqrt(np.outer(degree, degree)))
    values, vectors = values[::-1], vectors[:, ::-1]
    if heads is None:
        # Blocks that are apart have the value 1 each, up to what the error couples.
        missing = np.clip(1.0 - values, 0.0, 1.0) + max(math.sqrt(error), 1e-6)
        ratios = missing[1:] / missing[:-1]
        heads = int(np.argmax(ratios)) + 1 if len(values) > 1 else 1
    heads = min(heads, len(values))
    if heads == len(values):
        return np.arange(heads)
    points = vectors[:, :heads]
    points = points / np.linalg.norm(points, axis=1, keepdims=True)
    labels = fcluster(linkage(points, "average"), heads, "maxclust") - 1
    return np.unique(labels, return_inverse=True)[1]
