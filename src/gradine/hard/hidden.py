r"""Layers that no efficient learner is known for: parities and rounded products in two tokens.

Chen and Li show that the exponential dependence on the number of heads cannot be avoided in the
worst case, already with k = 2 tokens of +-1 coordinates. These are such layers. With
:math:`z_j = x_{1j} x_{2j}` and :math:`\Theta = \mathrm{diag}(D)`, the logits of row 1 differ by
:math:`\sum_j D_j (z_j - 1)`, and a head with :math:`W = w\, e_a e_b^\top` shows only where
:math:`z_a = -1`, where :math:`D_a` is a free bias. So a head is a step of
:math:`v = \sum_{j \ne a} c_j (1 - z_j) / 2`,

.. math:: -w \tanh(\beta (v - \theta) / 2), \qquad
          D_j = -\tfrac12 \beta c_j, \quad D_a = \tfrac12 \beta \theta,

and a sum of steps is any function :math:`G(v)` of an integer. Row 1 of column b is

.. math:: y = G(v)\, (x_{1a} - x_{2a}) / 2,

row 2 is the same with the tokens swapped, and all other columns are zero. A head with
:math:`\Theta = 0` takes away what the weights of the others add up to where :math:`z_a = 1`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradine.checks import whole_number
from gradine.inputs import Seed
from gradine.layer import AttentionLayer

__all__ = ["Hidden", "RoundedModulus", "SparseParity", "rounded_modulus", "sparse_parity"]

Array = NDArray[np.float64]

STEEPNESS = 4.0  # of the steps of a parity, whose weights are solved for
ROUNDING_STEEPNESS = 30.0  # of steps that are taken as they are: 2 e^(-beta / 2) is left of each
RAMP = 0.05  # slope of the one head that is nearly linear
CONSTANT = 20.0  # logit at which a head is a constant
MOST_ERROR = 1e-9  # of a parity by half as many heads
MOST_PRODUCTS = 2**22  # values of a product that are looked through for steps: some 200 MB
MOST_MODULUS = 2**30  # products with a number of levels are whole numbers of 64 bits
MOST_NUMBERS = 2**26  # in the attention matrices of a layer: half a GiB, and as much for W


class Hidden(Protocol):
    """A layer, and the function that it hides."""

    @property
    def layer(self) -> AttentionLayer: ...

    def __call__(self, X: Array) -> Array:
        """What the layer gives for +-1 tokens (n, 2, d), without the layer."""
        ...


@dataclass(frozen=True, eq=False)
class SparseParity:
    """(x_1a - x_2a) / 2 times the product of x_1j x_2j over the secret coordinates.

    >>> hidden = sparse_parity(dim=6, sparsity=3, seed=1)
    >>> len(hidden.support), hidden.value in hidden.support
    (3, False)
    """

    layer: AttentionLayer
    support: tuple[int, ...]  #: the secret
    value: int  #: a: the coordinate that is read
    output: int  #: b: the column that is written

    def __call__(self, X: Array) -> Array:
        X = _pairs(X, self.layer.dim)
        signs = np.prod(X[:, 0, list(self.support)] * X[:, 1, list(self.support)], axis=1)
        return _written(X, signs, self.value, self.output)


@dataclass(frozen=True, eq=False)
class RoundedModulus:
    """(x_1a - x_2a) / 2 times g(v), up to a constant: a product with a secret vector, taken modulo
    q and rounded to p levels.

    >>> hidden = rounded_modulus(dim=9, modulus=8, levels=2)
    >>> X = np.ones((1, 2, 9))
    >>> X[0, 1] = -1.0  # the tokens differ everywhere
    >>> v = hidden.product(X)
    >>> bool(v[0] == hidden.secret.sum())
    True
    >>> bool((hidden.decode(X, hidden.layer(X)) == hidden.rounded(v)).all())
    True
    """

    layer: AttentionLayer
    secret: NDArray[np.int64]  #: c (d,), zero at ``value``
    modulus: int  #: q
    levels: int  #: p
    value: int
    output: int

    def product(self, X: Array) -> NDArray[np.int64]:
        """v: the sum of c_j over the coordinates in which the tokens differ."""
        X = _pairs(X, self.layer.dim)
        return ((X[:, 0] != X[:, 1]) @ self.secret).astype(np.int64)

    def rounded(self, v: NDArray[np.int64]) -> NDArray[np.int64]:
        """g(v) = round(p / q (v mod q)) mod p, halves up."""
        return _rounded(v, self.modulus, self.levels)

    @property
    def centre(self) -> float:
        """What is subtracted from g: the mean of its values at both ends of the range of v."""
        ends = np.array([np.minimum(self.secret, 0).sum(), np.maximum(self.secret, 0).sum()])
        return float(self.rounded(ends).mean())

    def __call__(self, X: Array) -> Array:
        X = _pairs(X, self.layer.dim)
        levels = self.rounded(self.product(X)) - np.float64(self.centre)
        return _written(X, levels, self.value, self.output)

    def decode(self, X: Array, Y: Array) -> NDArray[np.int64]:
        """g from what the layer gives, for examples in which the tokens differ at ``value``."""
        X, Y = _pairs(X, self.layer.dim), np.asarray(Y, np.float64)
        if Y.shape != X.shape:
            raise ValueError(f"Y has shape {Y.shape}; expected {X.shape}, that of X")
        return np.rint(X[:, 0, self.value] * Y[:, 0, self.output] + self.centre).astype(np.int64)


def sparse_parity(
    dim: int, sparsity: int, heads: int | None = None, seed: Seed = 0
) -> SparseParity:
    """A layer that computes the parity of ``sparsity`` secret bits, exactly.

    It has one head for each bit, one more for a constant if their number is even, and the head with
    Theta = 0. ``heads`` may ask for about half as many where ``sparsity`` is odd:
    (sparsity - 1) / 2 steps, a ramp and the last one.

    >>> hidden = sparse_parity(dim=8, sparsity=3)
    >>> X = np.random.default_rng(0).choice([-1.0, 1.0], (100, 2, 8))
    >>> bool(np.abs(hidden.layer(X) - hidden(X)).max() < 1e-12)
    True
    >>> hidden.layer.n_heads, sparse_parity(dim=8, sparsity=5, heads=4).layer.n_heads
    (4, 4)
    """
    whole_number("dim", dim, 2)
    whole_number("sparsity", sparsity, 1)
    if sparsity > dim - 1:
        raise ValueError(f"sparsity is {sparsity}; expected at most dim - 1 = {dim - 1}")
    full, half = sparsity + 1 + (sparsity % 2 == 0), (sparsity + 3) // 2
    if heads is not None and heads != full and (sparsity % 2 == 0 or heads != half):
        fewer = f" or {half}" if sparsity % 2 else ""
        raise ValueError(f"heads is {heads}; a parity of {sparsity} bits takes {full}{fewer}")
    _check_numbers(full if heads is None else heads, dim)
    rng = np.random.default_rng(seed)
    value, *support = (int(j) for j in rng.permutation(dim)[: sparsity + 1])
    output = int(rng.integers(dim))
    coefficients = np.zeros(dim)
    coefficients[support] = 1.0
    steps, constant = (_parity(sparsity) if heads in (None, full) else _short_parity(sparsity), 0.0)
    if sparsity % 2 == 0:
        steps, constant = steps[:-1], steps[-1].weight
    layer = _layer(coefficients, steps, constant, value, output)
    return SparseParity(layer, tuple(sorted(support)), value, output)


def rounded_modulus(dim: int, modulus: int, levels: int, seed: Seed = 0) -> RoundedModulus:
    """A layer that computes a product with a secret vector modulo q, rounded to p levels.

    Learning with rounding: a candidate for hardness against algebraic attacks, too. It takes a head
    for every step of the rounded product, about p (d - 1) / 4.

    >>> hidden = rounded_modulus(dim=9, modulus=8, levels=2)
    >>> X = np.random.default_rng(0).choice([-1.0, 1.0], (100, 2, 9))
    >>> bool(np.abs(hidden.layer(X) - hidden(X)).max() < 1e-5)
    True
    """
    whole_number("dim", dim, 2)
    whole_number("modulus", modulus, 2)
    whole_number("levels", levels, 2)
    if levels > modulus:
        raise ValueError(f"levels is {levels}; expected at most modulus = {modulus}")
    if modulus > MOST_MODULUS:
        raise ValueError(f"modulus is {modulus}; expected at most {MOST_MODULUS}")
    _check_numbers(2, dim)  # a step and the last head: how many there are is known later
    rng = np.random.default_rng(seed)
    value, output = int(rng.integers(dim)), int(rng.integers(dim))
    secret = rng.integers(-(modulus // 2), (modulus + 1) // 2, dim)
    secret[value] = 0
    lowest, highest = int(np.minimum(secret, 0).sum()), int(np.maximum(secret, 0).sum())
    if highest - lowest > MOST_PRODUCTS:
        raise ValueError(
            f"modulus is {modulus}; at dim {dim} products take {highest - lowest + 1} values, "
            f"expected at most {MOST_PRODUCTS}: about 4 / dim of that is the largest modulus"
        )
    v = np.arange(lowest, highest + 1)
    rises = np.diff(_rounded(v, modulus, levels))
    steps = [
        _Step(float(at) + 0.5, -0.5 * float(rise), ROUNDING_STEEPNESS)
        for at, rise in zip(v, rises, strict=False)
        if rise
    ]
    if not steps:
        raise ValueError(f"seed is {seed}; its secret vector gives a constant: choose another seed")
    layer = _layer(secret.astype(np.float64), steps, 0.0, value, output)
    return RoundedModulus(layer, secret, modulus, levels, value, output)


@dataclass(frozen=True)
class _Step:
    """One head: - weight tanh(steepness (v - at) / 2)."""

    at: float
    weight: float
    steepness: float


def _parity(sparsity: int) -> list[_Step]:
    """Steps between all counts of flipped bits, whose sum is (-1)^v; the last one of an even number
    of bits is a constant instead.

    Weights solve a linear system: alternating ones would leave 4 e^(-beta / 2), and with it
    coefficients of low degree, by which the layer is easier to learn.
    """
    counts, at = np.arange(sparsity + 1.0), np.arange(sparsity) + 0.5
    columns = -np.tanh(0.5 * STEEPNESS * (counts[:, None] - at))
    if sparsity % 2 == 0:
        columns = np.concatenate([columns, np.ones((sparsity + 1, 1))], axis=1)
        at = np.append(at, 0.0)
    weights = np.linalg.lstsq(columns, (-1.0) ** counts, rcond=None)[0]
    return [_Step(float(a), float(w), STEEPNESS) for a, w in zip(at, weights, strict=True)]


def _short_parity(sparsity: int) -> list[_Step]:
    """A falling ramp, and steps back up after every second count; then all of it by least squares.

    Odd numbers of bits only: (-1)^v is then odd about their middle, as each pair of steps is.
    """
    from scipy.optimize import least_squares

    counts = np.arange(sparsity + 1.0)
    at = np.append(2.0 * np.arange(1, sparsity // 2 + 1) - 0.5, 0.5 * sparsity)
    weights = np.append(np.full(sparsity // 2, -2.0), 4.0 / RAMP)
    steepness = np.append(np.full(sparsity // 2, 2.0 * STEEPNESS), RAMP)
    start = np.concatenate([at, weights, steepness])

    def off(x: Array) -> Array:
        at, weights, steepness = x.reshape(3, -1)
        return -np.tanh(0.5 * steepness * (counts[:, None] - at)) @ weights - (-1.0) ** counts

    found = least_squares(off, start, xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=2000)
    error = float(np.abs(found.fun).max())
    if error > MOST_ERROR:
        raise ValueError(
            f"sparsity is {sparsity}; half as many heads are only good to {error:.0e}: "
            "leave the number of heads open"
        )
    return [_Step(*(float(n) for n in step)) for step in found.x.reshape(3, -1).T]


def _rounded(v: NDArray[np.int64], modulus: int, levels: int) -> NDArray[np.int64]:
    """In whole numbers, so that halves are no matter of rounding."""
    return ((2 * levels * (v % modulus) + modulus) // (2 * modulus)) % levels


def _layer(
    coefficients: Array, steps: list[_Step], constant: float, value: int, output: int
) -> AttentionLayer:
    """The heads of steps, of a constant if there is one, and the one that takes the rest away."""
    dim = len(coefficients)
    _check_numbers(len(steps) + bool(constant) + 1, dim)
    diagonals, weights = [], []
    for step in steps:
        diagonal = -0.5 * step.steepness * coefficients
        diagonal[value] = 0.5 * step.steepness * step.at
        diagonals.append(diagonal)
        weights.append(step.weight)
    if constant:
        diagonals.append(CONSTANT * np.eye(dim)[value])
        weights.append(constant / math.tanh(CONSTANT))
    diagonals.append(np.zeros(dim))
    weights.append(-sum(weights))
    theta = np.stack([np.diag(diagonal) for diagonal in diagonals])
    w = np.zeros((len(weights), dim, dim))
    w[:, value, output] = weights
    return AttentionLayer(theta, w)


def _check_numbers(heads: int, dim: int) -> None:
    if heads * dim**2 > MOST_NUMBERS:
        raise ValueError(
            f"dim is {dim}; {heads} heads of so many coordinates have {heads * dim**2} numbers in "
            f"their attention matrices, expected at most {MOST_NUMBERS}: with {heads} heads, the "
            f"largest dim is {math.isqrt(MOST_NUMBERS // heads)}"
        )


def _pairs(X: ArrayLike, dim: int) -> Array:
    """Pairs of +-1 tokens (n, 2, d): what the hidden functions are about."""
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 3 or X.shape[1:] != (2, dim):
        raise ValueError(f"X has shape {X.shape}; expected (n, 2, {dim}), pairs of tokens")
    if not (np.abs(X) == 1.0).all():
        raise ValueError("X has values other than +-1; expected +-1 tokens")
    return X


def _written(X: Array, factor: Array, value: int, output: int) -> Array:
    """(x_1a - x_2a) / 2 times the factor in row 1, its negative in row 2, of one column."""
    out = np.zeros_like(X, dtype=np.float64)
    half = 0.5 * factor * (X[:, 0, value] - X[:, 1, value])
    out[:, 0, output], out[:, 1, output] = half, -half
    return out
