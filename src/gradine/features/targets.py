r"""The functions that random-feature attention is tried on: averages over keys [FGBM23].

Tokens are uniform on the unit sphere; :math:`x_0` is the query, and :math:`\beta` a unit vector.

=============  ==================================================================================
powers         :math:`\frac1N \sum_i \langle \beta, x_i \rangle^p`
correlation    :math:`\frac1N \sum_i \langle x_0, x_i \rangle^p \langle \beta, x_i \rangle^q`
gamma          :math:`\frac1N \sum_i \langle x_0, (I + \gamma S) x_i \rangle^p \langle \beta, x_i
               \rangle^q`, with :math:`S` a fixed Gaussian matrix as large as the identity
=============  ==================================================================================
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradine.checks import whole_number
from gradine.inputs import Seed

__all__ = ["Target", "correlation", "gamma_mixture", "on_sphere", "powers"]

Array = NDArray[np.float64]


def on_sphere(n: int, n_keys: int, dim: int, seed: Seed = 0) -> Array:
    """Sequences (n, n_keys + 1, dim) of tokens that are uniform on the unit sphere.

    >>> float(np.linalg.norm(on_sphere(2, 3, 16)[1, 0]).round(12))
    1.0
    """
    shape = (
        whole_number("n", n, 0),
        whole_number("n_keys", n_keys, 1) + 1,
        whole_number("dim", dim, 1),
    )
    X = np.random.default_rng(seed).standard_normal(shape)
    X /= np.linalg.norm(X, axis=2, keepdims=True)
    return X


@dataclass(frozen=True, eq=False)
class Target:
    """The mean over keys of <x_0, S x_i>^p <beta, x_i>^q.

    >>> Target("mean", 0, 1, np.array([1.0, 0.0]))(np.ones((1, 3, 2)))
    array([1.])
    """

    name: str
    correlation_power: int  #: p
    direction_power: int  #: q
    beta: Array  #: a unit vector
    matrix: Array | None = None  #: S; None: the identity

    def __call__(self, X: ArrayLike) -> Array:
        """Values (n,) for sequences (n, N + 1, d)."""
        X, dim = np.asarray(X), len(self.beta)
        if X.ndim != 3 or X.shape[1] < 2 or X.shape[2] != dim or X.dtype.kind not in "fiu":
            raise ValueError(
                f"X has shape {X.shape} and type {X.dtype}; expected numbers (n, N + 1, {dim}), a "
                "query and at least one key each"
            )
        query, keys = X[:, 0], X[:, 1:]
        values = (keys @ self.beta) ** self.direction_power
        if self.correlation_power:
            turned = query if self.matrix is None else query @ self.matrix
            values = values * (keys @ turned[:, :, None])[:, :, 0] ** self.correlation_power
        return values.mean(axis=1)


def powers(degree: int, dim: int, seed: Seed = 0) -> Target:
    """The mean of <beta, x_i>^degree: nothing about the query.

    >>> X = on_sphere(3, 2, 16)
    >>> target = powers(2, 16)
    >>> bool(np.isclose(target(X)[0], np.mean((X[0, 1:] @ target.beta) ** 2)))
    True
    """
    whole_number("degree", degree, 0)
    return Target(f"<beta, x_i>^{degree}", 0, degree, _direction(dim, _random(seed)))


def correlation(power: int, dim: int, seed: Seed = 0, direction_power: int = 1) -> Target:
    """The mean of <x_0, x_i>^power <beta, x_i>^direction_power.

    >>> X, target = on_sphere(3, 2, 16), correlation(2, 16)
    >>> by_hand = np.mean((X[0, 1:] @ X[0, 0]) ** 2 * (X[0, 1:] @ target.beta))
    >>> bool(np.isclose(target(X)[0], by_hand))
    True
    """
    _check_powers(power, direction_power)
    name = f"<x_0, x_i>^{power} <beta, x_i>^{direction_power}"
    return Target(name, power, direction_power, _direction(dim, _random(seed)))


def gamma_mixture(
    gamma: float, dim: int, seed: Seed = 0, power: int = 1, direction_power: int = 1
) -> Target:
    """The mean of <x_0, (I + gamma S) x_i>^power <beta, x_i>^direction_power.

    S has Gaussian entries and the norm of the identity, so that at gamma = 1 both say as much; the
    larger gamma is, the less a head that begins with <x_0, x_i> is of use.

    >>> X = on_sphere(3, 2, 16)
    >>> bool(np.allclose(gamma_mixture(0.0, 16)(X), correlation(1, 16)(X)))
    True
    """
    _check_powers(power, direction_power)
    if not isinstance(gamma, numbers.Real) or not math.isfinite(gamma):
        raise ValueError(f"gamma is {gamma!r}; expected a finite number")
    rng = _random(seed)
    beta = _direction(dim, rng)
    S = rng.standard_normal((dim, dim))
    S *= np.sqrt(dim) / np.linalg.norm(S)
    name = f"<x_0, (I + {gamma:g} S) x_i>^{power} <beta, x_i>^{direction_power}"
    return Target(name, power, direction_power, beta, np.eye(dim) + gamma * S)


def _check_powers(power: int, direction_power: int) -> None:
    whole_number("power", power, 0)
    whole_number("direction_power", direction_power, 0)


def _random(seed: Seed) -> np.random.Generator:
    """Other numbers than those of tokens with the same seed: a target must not know an example."""
    return seed if isinstance(seed, np.random.Generator) else np.random.default_rng([seed, 1])


def _direction(dim: int, rng: np.random.Generator) -> Array:
    beta = rng.standard_normal(whole_number("dim", dim, 1))
    return beta / np.linalg.norm(beta)
