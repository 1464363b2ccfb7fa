"""The moment matrix that shows the heads, as an operator: applied to matrices, never formed.

To first order in the logits, and with keys j != r only, row r of F(X) is

    Y_r = (linear in x_r and in sum_j x_j) + sum_i x_r^T Theta_i C_r W_i + ...,
    C_r = (1/k) sum_{j != r} x_j x_j^T - (1/k^2) (sum_{j != r} x_j)(sum_{l != r} x_l)^T,

so that the matched filter for the heads is the moment

    M[(c,a),(b,e)] = E[R_ra x_rb C_r[c,e]] / v,        v = Var C_r[c,e], c != e,

where R is Y without its linear part (a control variate: that part carries no heads, only noise).
C_r unites the triples of distinct tokens (r, j, l), weight -1/k^2, with the pairs (r, j, j), weight
about 1/k. A pair has k times the signal-to-noise ratio, in variance, of all triples together, and
pairs exist for two tokens, too.

C_r is symmetric, hence so is M in c and e. With M_0 = sum_i vec(W_i) vec(Theta_i)^T, of rank m,

    M = M_0 + S(M_0) + (higher order),      S(M_0)[(c,a),(b,e)] = sum_i W_i[e,a] Theta_i[b,c],

off the diagonal c = e, and rho M_0 on it, with rho = Var C_r[c,c] / v: 2 for Gaussian tokens, less
for +-1. S(M_0) is a sum of Kronecker products, spread over singular values of about
||W_i||_op ||Theta_i||_op: small against the heads' own only if their effective rank is large. It is
known as soon as M_0 is (`mirror`), and is subtracted.

Where attention is not normalised, its weights are a + b z_j to first order, key by key, and C_r has
no triples: C_r = (1/k) sum_{j != r} x_j x_j^T. All else is the same, up to the constant b.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradine.examples import FittingData, add_each

__all__ = ["LowRank", "MomentOperator", "moment_operator"]

Array = NDArray[np.float64]

WORKING_BYTES = 2**20  # temporaries of one product: they should stay in a core's cache
RIDGE = 1e-12  # relative; a coordinate that never varies makes the linear part ambiguous
PHASE = 1e4  # turns of the phase that gives an example its sign: as good as a hash of it


@dataclass(frozen=True, eq=False)
class LowRank:
    """sum_i values_i vec(left_i) vec(right_i)^T, left (q, d, o) and right (q, d, d)."""

    values: Array
    left: Array
    right: Array

    def first(self, count: int) -> LowRank:
        return LowRank(self.values[:count], self.left[:count], self.right[:count])

    def mirror(self, probes: Array, rho: float) -> Array:
        """S(M_0) applied to ``probes`` (L, d, d), with M_0 this matrix: (L, d, o).

        On the diagonal c = e, (rho - 1) M_0 takes the place of S(M_0) = M_0.
        """
        left = self.values[:, None, None] * self.left
        answer = np.zeros((len(probes), *self.left.shape[1:]))
        for A, B in zip(left, self.right, strict=True):
            answer += B.T @ probes @ A
            answer += (rho - 2.0) * np.einsum("bc,lbc->lc", B, probes)[:, :, None] * A
        return answer

    def mirror_adjoint(self, probes: Array, rho: float) -> Array:
        """The transpose of `mirror`: ``probes`` (L, d, o) to (L, d, d)."""
        left = self.values[:, None, None] * self.left
        answer = np.zeros((len(probes), *self.right.shape[1:]))
        for A, B in zip(left, self.right, strict=True):
            answer += B @ probes @ A.T
            answer += (rho - 2.0) * np.einsum("ca,lca->lc", A, probes)[:, None, :] * B
        return answer

    def overlap(self) -> float:
        """Cosine between this matrix M_0 and S(M_0): 1 if it is its own mirror image."""
        square = float(np.sum(self.values**2))
        if square == 0.0:
            return 0.0
        weighted = self.values[:, None, None] * self.left
        return float(np.sum(weighted * self.mirror(self.right, 2.0))) / square


@dataclass(frozen=True, eq=False)
class MomentOperator:
    """M and its null: the same sum with a random sign for each example, so that only noise stays.

    Both are applied in one pass: the last ``nulls`` of the probes meet the null.
    """

    data: FittingData
    linear: Array  #: (2 d + 1, o) the regression of Y_r on x_r, sum_{j != r} x_j and 1
    directions: Array  #: (k d,) whose phase with an example decides its sign
    norm: float  #: sum over examples and rows, times this, is the moment
    rho: float  #: Var C_r[c,c] / Var C_r[c,e]
    examples: int
    energy: float  #: share of the outputs' variance that is left after the linear part
    normalised: bool = True  #: attention adds up to 1

    def apply(self, probes: Array, nulls: int = 0) -> Array:
        """sum_{b,e} M[(c,a),(b,e)] B[b,e] for each probe B: (L, d, d) to (L, d, o)."""
        total = self._pass(_Apply(self._part(probes, nulls)))
        return self.norm * total.reshape(len(probes), self.data.dim, -1)

    def adjoint(self, probes: Array, nulls: int = 0) -> Array:
        """sum_{c,a} M[(c,a),(b,e)] A[c,a] for each probe A: (L, d, o) to (L, d, d)."""
        d = self.data.dim
        total = self._pass(_Adjoint(self._part(probes.swapaxes(1, 2), nulls)))
        return self.norm * total.reshape(d, len(probes), d).swapaxes(0, 1)

    def _part(self, probes: Array, nulls: int) -> _Probing:
        d = self.data.dim
        return _Probing(d, probes, nulls, self.linear, self.directions, self.normalised)

    def _pass(self, kernel: _Apply | _Adjoint) -> Array:
        return self.data.reduce(kernel, np.add, np.ndarray)


@dataclass(frozen=True, eq=False)
class _Probing:
    """What `MomentOperator` does with a block: a few examples at a time."""

    dim: int
    probes: Array
    nulls: int
    linear: Array
    directions: Array
    normalised: bool

    def parts(self, X: Array, Y: Array) -> Iterator[tuple[Array, Array, Array]]:
        """Tokens, what the linear part leaves of the outputs, and signs."""
        X = np.ascontiguousarray(X[..., : self.dim])
        R = Y - _linear_design(X) @ self.linear
        phase = X.reshape(len(X), -1) @ self.directions
        signs = np.where(phase - np.floor(phase) < 0.5, -1.0, 1.0)
        widest = max(self.dim, Y.shape[2])
        size = max(1, WORKING_BYTES // (8 * X.shape[1] * len(self.probes) * widest))
        for start in range(0, max(len(X), 1), size):  # an empty block still gives a sum: zero
            part = slice(start, start + size)
            yield X[part], R[part], signs[part]

    def weighted(self, rows: Array, X: Array, signs: Array) -> Array:
        weighted = _through_keys(rows, X, self.probes, self.normalised)
        _flip(weighted, signs, self.nulls)
        return weighted.reshape(len(weighted), -1)


@dataclass(frozen=True, eq=False)
class _Apply:
    probing: _Probing

    def __call__(self, X: Array, Y: Array) -> Array:
        total = np.zeros(())
        for tokens, R, signs in self.probing.parts(X, Y):
            weighted = self.probing.weighted(tokens, tokens, signs)
            total = total + weighted.T @ R.reshape(-1, R.shape[2])
        return total


@dataclass(frozen=True, eq=False)
class _Adjoint:
    probing: _Probing

    def __call__(self, X: Array, Y: Array) -> Array:
        total = np.zeros(())
        for tokens, R, signs in self.probing.parts(X, Y):
            weighted = self.probing.weighted(R, tokens, signs)
            total = total + tokens.reshape(-1, tokens.shape[2]).T @ weighted
        return total


def moment_operator(data: FittingData, seed: int, *, normalised: bool = True) -> MomentOperator:
    """One pass: the linear part of Y, and the fourth moment of the tokens."""
    k, d = data.seq_len, data.dim
    gram, cross, sums = data.reduce(_LinearPart(d), add_each, list)
    n, fourth, squares = sums
    ridge = RIDGE * np.trace(gram) / len(gram)
    linear = np.linalg.solve(gram + ridge * np.eye(len(gram)), cross)
    explained = np.sum(linear * cross)
    mean_square = np.sum(cross[-1] ** 2) / (n * k)
    triple = 1 / k**2 if normalised else 0.0
    keys, pair = k - 1, 1 / k - triple
    variance = keys * pair**2 + keys * (keys - 1) * triple**2
    diagonal = keys * pair**2 * (fourth / (n * k * d) - 1) + 2 * keys * (keys - 1) * triple**2
    return MomentOperator(
        data=data,
        linear=linear,
        directions=PHASE * np.random.default_rng(seed).standard_normal(k * d),
        norm=float(1.0 / (n * k * variance)),
        rho=float(diagonal / variance),
        examples=int(n),
        energy=float((squares - explained) / max(squares - mean_square, np.finfo(float).tiny)),
        normalised=normalised,
    )


@dataclass(frozen=True)
class _LinearPart:
    """Sums of a block for the regression on x_r, sum_{j != r} x_j and 1; fourth moments."""

    dim: int

    def __call__(self, X: Array, Y: Array) -> list[Array]:
        X = X[..., : self.dim]
        design = _linear_design(X).reshape(-1, 2 * self.dim + 1)
        Y = Y.reshape(-1, Y.shape[2])
        sums = [float(len(X)), np.sum(X**4), np.sum(Y**2)]
        return [design.T @ design, design.T @ Y, np.array(sums)]


def _linear_design(X: Array) -> Array:
    """x_r, sum_{j != r} x_j and 1, side by side: (n, k, 2 d + 1)."""
    others = X.sum(axis=1, keepdims=True) - X
    return np.concatenate([X, others, np.ones((*X.shape[:2], 1))], axis=2)


def _through_keys(rows: Array, X: Array, probes: Array, normalised: bool) -> Array:
    """C_r B^T q_r for each row q_r of ``rows`` (n, k, p) and probe B (L, p, d): (n k, L, d).

    The scores s_rj = q_r^T B x_j of all probes come from one large product; then C_r weighs each
    key j != r by (s_rj - (1/k) sum_{l != r} s_rl) / k; without the mean, if not normalised.
    """
    n, k, d = X.shape
    side_by_side = probes.transpose(1, 0, 2).reshape(probes.shape[1], -1)
    queries = (rows.reshape(n * k, -1) @ side_by_side).reshape(n, -1, d)
    if k > 2 * d:  # measured: from there on it is twice as fast, and slower below k = d
        return _by_grams(queries, X, normalised)
    scores = queries @ X.swapaxes(1, 2)  # (n, k L, k)
    # Long rows and one thin product: loops over the k keys of a score would take most of the time.
    others = np.repeat(1.0 - np.eye(k), len(probes), axis=0)
    scores *= others
    scores = (scores.reshape(-1, k) @ ((np.eye(k) - normalised / k) / k)).reshape(n, -1, k)
    scores *= others
    return (scores @ X).reshape(n * k, len(probes), d)


def _by_grams(queries: Array, X: Array, normalised: bool) -> Array:
    """The same for long sequences, with no scores: sum_j s_rj x_j = (sum_j x_j x_j^T) B^T q_r."""
    n, k, d = X.shape
    total = X.sum(axis=1, keepdims=True)
    own = X[:, :, None]  # (n, k, 1, d)
    answer = (queries @ (X.swapaxes(1, 2) @ X)).reshape(n, k, -1, d)
    queries = queries.reshape(n, k, -1, d)
    own_score = (queries @ own.swapaxes(2, 3))[..., 0]
    answer -= own_score[..., None] * own
    if normalised:
        scores = (queries.reshape(n, -1, d) @ total.swapaxes(1, 2)).reshape(own_score.shape)
        mean = (scores - own_score) / k
        answer -= mean[..., None] * (total[:, :, None] - own)
    answer /= k
    return answer.reshape(n * k, -1, d)


def _flip(weighted: Array, signs: Array, nulls: int) -> None:
    """Give the last ``nulls`` probes the sign of each example."""
    if nulls:
        rows = np.repeat(signs, len(weighted) // max(len(signs), 1))
        weighted[:, -nulls:] *= rows[:, None, None]
