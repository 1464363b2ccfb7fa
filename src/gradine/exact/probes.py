"""Find narrow heads in what is left of the outputs: the power iteration of the moments, at rank r.

The moment matrix of `gradine.exact.operator`, taken of a residual R,

    M[(c,a),(b,e)] = E[R_ra x_rb C_r[c,e]]  ~  sum_i vec(W_i) vec(Theta_i)^T,

shows the heads that are not yet found, and has noise of the size of everything that is not yet
explained. Each probe is a pair (Theta, W) that is replaced by (M^T W, M Theta) in turn, and cut to
rank r each time: of the d^2 directions in which there is noise only some 2 r d stay open, so that
heads show with far fewer examples than a count by singular values takes.

Probes are kept orthogonal, the strong ones first: a probe never disturbs a stronger one, and what
two have in common goes to the stronger. Singular vectors of heads of equal strength would be
mixtures of them; the cut tells them apart, as a mixture of two heads has twice the rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradine.kernels import side_by_side
from gradine.solvers.narrow import Heads

__all__ = ["Probes", "find_heads", "theta_moment"]

Array = NDArray[np.floating]

ROWS = 2048  # rows at a time: the products' temporaries stay near the cache
OVERSAMPLING, SWEEPS = 16, 2  # of the randomised truncation


@dataclass(frozen=True, eq=False)
class Probes:
    """What the probes have come to, the strongest first; Theta_i and W_i are of unit norm."""

    heads: Heads
    values: Array  #: <M, W_i Theta_i^T>
    edge: float  #: what probes come to where there is no head

    def clear(self, ratio: float) -> int:
        """How many stand out from the edge."""
        return int(np.sum(self.values > ratio * self.edge))


def find_heads(
    X: Array,
    R: Array,
    dim: int,
    count: int,
    rank: int,
    *,
    spare: int,
    rounds: tuple[int, int],
    ratio: float,
    rng: np.random.Generator,
    start: Array | None = None,
) -> Probes:
    """Follow ``count`` + ``spare`` probes on examples X (n, k, D) and their residual R (n, k, o).

    Between the least and the most ``rounds``, it ends when ``count`` probes stand out by ``ratio``
    from the spare ones. ``start`` (q, d, o) are the W of probes that an earlier search left.
    """
    size, out_dim = count + spare, R.shape[2]
    # Wide probes at first: a random one of rank r has next to nothing of any head.
    wide = min(4 * rank, dim, out_dim) if start is None else rank
    W = rng.standard_normal((size, dim, out_dim)).astype(X.dtype)
    if start is not None:
        W[: len(start)] = start[:size]
    values = np.arange(size, 0.0, -1.0)
    W, theta, edge, done = _orthonormal(W, values), (W, W), 0.0, 0
    for done in range(1, rounds[1] + 1):
        cut = wide if done <= 2 else rank
        theta = _cut(_theta_pass(X, R, dim, _cut(W, cut)), cut)
        theta = _cut(_orthonormal(_product(theta), values), cut)
        image = _w_pass(X, R, dim, theta)
        values = np.sqrt(np.sum(image.astype(np.float64) ** 2, axis=(1, 2)))
        W = _orthonormal(_product(_cut(image, cut)), values)
        edge = float(np.mean(np.sort(values)[: max(spare, 1)]))
        if done >= rounds[0] and int(np.sum(values > ratio * edge)) >= count:
            break
    order = np.argsort(-values)
    U, K = (part[order] for part in theta)
    V, O = (part[order] for part in _cut(W, rank))  # noqa: E741
    heads = Heads(_with_constant(U, X.shape[2]), K, V, np.ascontiguousarray(O.swapaxes(1, 2)))
    return Probes(heads, values[order], edge)


def theta_moment(X: Array, R: Array, dim: int, w: tuple[Array, Array]) -> tuple[Array, Array]:
    """Factors of the Theta_i, of unknown size, of heads (p) with these W_i = V_i O_i^T alone."""
    U, K = _cut(_theta_pass(X, R, dim, w), w[0].shape[2])
    return _with_constant(U, X.shape[2]), K


def _with_constant(U: Array, width: int) -> Array:
    """The moments say nothing of the query biases."""
    return np.pad(U, ((0, 0), (0, width - U.shape[1]), (0, 0)))


def _theta_pass(X: Array, R: Array, dim: int, W: tuple[Array, Array]) -> Array:
    """M^T W of each probe W = V O^T: (p, d, d)."""
    V, O = W  # noqa: E741
    probes, k = len(V), X.shape[1]
    values_of, down = side_by_side(V), side_by_side(O)
    total = np.zeros((dim, probes * dim), X.dtype)
    for tokens, residual in _blocks(X, R, dim):
        flat = tokens.reshape(-1, dim)
        scores = _split(residual.reshape(-1, R.shape[2]) @ down, k, probes)
        scores = scores @ _split(flat @ values_of, k, probes).swapaxes(2, 3)
        total += flat.T @ _through_keys(scores, tokens)
    return total.reshape(dim, probes, dim).swapaxes(0, 1) / np.asarray(R[..., 0].size, X.dtype)


def _w_pass(X: Array, R: Array, dim: int, theta: tuple[Array, Array]) -> Array:
    """M Theta of each probe Theta = U K^T: (p, d, o)."""
    probes, k, out_dim = len(theta[0]), X.shape[1], R.shape[2]
    queries_of, keys_of = (side_by_side(part) for part in theta)
    total = np.zeros((probes * dim, out_dim), X.dtype)
    for tokens, residual in _blocks(X, R, dim):
        flat = tokens.reshape(-1, dim)
        scores = _split(flat @ queries_of, k, probes)
        scores = scores @ _split(flat @ keys_of, k, probes).swapaxes(2, 3)
        total += _through_keys(scores, tokens).T @ residual.reshape(-1, out_dim)
    return total.reshape(probes, dim, out_dim) / np.asarray(R[..., 0].size, X.dtype)


def _blocks(X: Array, R: Array, dim: int):
    size = max(1, ROWS // X.shape[1])
    for at in range(0, len(X), size):
        part = slice(at, at + size)
        yield np.ascontiguousarray(X[part, :, :dim]), R[part]


def _split(rows: Array, k: int, probes: int) -> Array:
    return rows.reshape(-1, k, probes, rows.shape[1] // probes).transpose(0, 2, 1, 3)


def _through_keys(scores: Array, tokens: Array) -> Array:
    """sum_j w_rj x_j with w the centred scores (b, p, k, k) of the keys j != r: (b k, p d)."""
    b, probes, k, _ = scores.shape
    others = 1.0 - np.eye(k, dtype=scores.dtype)
    centred = ((np.eye(k) - 1.0 / k) / k).astype(scores.dtype)
    weights = ((scores * others) @ centred) * others
    weights = weights.transpose(0, 2, 1, 3).reshape(b, k * probes, k)
    return (weights @ tokens).reshape(b * k, -1)


def _orthonormal(matrices: Array, strengths: Array) -> Array:
    """Orthonormal in the order of their strength: each loses what it shares with stronger ones."""
    flat = matrices.reshape(len(matrices), -1).astype(np.float64)
    order = np.argsort(-strengths, kind="stable")
    basis, upper = np.linalg.qr(flat[order].T)
    signs = np.where(np.diag(upper) < 0.0, -1.0, 1.0)
    answer = np.empty_like(flat)
    answer[order] = (basis * signs).T
    return answer.reshape(matrices.shape).astype(matrices.dtype)


def _product(factors: tuple[Array, Array]) -> Array:
    return factors[0] @ factors[1].swapaxes(1, 2)


def _cut(matrices: Array, rank: int) -> tuple[Array, Array]:
    """Balanced factors (p, a, r) and (p, b, r) of the best matrices of this rank, nearly."""
    rng = np.random.default_rng(0)
    columns = min(rank + OVERSAMPLING, *matrices.shape[1:])
    sketch = matrices @ rng.standard_normal((matrices.shape[2], columns)).astype(matrices.dtype)
    for _ in range(SWEEPS):
        sketch = matrices @ (matrices.swapaxes(1, 2) @ np.linalg.qr(sketch)[0])
    basis = np.linalg.qr(sketch)[0]
    left, values, right = np.linalg.svd(basis.swapaxes(1, 2) @ matrices, full_matrices=False)
    root = np.sqrt(values[:, None, :rank])
    return basis @ left[..., :rank] * root, right[:, :rank].swapaxes(1, 2) * root
