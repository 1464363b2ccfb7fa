"""Narrow heads: Theta_i = Q_i K_i^T and W_i = V_i O_i, known from a model or found by SVD."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Factors", "balanced_factors", "finite_array", "nearest_halves"]

Array = NDArray[np.float64]

#: How far factors may be from the matrices of their head, relative to the matrix.
SAME_PRODUCT = 1e-10
#: The same relative to the factors: what rounding does where large factors give a small product.
ROUNDING = 1e-14


def finite_array(name: str, value: ArrayLike, axes: int) -> Array:
    """A read-only float64 copy, or a ``ValueError`` that says what is wrong with ``name``."""
    with np.errstate(invalid="ignore"):  # NaN is looked for below
        array = np.array(value, dtype=np.float64, order="C")  # a copy: nobody else can change it
    if array.ndim != axes or 0 in array.shape:
        expected = "one axis, not empty" if axes == 1 else f"{_WORDS[axes]} axes, none empty"
        raise ValueError(f"{name} has shape {array.shape}; expected {expected}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has NaN or infinite entries; expected finite numbers")
    array.setflags(write=False)
    return array


_WORDS = {2: "two", 3: "three"}


@dataclass(frozen=True, eq=False, repr=False)
class Factors:
    """Queries, keys, values and outputs of every head; read-only float64.

    Theta_i = Q_i K_i^T: the queries carry the 1/sqrt(h) of a trained layer. W_i = V_i O_i, and
    with a ``bias`` an equal share of it is added to the constant row of each W_i. It stands apart
    because a W_i with its share in it would have a rank of one more.

    Factors have a gauge: (Q A, K A^-T) and (V B, B^-1 O) are the same head.

    >>> ones = np.ones((2, 5, 1))
    >>> factors = Factors(ones, ones, ones, np.ones((2, 1, 4)), bias=np.ones(4))
    >>> factors, factors.theta().shape, factors.w()[0, 3:].tolist()
    (Factors(heads=2, rank=1), (2, 5, 5), [[1.0, 1.0, 1.0, 1.0], [1.5, 1.5, 1.5, 1.5]])

    >>> factors.check_product(factors.theta(), 2.0 * factors.w())
    Traceback (most recent call last):
    ValueError: factors of head 0 give another w (relative difference 0.5; expected at most 1e-10)
    """

    queries: Array  #: (m, D, h)
    keys: Array  #: (m, D, h)
    values: Array  #: (m, D, v); v = h in a trained layer
    outputs: Array  #: (m, v, d_out)
    bias: Array | None = None  #: (d_out,)

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if value is not None:
                array = finite_array(item.name, value, 1 if item.name == "bias" else 3)
                object.__setattr__(self, item.name, array)
        heads, width, rank = self.queries.shape
        _expect("keys", self.keys, (heads, width, rank))
        _expect("values", self.values, (heads, width, self.value_rank))
        _expect("outputs", self.outputs, (heads, self.value_rank, self.outputs.shape[2]))
        if self.bias is not None:
            _expect("bias", self.bias, (self.outputs.shape[2],))

    def __repr__(self) -> str:
        same = self.rank == self.value_rank
        rank = f"rank={self.rank}" if same else f"rank={self.rank}, value_rank={self.value_rank}"
        return f"Factors(heads={len(self.queries)}, {rank})"

    @property
    def rank(self) -> int:
        """h, the columns of queries and keys."""
        return self.queries.shape[2]

    @property
    def value_rank(self) -> int:
        """v, the columns of values."""
        return self.values.shape[2]

    @property
    def narrow(self) -> bool:
        """Whether products with the factors are less work than products with Theta and W."""
        return 2 * max(self.rank, self.value_rank) <= self.queries.shape[1]

    def theta(self) -> Array:
        """Theta_i = Q_i K_i^T, (m, D, D)."""
        return self.queries @ self.keys.swapaxes(1, 2)

    def w(self) -> Array:
        """W_i = V_i O_i, with its share of the bias in the last row, (m, D, d_out)."""
        w = self.values @ self.outputs
        if self.bias is not None:
            w[:, -1] += self.bias / len(w)
        return w

    def check_product(self, theta: Array, w: Array) -> None:
        """``ValueError`` unless these are factors of these heads."""
        sizes = _norms(self.queries) * _norms(self.keys)
        _check_equal("theta", self.theta(), theta, sizes)
        _check_equal("w", self.w(), w, _norms(self.values) * _norms(self.outputs))


def balanced_factors(
    theta: Array, w: Array, constant: bool, rank: int | None, tolerance: float
) -> Factors:
    """Factors of the same function by truncated SVD, Q and K (V and O) with equal column norms.

    With a constant coordinate only what can be seen is factored: the constant key column of Theta
    is left out, and the constant rows of the W_i become the bias. Both would raise the rank.
    ``rank`` None is the smallest that keeps every head to ``tolerance``; a rank that does not is a
    ``ValueError``.
    """
    dim = theta.shape[1] - constant
    if rank is not None and not 1 <= rank <= dim:
        raise ValueError(f"rank is {rank}; expected between 1 and {dim}")
    if not 0 <= tolerance < 1:
        raise ValueError(f"tolerance is {tolerance}; expected at least 0 and below 1")
    queries, keys = _balanced_halves("Theta", theta[:, :, :dim], rank, tolerance)
    values, outputs = _balanced_halves("W", w[:, :dim], rank, tolerance)
    if not constant:
        return Factors(queries, keys.swapaxes(1, 2), values, outputs)
    row = ((0, 0), (0, 1), (0, 0))  # of zeros, for the constant coordinate
    keys, values = np.pad(keys.swapaxes(1, 2), row), np.pad(values, row)
    return Factors(queries, keys, values, outputs, bias=w[:, -1].sum(axis=0))


def _balanced_halves(
    name: str, matrices: Array, rank: int | None, tolerance: float
) -> tuple[Array, Array]:
    """(m, a, b) as (m, a, r) times (m, r, b), singular values shared out evenly."""
    left, singular, right = np.linalg.svd(matrices, full_matrices=False)
    # lost[i, r]: the part of head i, relative to the whole, that a rank of r leaves out
    scaled = singular / np.where(singular[:, :1] > 0, singular[:, :1], 1.0)
    lost = np.pad(np.sqrt(np.cumsum(scaled[:, ::-1] ** 2, axis=1)[:, ::-1]), ((0, 0), (0, 1)))
    lost /= np.maximum(lost[:, :1], 1.0)  # of a head that is not zero it is at least 1
    ranks = np.argmax(lost <= tolerance, axis=1)
    if rank is None:
        rank = max(1, int(ranks.max()))
    if ranks.max() > rank:
        head = int(np.argmax(ranks))
        raise ValueError(
            f"head {head} has {name} of rank {ranks[head]}; expected at most {rank}, "
            f"which leaves out {lost[head, rank]:.2g} of it (tolerance {tolerance:.2g})"
        )
    return _halves(left, singular, right, rank)


def nearest_halves(matrices: Array, rank: int) -> tuple[Array, Array]:
    """The nearest (m, a, r) times (m, r, b), singular values shared out evenly."""
    return _halves(*np.linalg.svd(matrices, full_matrices=False), rank)


def _halves(left: Array, singular: Array, right: Array, rank: int) -> tuple[Array, Array]:
    root = np.sqrt(singular[:, :rank])
    return left[:, :, :rank] * root[:, None, :], root[:, :, None] * right[:, :rank]


def _expect(name: str, array: Array, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; expected {shape}")


def _norms(matrices: Array) -> Array:
    return np.linalg.norm(matrices, axis=(1, 2))


def _check_equal(name: str, product: Array, matrices: Array, sizes: Array) -> None:
    if product.shape != matrices.shape:
        raise ValueError(f"factors give {name} of shape {product.shape}; expected {matrices.shape}")
    errors, norms = _norms(product - matrices), _norms(matrices)
    wrong = errors > SAME_PRODUCT * norms + ROUNDING * sizes
    if wrong.any():
        head = int(np.argmax(wrong))
        error = errors[head] / (norms[head] or 1.0)
        raise ValueError(
            f"factors of head {head} give another {name} (relative difference {error:.2g}; "
            f"expected at most {SAME_PRODUCT:.0e})"
        )
