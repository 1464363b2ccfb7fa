r"""The kernel of infinitely many random heads, for pairs of a query and a key on the unit sphere.

.. math:: K = E_A\big[\mathrm{relu}(\tilde x_0^\top A \tilde x_i)\,
              \mathrm{relu}(\tilde x_0'^\top A \tilde x_i')\big]
              \langle \tilde x_i, \tilde x_i' \rangle

Both logits have variance :math:`\sigma^2`, and with :math:`a = \langle x_0, x_0' \rangle` and
:math:`b = \langle x_i, x_i' \rangle` their correlation is :math:`t = (1 + a)(1 + b) / 4`. With the
identity as the mean of A they have the means :math:`z = \langle x_0, x_i \rangle` and
:math:`z' = \langle x_0', x_i' \rangle`, and Mehler's formula gives

.. math:: K = \sum_l t^l\, \varphi_l(z)\, \varphi_l(z')\, (1 + b), \qquad
          \varphi_l(z) = E[\mathrm{relu}(z + \sigma g)\, h_l(g)]

with normalised Hermite polynomials :math:`h_l`. Two derivatives of relu are a point mass, so that
with :math:`u = z / \sigma` and the Gaussian density and distribution :math:`\phi, \Phi`

.. math:: \varphi_0 = z\, \Phi(u) + \sigma\, \phi(u), \quad \varphi_1 = \sigma\, \Phi(u), \quad
          \varphi_l = \frac{\sigma\, \phi(u)\, h_{l-2}(-u)}{\sqrt{l (l - 1)}} .
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine.features.maps import SPREAD, Mean

__all__ = ["kernel", "relu_coefficients"]

Array = NDArray[np.floating]

CLOSE = 0.8  # correlation beyond which the series is too long
NODES = 60  # of the quadrature over one Gaussian number, for pairs that are closer
REACH = 9.0  # standard deviations that it covers


def kernel(left: Array, right: Array, mean: Mean, spread: float = SPREAD) -> Array:
    """K of pairs (n, 2, d) and (n', 2, d), a query and a key each, with unit tokens.

    ``spread`` is the standard deviation of the entries of A. In single precision, if they are.

    >>> pairs = np.array([[[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]])
    >>> kernel(pairs, pairs, "zero").round(3)
    array([[1.   , 0.304],
           [0.304, 1.   ]])
    """
    if mean not in ("zero", "identity"):
        raise ValueError(f"mean is {mean!r}; expected 'zero' or 'identity'")
    b = left[:, 1] @ right[:, 1].T
    t = np.clip((1.0 + left[:, 0] @ right[:, 0].T) * (1.0 + b) / 4.0, -1.0, 1.0)
    sigma = 2.0 * spread  # the tokens with their constant coordinate have a product of norm 2
    if mean == "zero":
        return t.dtype.type(sigma**2) * _relu_product(t) * (1.0 + b)
    means = [np.sum(pair[:, 0] * pair[:, 1], axis=1) for pair in (left, right)]
    return _shifted_product(means[0], means[1], sigma, t) * (1.0 + b)


def relu_coefficients(z: Array, sigma: float, terms: int) -> NDArray[np.float64]:
    """phi_l(z) for l below ``terms``, which are at least 2: (terms, n).

    >>> z = np.array([0.3])
    >>> by_series = np.sum(relu_coefficients(z, 1.0, 2000) ** 2)  # the two logits are one
    >>> g = np.random.default_rng(0).standard_normal(1_000_000)
    >>> bool(abs(by_series - np.mean(np.maximum(0.3 + g, 0.0) ** 2)) < 0.005)
    True
    """
    from scipy.special import ndtr

    z = np.asarray(z, np.float64)
    u = z / sigma
    density = np.exp(-0.5 * u**2) / math.sqrt(2.0 * math.pi)
    found = np.empty((terms, len(z)))
    found[0], found[1] = z * ndtr(u) + sigma * density, sigma * ndtr(u)
    hermite, before = np.ones_like(u), np.zeros_like(u)
    for power in range(terms - 2):
        found[power + 2] = sigma * density * hermite / math.sqrt((power + 2) * (power + 1))
        above = (-u * hermite - math.sqrt(power) * before) / math.sqrt(power + 1)
        hermite, before = above, hermite
    return found


def _relu_product(t: Array) -> Array:
    """E relu(g) relu(g') of unit Gaussians of correlation t."""
    return (np.sqrt(1.0 - t**2) + t * (np.pi - np.arccos(t))) / (2.0 * np.pi)


def _shifted_product(one: Array, other: Array, sigma: float, t: Array) -> Array:
    """E relu(one + sigma g) relu(other + sigma g'): by the series, and by quadrature where the
    correlation t (n, n') is close to one."""
    close = np.abs(t) > CLOSE
    farthest = float(np.max(np.abs(t), where=~close, initial=0.1))
    # Terms are below sigma^2 t^l / l^2 (Cramer's bound of Hermite functions).
    terms = math.ceil(math.log(np.finfo(t.dtype).eps) / math.log(farthest)) + 2
    ours, theirs = (relu_coefficients(z, sigma, terms).astype(t.dtype) for z in (one, other))
    total = np.zeros_like(t)
    for left, right in zip(ours[::-1], theirs[::-1], strict=True):
        total *= t
        total += left[:, None] * right[None, :]
    rows, columns = np.nonzero(close)
    total[rows, columns] = _by_quadrature(one[rows], other[columns], sigma, t[rows, columns])
    return total


def _by_quadrature(one: Array, other: Array, sigma: float, t: Array) -> Array:
    """The same number by number: over g where one + sigma g > 0, the mean of the rest in closed
    form."""
    from scipy.special import ndtr

    one, other, t = (np.asarray(values, np.float64) for values in (one, other, t))
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    width = sigma * np.sqrt(np.maximum(1.0 - t**2, 1e-15))
    # From where relu begins, or from so far out that nothing is missed, to as far out.
    low = np.maximum(-one / sigma, -REACH)
    total: Any = np.zeros_like(t)
    for node, weight in zip(nodes, weights, strict=True):
        g = low + 0.5 * (node + 1.0) * (REACH - low)
        share = 0.5 * weight * (REACH - low) * np.exp(-0.5 * g**2) / math.sqrt(2.0 * math.pi)
        centre = other + t * sigma * g
        ratio = centre / width
        density = np.exp(-0.5 * ratio**2) / math.sqrt(2.0 * math.pi)
        total = total + share * (one + sigma * g) * (centre * ndtr(ratio) + width * density)
    return total
