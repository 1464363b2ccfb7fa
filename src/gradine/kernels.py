"""The arithmetic of attention, written once for numpy arrays and torch tensors alike.

Every function takes arrays of one library and gives arrays of the same library, on the same
device: the array API standard has all that is needed but triangular solves, which are at the end.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace, device, is_torch_array

__all__ = [
    "cast",
    "cholesky",
    "features_of",
    "like",
    "logits_of",
    "namespace",
    "narrowed",
    "row_sums",
    "share_derivative",
    "side_by_side",
    "softmax",
    "softmax_derivative",
    "solve_cholesky",
    "solve_lower",
    "to_numpy",
]

#: An array of numpy, torch or any other library of the array API.
AnyArray = Any

#: Type of array to its library: looking it up costs as much as a small product.
_NAMESPACES: dict[type, Any] = {}


def namespace(array: AnyArray, *others: AnyArray) -> Any:
    """The library that the arrays belong to, with the names of the array API."""
    if others:
        return array_namespace(array, *others)
    kind = type(array)
    if kind not in _NAMESPACES:
        _NAMESPACES[kind] = array_namespace(array)
    return _NAMESPACES[kind]


def like(value: AnyArray, example: AnyArray) -> AnyArray:
    """A numpy array as an array of the example's library, type and device."""
    xp = namespace(example)
    if xp is not namespace(value):
        value = value.copy()  # torch cannot hold memory that is read-only
    return xp.asarray(value, dtype=example.dtype, device=device(example))


def cast(array: AnyArray, dtype: Any) -> AnyArray:
    return array if array.dtype == dtype else namespace(array).astype(array, dtype)


def to_numpy(array: AnyArray) -> Any:
    """The same numbers as a float64 numpy array."""
    import numpy as np

    if is_torch_array(array):
        array = array.detach().cpu().numpy()
    return np.asarray(array, dtype=np.float64)


def softmax(logits: AnyArray) -> AnyArray:
    """Softmax over the last axis, safe for logits of any size."""
    xp = namespace(logits)
    weights = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
    weights /= xp.sum(weights, axis=-1, keepdims=True)
    return weights


def softmax_derivative(weights: AnyArray, change: AnyArray) -> AnyArray:
    """How softmax weights change with their logits: p_j (c_j - sum_l p_l c_l).

    The matrix behind it is symmetric, so this is its transpose as well. ``change`` is overwritten.
    """
    return share_derivative(weights, weights, change)


def share_derivative(weights: AnyArray, slopes: AnyArray, change: AnyArray) -> AnyArray:
    """How shares g_j / sum_l g_l change with what g depends on: s_j c_j - p_j sum_l s_l c_l.

    ``slopes`` are s_j = g_j' / sum_l g_l. ``change`` is overwritten.
    """
    change *= slopes
    change -= weights * row_sums(change)
    return change


def row_sums(array: AnyArray) -> AnyArray:
    """Sums over the last axis, which stays with length 1.

    Sums over the few keys are slow as sums, and fast as a product.
    """
    xp, k = namespace(array), array.shape[-1]
    ones = xp.ones((k, 1), dtype=array.dtype, device=device(array))
    return xp.reshape(xp.reshape(array, (-1, k)) @ ones, (*array.shape[:-1], 1))


def side_by_side(matrices: AnyArray) -> AnyArray:
    """(m, a, b) as one a x (m b) matrix: one large product instead of m small ones."""
    xp = namespace(matrices)
    m, a, b = matrices.shape
    return xp.reshape(xp.permute_dims(matrices, (1, 0, 2)), (a, m * b))


def logits_of(X: AnyArray, theta: AnyArray) -> AnyArray:
    """x_r^T Theta_i x_j as (n, k m, k), row r m + i; keys use the first d coordinates.

    ``X`` is (n, k, D) and ``theta`` (m, D, d).
    """
    xp = namespace(X)
    n, k, width = X.shape
    m, _, d = theta.shape
    queries = xp.reshape(X, (n * k, width)) @ side_by_side(theta)
    keys = X if d == width else X[:, :, :d]
    return xp.reshape(queries, (n, k * m, d)) @ xp.matrix_transpose(keys)


def features_of(X: AnyArray, weights: AnyArray) -> AnyArray:
    """What the heads hand to their W_i, attention times X, as (n k, m D).

    ``weights`` (n, k m, k) are those of the logits in `logits_of`, row by row.
    """
    xp = namespace(X)
    n, k, width = X.shape
    heads = weights.shape[1] // k
    return xp.reshape(weights @ X, (n * k, heads * width))


def narrowed(X: AnyArray, factors: AnyArray) -> AnyArray:
    """Queries, keys or values of narrow heads: (n, k, D) and (m, D, h) to (n, m, k, h)."""
    xp = namespace(X)
    n, k, width = X.shape
    m, _, h = factors.shape
    rows = xp.reshape(X, (n * k, width)) @ side_by_side(factors)
    return xp.permute_dims(xp.reshape(rows, (n, k, m, h)), (0, 2, 1, 3))


def cholesky(matrix: AnyArray) -> AnyArray:
    """The lower Cholesky factor; ``FloatingPointError`` if the matrix is not positive."""
    xp = namespace(matrix)
    try:
        return xp.linalg.cholesky(matrix)
    except Exception as error:  # each library has its own name for this
        raise FloatingPointError("matrix is not positive definite") from error


def solve_lower(factor: AnyArray, right: AnyArray) -> AnyArray:
    """L^-1 B for a lower triangular L."""
    if is_torch_array(factor):
        import torch

        return torch.linalg.solve_triangular(factor, right, upper=False)
    from scipy.linalg import solve_triangular

    return solve_triangular(factor, right, lower=True, check_finite=False)


def solve_cholesky(factor: AnyArray, right: AnyArray) -> AnyArray:
    """(L L^T)^-1 B."""
    if is_torch_array(factor):
        import torch

        return torch.cholesky_solve(right, factor)
    from scipy.linalg import cho_solve

    return cho_solve((factor, True), right, check_finite=False)
