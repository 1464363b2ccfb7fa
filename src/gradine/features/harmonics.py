r"""Products of harmonics of a query and of a key: in them the kernel of RFA is diagonal.

With Legendre's polynomials of the sphere, :math:`P_k(1) = 1`, and :math:`a`, :math:`b` the inner
products of two queries and of two keys, :math:`t = (1 + a)(1 + b) / 4`, the eigenvalue of
:math:`t^L (1 + b)` for degrees k of the query and l of the key is

.. math:: 2 M_{Lk} M_{L+1,l}, \qquad M_{Lk} = E\big[(\tfrac{1 + a}2)^L P_k(a)\big],

and Rodrigues' formula makes :math:`M_{Lk}` a product of Gamma functions.

For :math:`\langle x_0, x_i \rangle^p \langle \beta, x_i \rangle^q`, the mean over all
:math:`\beta` of a product of two values is a polynomial in b by Wick's formula, and the mean
squares by degrees follow from the recurrence of :math:`P_k`. :math:`\langle x_0, S x_i \rangle
\langle \beta, x_i \rangle` has two components: :math:`\langle x_0, S \beta \rangle / d` and the
rest.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["kernel_eigenvalue", "mixed_components", "plain_components", "term_eigenvalues"]

Array = NDArray[np.float64]
Components = dict[tuple[int, int], float]  # mean squares by degrees in the query and in the key

TERMS = 20_000  # of the power series: degrees of 50 and 100 need some thousands


def kernel_eigenvalue(query_degree: int, key_degree: int, dim: int) -> float:
    """lambda_kl of RFA's kernel, for products of harmonics of these degrees (spread 1/2).

    >>> round(kernel_eigenvalue(0, 1, 16), 4)
    0.0188
    """
    return float(_series() @ term_eigenvalues(query_degree, key_degree, dim, TERMS))


def plain_components(p: int, q: int, dim: int) -> Components:
    """Of z^p <beta, x>^q. Every term is positive, so that none is lost to rounding.

    >>> found = plain_components(1, 1, 16)
    >>> {degrees: round(16**3 * square, 6) for degrees, square in found.items()}
    {(1, 0): 1.0, (1, 2): 15.0}
    """
    wick = np.zeros(q + 1)  # of b^i in the mean over beta of <beta, x>^q <beta, x'>^q
    scale = sum(math.log(dim + 2 * j) for j in range(q))
    for i in range(q, -1, -2):
        odd = _log_factorial(q - i) - _log_factorial((q - i) // 2) - (q - i) / 2 * math.log(2.0)
        log = 2.0 * (_log_binomial(q, i) + odd) + _log_factorial(i) - scale
        wick[i] = math.exp(log)
    found: Components = {}
    for k in range(p % 2, p + 1, 2):
        expanded = np.zeros(k + q + 2)  # b^i P_k(b) in all P_l
        expanded[k], total = 1.0, np.zeros(k + q + 2)
        for i in range(q + 1):
            total += wick[i] * expanded
            expanded = _times_argument(expanded, dim)
        square = math.exp(2.0 * _log_power_moment(p, k, dim)) * _harmonics(k, dim)
        found |= {(k, int(i)): square * float(total[i]) for i in np.flatnonzero(total)}
    return found


def mixed_components(S: Array, beta: Array) -> Components:
    """Of <x_0, S x> <beta, x>: <x_0, S beta> / d, and the rest."""
    dim, moved = len(beta), float(np.sum((S @ beta) ** 2))
    whole = (float(np.sum(S**2)) + 2.0 * moved) / (dim**2 * (dim + 2))
    return {(1, 0): moved / dim**3, (1, 2): whole - moved / dim**3}


def _times_argument(coefficients: Array, dim: int) -> Array:
    """b times a sum of P_l(b), whose last coefficient must be 0 or is lost."""
    found = np.zeros_like(coefficients)
    for k in np.flatnonzero(coefficients):
        up = (k + dim - 2) / (2 * k + dim - 2) if k else 1.0
        if k + 1 < len(found):
            found[k + 1] += up * coefficients[k]
        if k:
            found[k - 1] += (1.0 - up) * coefficients[k]
    return found


def _harmonics(k: int, dim: int) -> float:
    """How many there are of degree k."""
    if k == 0:
        return 1.0
    return (2 * k + dim - 2) / k * math.exp(_log_binomial(k + dim - 3, k - 1))


def _log_power_moment(p: int, k: int, dim: int) -> float:
    """The logarithm of E[z^p P_k(z)], by Rodrigues' formula."""
    from scipy.special import betaln

    half = 0.5 * (dim - 1)
    return float(
        math.lgamma(half)
        - math.lgamma(k + half)
        - k * math.log(2.0)
        + _log_factorial(p)
        - _log_factorial(p - k)
        + betaln(0.5 * (p - k + 1), k + half)
        - betaln(0.5, half)
    )


def _shifted_moments(k: int, dim: int, L: Array) -> Array:
    """M_Lk, the moments of ((1 + a) / 2)^L and P_k(a), by the same formula."""
    from scipy.special import betaln, gammaln

    half, seen = 0.5 * (dim - 1), np.maximum(L, k)
    logs = (
        math.lgamma(half)
        - math.lgamma(k + half)
        + (dim - 2) * math.log(2.0)
        + gammaln(seen + 1.0)
        - gammaln(seen - k + 1.0)
        + betaln(seen + half, k + half)
        - betaln(0.5, half)
    )
    return np.where(k <= L, np.exp(logs), 0.0)


def term_eigenvalues(k: int, l: int, dim: int, terms: int) -> Array:  # noqa: E741
    """Of t^L (1 + b), for all L."""
    L = np.arange(terms, dtype=float)
    return 2.0 * _shifted_moments(k, dim, L) * _shifted_moments(l, dim, L + 1.0)


@lru_cache(maxsize=1)
def _series() -> Array:
    """c_L, from the derivative of the function, which is (pi / 2 + arcsin t) / (2 pi)."""
    c = np.zeros(TERMS)
    c[:2] = 1.0 / (2.0 * math.pi), 0.25
    j = np.arange((TERMS - 2) // 2, dtype=float)
    arcsin = np.cumprod(np.concatenate([[1.0], (2 * j[:-1] + 1) / (2 * j[:-1] + 2)]))
    c[2::2] = arcsin / (2 * j + 1) / (2 * j + 2) / (2.0 * math.pi)
    return c


def _log_factorial(n: int) -> float:
    return math.lgamma(n + 1)


def _log_binomial(n: int, k: int) -> float:
    return _log_factorial(n) - _log_factorial(k) - _log_factorial(n - k)
