"""Linear least squares: the projections for given attention, and a fit that trims bad rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["TrimmedFit", "solve_projections", "trimmed_least_squares"]

Array = NDArray[np.float64]

RIDGE = 1e-9  # relative; with a constant coordinate the heads share a direction


def solve_projections(features: Array, Y: Array) -> Array:
    """The W_i that fit best when the attention is given.

    ``features`` (n, m, k, D) are softmax(X Theta_i X^T) X as `gradine.layer.attention_features`
    makes them, ``Y`` is (n, k, d_out); the result (m, D, d_out) minimises
    || Y - sum_i features_i W_i ||, with the smallest norm where several do.

    The design is tall and well conditioned: one Cholesky solve of the normal equations, then one
    more for what the first left over, which brings the accuracy of an orthogonal method.
    """
    from scipy.linalg import cho_factor, cho_solve

    n, m, k, width = features.shape
    design = features.swapaxes(1, 2).reshape(n * k, m * width)
    targets = Y.reshape(n * k, -1)
    gram = design.T @ design
    gram.flat[:: len(gram) + 1] += RIDGE * np.trace(gram) / len(gram)
    factor = cho_factor(gram, overwrite_a=True)
    w = cho_solve(factor, design.T @ targets)
    w += cho_solve(factor, design.T @ (targets - design @ w))
    return w.reshape(m, width, -1)


class TrimmedFit(NamedTuple):
    """A linear map fitted to the rows that agree with it best."""

    coefficients: Array
    kept: NDArray[np.intp]
    residual: float  #: root mean square over the kept rows, relative to that of their outputs


def trimmed_least_squares(
    X: Array,
    Y: Array,
    keep: int,
    *,
    least_coverage: float = 0.3,
    shrink: float = 0.7,
    settle: int = 10,
) -> TrimmedFit:
    """Least squares on the ``keep`` rows that agree best: fit, drop the worst, fit again.

    The number of rows falls by the factor ``shrink`` a round, then ``settle`` more rounds exchange
    rows. Rows are compared by their residual relative to the size of their output. Shrinking ends
    early rather than leave a direction of X without rows: the smallest singular value of what is
    kept stays above ``least_coverage`` times the root of its number.
    """
    size = np.linalg.norm(Y, axis=1)
    size = np.where(size > 0, size, 1.0)
    rows, count, settled = np.arange(len(X)), len(X), 0
    coefficients = _fit(X, Y)
    while settled <= settle:
        count = max(keep, int(count * shrink))
        misfit = np.linalg.norm(Y - X @ coefficients, axis=1) / size
        best = np.sort(np.argsort(misfit, kind="stable")[:count])
        if np.linalg.svd(X[best], compute_uv=False)[-1] < least_coverage * np.sqrt(count):
            break
        rows, coefficients = best, _fit(X[best], Y[best])
        settled += count == keep
    error = np.linalg.norm(Y[rows] - X[rows] @ coefficients)
    return TrimmedFit(coefficients, rows, float(error / max(np.linalg.norm(Y[rows]), 1e-300)))


def _fit(X: Array, Y: Array) -> Array:
    return np.asarray(np.linalg.lstsq(X, Y, rcond=None)[0], dtype=np.float64)
