"""Ridge regression for many alphas and targets at once, by one matrix of inner products.

The matrix is centered, so that there is an intercept. Systems are solved by conjugate gradients
that a Cholesky factor for one alpha in three preconditions. The alpha of a target is the best one
on examples kept for that, and its error is measured on others. The matrix and its factors are in
single precision; solutions are not, as they are large where alpha is small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from gradine.features.iteration import conjugate_gradients

__all__ = ["BLOCK_BYTES", "best_alphas"]

Array = NDArray[np.floating]

BLOCK_BYTES = 2**28
SOLVED = 1e-4  # relative residual of a solution


def best_alphas(
    K: Array, beside: Array, Y: Array, held: Array, alphas: Sequence[float], choosing: int
) -> tuple[Array, Array]:
    """For each target the alpha that is best on the examples for choosing, and the test error.

    ``Y`` (n, t) belongs to ``K`` (n, n); ``held`` to ``beside`` (-, n), the inner products with
    examples that are kept away: the first ``choosing`` of them choose, the others test.
    """
    n = len(K)
    offset = Y.mean(axis=0)
    right = Y - offset
    means = K.mean(axis=0, dtype=np.float64)
    unit = float(np.trace(K, dtype=np.float64)) / n - means.mean()  # of the centered matrix
    chosen = np.full(Y.shape[1], np.inf)
    errors, best = np.ones(Y.shape[1]), np.full(Y.shape[1], alphas[-1])
    for start in range(0, len(alphas), 3):
        group = alphas[start : start + 3]
        precondition = _cholesky(K, means, unit * group[len(group) // 2])
        for alpha in group:
            c = conjugate_gradients(
                lambda v, alpha=alpha: _centered(_times(K, _centered(v))) + alpha * unit * v,
                right,
                precondition,
                SOLVED,
                dtype=np.float64,
            )[0]
            c = _centered(c)
            squares = (held - offset - _times(beside, c) + means @ c) ** 2
            if not np.isfinite(squares).all():
                raise ValueError(f"alpha = {alpha:g}: the solution for {n} examples is not finite")
            seen, fresh = squares[:choosing].mean(axis=0), squares[choosing:].mean(axis=0)
            better = seen < chosen
            chosen[better], best[better] = seen[better], alpha
            errors[better] = (fresh / held[choosing:].var(axis=0))[better]
    return best, errors


def _centered(v: Array) -> Array:
    return v - v.mean(axis=0)


def _times(K: Array, v: Array) -> Array:
    """K v in double precision, of which K, gigabytes of single precision, is never a copy."""
    out = np.empty((len(K), v.shape[1]))
    step = max(1, BLOCK_BYTES // (8 * K.shape[1]))
    for start in range(0, len(K), step):
        part = slice(start, start + step)
        out[part] = K[part].astype(np.float64) @ v
    return out


def _cholesky(K: Array, means: Array, alpha: float) -> Callable[[Array], Array]:
    """v to (K + alpha I)^-1 v with K centered, or with a larger alpha where rounding asks for
    it."""
    from scipy.linalg import cho_factor, cho_solve

    while True:
        matrix = K - means.astype(np.float32)
        matrix += (means.mean() - means).astype(np.float32)[:, None]
        matrix.flat[:: len(K) + 1] += np.float32(alpha)
        try:
            # The transpose is in the order of LAPACK: nothing is copied.
            factor = cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)
            return lambda v: cho_solve(factor, v.astype(np.float32), check_finite=False)
        except np.linalg.LinAlgError:
            alpha *= math.sqrt(10.0)
