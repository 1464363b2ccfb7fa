r"""How complex a target is for random-feature attention: B(f), a squared norm.

With infinitely many heads, :math:`f(X) = \frac1N \sum_i F(x_0, x_i)` is in reach if :math:`F` lies
in the space of the kernel of two pairs of a query and a key,

.. math:: K = E_A\big[\mathrm{relu}(\tilde x_0^\top A \tilde x_i)\,
              \mathrm{relu}(\tilde x_0'^\top A \tilde x_i')\big]
              \langle \tilde x_i, \tilde x_i' \rangle,

and B(f) is the squared norm of :math:`F` there: n examples leave an excess risk like sqrt(B / n).

**RFA.** On the unit sphere :math:`|\tilde x_0 \otimes \tilde x_i| = 2`, entries of A have variance
1/4, and with :math:`a = \langle x_0, x_0' \rangle`, :math:`b = \langle x_i, x_i' \rangle` the
expectation is a power series in :math:`t = (1 + a)(1 + b) / 4`:

.. math:: K = \sum_l c_l\, t^l\, (1 + b) = \sum_{r,s} \kappa_{rs}\, a^r b^s, \qquad
          \kappa_{rs} = \sum_l c_l 4^{-l} \tbinom{l}{r} \tbinom{l + 1}{s}

with :math:`2 \pi \sum_l c_l t^l = \sqrt{1 - t^2} + t (\pi - \arccos t)`. A polynomial
:math:`\langle T, x_0^{\otimes r} \otimes x_i^{\otimes s} \rangle` with a symmetric T has a squared
norm of at most :math:`|T|^2 / \kappa_{rs}`. For :math:`\langle x_0, x_i \rangle^p \langle \beta,
x_i \rangle^q`, moments of complex Gaussian vectors give

.. math:: |T|^2 = \frac{q!}{(p + q)!} \prod_{j=0}^{p-1} (d + q + j),

which grows like :math:`d^p`. For one power of :math:`\langle x_0, S x_i \rangle` and of
:math:`\langle \beta, x_i \rangle`, :math:`|T|^2 = (|S|^2 + |S \beta|^2) / 2`.

**BRFA.** The mean of A makes K depend on :math:`\langle x_0, x_i \rangle` itself, and there is no
such series. But for any points z, :math:`F(z)^\top K(z, z)^{-1} F(z)` is a lower bound of B(f) that
grows to it as points are added, and it can be compared with that of RFA on the same points.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gradine.features.maps import SPREAD, Mean
from gradine.features.targets import Target, on_sphere
from gradine.inputs import Seed

__all__ = ["complexity", "complexity_from_below", "kernel", "kernel_coefficient"]

Array = NDArray[np.float64]

TERMS = 400  # of the power series; 4^-l makes the rest nothing
NODES = 60  # of the quadrature over one Gaussian number
REACH = 9.0  # standard deviations that it covers
TINY_RIDGE = 1e-10  # of the kernel matrix, relative to its diagonal


def complexity(target: Target, dim: int) -> float:
    """An upper bound of B(f) under RFA, exact but for what |x| = 1 could save.

    >>> from gradine.features.targets import correlation, powers
    >>> round(complexity(powers(1, 16), 16), 2)
    3.34
    >>> ratio = complexity(correlation(3, 64), 64) / complexity(correlation(3, 16), 16)
    >>> round(math.log(ratio, 4), 1)  # d^3, nearly
    2.8
    """
    if dim != len(target.beta):
        raise ValueError(f"dim is {dim}; the target is one of {len(target.beta)} coordinates")
    p, q = target.correlation_power, target.direction_power
    return _tensor_norm(target, dim) / kernel_coefficient(p, p + q)


def kernel_coefficient(query_power: int, key_power: int) -> float:
    """kappa_rs: how much of a^r b^s there is in the kernel of RFA."""
    total = 0.0
    for power, c in enumerate(_series()):
        if power >= query_power and power + 1 >= key_power and c > 0.0:
            log = math.log(c) - power * math.log(4.0)
            log += _log_binomial(power, query_power) + _log_binomial(power + 1, key_power)
            total += math.exp(log)
    return total


def complexity_from_below(
    target: Target, dim: int, mean: Mean = "zero", points: int = 2000, seed: Seed = 0
) -> float:
    """A lower bound of B(f) by random pairs of a query and a key; more points bring it nearer."""
    z = on_sphere(points, 1, dim, seed)
    K = kernel(z, z, mean)
    K.flat[:: points + 1] *= 1.0 + TINY_RIDGE
    values = target(z)
    return float(values @ np.linalg.solve(K, values))


def kernel(left: Array, right: Array, mean: Mean) -> Array:
    """K of pairs (n, 2, d) and (n', 2, d), a query and a key each, with unit tokens."""
    if mean not in ("zero", "identity"):
        raise ValueError(f"mean is {mean!r}; expected 'zero' or 'identity'")
    a = left[:, 0] @ right[:, 0].T
    b = left[:, 1] @ right[:, 1].T
    # Variance of a logit, and the correlation of two: |u| = 2 for every pair.
    variance = 4.0 * SPREAD**2
    correlation = np.clip((1.0 + a) * (1.0 + b) / 4.0, -1.0, 1.0)
    if mean == "zero":
        return variance * _relu_product(correlation) * (1.0 + b)
    means = [np.sum(pair[:, 0] * pair[:, 1], axis=1) for pair in (left, right)]
    return _shifted_product(means[0], means[1], variance, correlation) * (1.0 + b)


def _relu_product(t: Array) -> Array:
    """E relu(g) relu(g') of unit Gaussians of correlation t."""
    return (np.sqrt(1.0 - t**2) + t * (np.pi - np.arccos(t))) / (2.0 * np.pi)


def _shifted_product(one: Array, other: Array, variance: float, t: Array) -> Array:
    """E relu(one + g) relu(other + g'): by quadrature over g, where one + g > 0, and the mean of
    the rest in closed form."""
    from scipy.special import ndtr

    sigma = math.sqrt(variance)
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    spread = sigma * np.sqrt(np.maximum(1.0 - t**2, 1e-15))
    total = np.zeros_like(t)
    for node, weight in zip(nodes, weights, strict=True):
        # From where relu begins, or from so far out that nothing is missed, to as far out.
        low = np.maximum(-one / sigma, -REACH)
        g = low + 0.5 * (node + 1.0) * (REACH - low)
        share = 0.5 * weight * (REACH - low) * np.exp(-0.5 * g**2) / math.sqrt(2.0 * math.pi)
        centre = other[None, :] + t * (sigma * g)[:, None]
        ratio = centre / spread
        density = np.exp(-0.5 * ratio**2) / math.sqrt(2.0 * math.pi)
        total += (share * (one + sigma * g))[:, None] * (centre * ndtr(ratio) + spread * density)
    return total


def _series() -> list[float]:
    """c_l, from the derivative of the function, which is (pi / 2 + arcsin t) / (2 pi)."""
    c = [0.0] * TERMS
    c[0], c[1] = 1.0 / (2.0 * math.pi), 0.25
    arcsin = 1.0  # its coefficient of t^(2j+1)
    for j in range((TERMS - 2) // 2):
        c[2 * j + 2] = arcsin / (2 * j + 1) / (2 * j + 2) / (2.0 * math.pi)
        arcsin *= (2 * j + 1) / (2 * j + 2)
    return c


def _log_binomial(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _tensor_norm(target: Target, dim: int) -> float:
    """|T|^2 of the symmetric coefficients of <x_0, S x>^p <beta, x>^q, beta a unit vector."""
    p, q, S = target.correlation_power, target.direction_power, target.matrix
    if S is None or p == 0:
        grown = math.prod(dim + q + j for j in range(p))
        return math.factorial(q) / math.factorial(p + q) * grown
    if (p, q) == (1, 1):
        return float(np.sum(S**2) + np.sum((S @ target.beta) ** 2)) / 2.0
    raise ValueError(
        f"{target.name}: powers are {p} and {q}; with another matrix than the identity, B(f) is "
        "known for powers of 1 and 1"
    )
