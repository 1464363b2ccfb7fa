r"""How complex a target is for random-feature attention: B(f), a squared norm.

With infinitely many heads, :math:`f(X) = \frac1N \sum_i F(x_0, x_i)` is in reach if :math:`F` lies
in the space of the kernel K of `gradine.features.kernel`, and B(f) is the squared norm of :math:`F`
there: n examples leave an excess risk like sqrt(B / n).

**RFA.** With :math:`2 \pi \sum_l c_l t^l = \sqrt{1 - t^2} + t (\pi - \arccos t)`,

.. math:: K = \sum_l c_l\, t^l\, (1 + b) = \sum_{r,s} \kappa_{rs}\, a^r b^s, \qquad
          \kappa_{rs} = \sum_l c_l 4^{-l} \tbinom{l}{r} \tbinom{l + 1}{s} .

A polynomial :math:`\langle T, x_0^{\otimes r} \otimes x_i^{\otimes s} \rangle` with a symmetric T
has a squared norm of at most :math:`|T|^2 / \kappa_{rs}`. For :math:`\langle x_0, x_i \rangle^p
\langle \beta, x_i \rangle^q`, moments of complex Gaussian vectors give

.. math:: |T|^2 = \frac{q!}{(p + q)!} \prod_{j=0}^{p-1} (d + q + j),

which grows like :math:`d^p`. For one power of :math:`\langle x_0, S x_i \rangle` and of
:math:`\langle \beta, x_i \rangle`, :math:`|T|^2 = (|S|^2 + |S \beta|^2) / 2`.

**BRFA.** The constants :math:`c_l` become functions of :math:`z = \langle x_0, x_i \rangle`: K is
the sum of :math:`\varphi_l(z) \varphi_l(z')\, 4^{-l} \tbinom lr \tbinom{l+1}s\, a^r b^s`. So

.. math:: \sum_l v_l\, \varphi_l(z)\, \langle T, x_0^{\otimes r} \otimes x_i^{\otimes s} \rangle
          \quad \text{has} \quad
          B \le |T|^2 \sum_l \frac{v_l^2\, 4^l}{\binom lr \binom{l+1}s} ,

and :math:`\langle x_0, x_i \rangle^p \langle \beta, x_i \rangle^q` needs :math:`\sum_l v_l
\varphi_l(z) = z^p` with r = 0, s = q and :math:`|T| = 1`: d plays no part in it. All
:math:`\varphi_l` are blurred by a Gaussian, so that a polynomial is met only up to an error, which
the bound depends on. It is the smallest norm of such a sum within that error.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine.features.kernel import kernel, relu_coefficients
from gradine.features.maps import SPREAD, Mean
from gradine.features.targets import Target, on_sphere
from gradine.inputs import Seed

__all__ = ["complexity", "complexity_from_below", "kernel_coefficient"]

Array = NDArray[np.float64]

TERMS = 400  # of the power series; 4^-l makes the rest nothing
MOST_POWER = 50  # of a target: the series has all of these
BLURRED_TERMS = 120  # of phi_l: 4^-l is below rounding long before
NODES = 120  # of the quadrature over z
TINY_RIDGE = 1e-10  # of the kernel matrix, relative to its diagonal
LOG_RIDGES, HALVINGS = (-70.0, 10.0), 50  # between which a ridge is sought, and how closely
SHARES = 21  # of an error between two parts that are tried


def complexity(
    target: Target, dim: int, mean: Mean = "zero", error: float = 0.0, spread: float = SPREAD
) -> float:
    """An upper bound of B(f), or of that of a function near f.

    ``error`` is how near: the mean squared difference over the mean square of F, for one query and
    one key on the sphere. With the identity mean it must be positive. ``spread`` is the standard
    deviation of the entries of the random matrices.

    >>> from gradine.features.targets import correlation, powers
    >>> round(complexity(powers(1, 16), 16), 2)
    3.34
    >>> for dim in (16, 64):
    ...     target = correlation(1, dim)
    ...     bounds = [complexity(target, dim, mean, error=0.1) for mean in ("zero", "identity")]
    ...     print(*(round(bound) for bound in bounds))
    43 19
    163 16
    """
    if dim != len(target.beta):
        raise ValueError(f"dim is {dim}; the target is one of {len(target.beta)} coordinates")
    p, q = target.correlation_power, target.direction_power
    if max(p, q) > MOST_POWER:
        raise ValueError(f"{target.name}: powers are {p} and {q}; B(f) is known up to {MOST_POWER}")
    if mean == "zero":
        if not 0.0 <= error < 1.0:
            raise ValueError(f"error is {error:g}; expected from 0 to below 1")
        least = _tensor_norm(target, dim) / kernel_coefficient(p, p + q)
        return least * (1.0 - math.sqrt(error)) ** 2 / (2.0 * spread) ** 2
    if mean != "identity":
        raise ValueError(f"mean is {mean!r}; expected 'zero' or 'identity'")
    if not 0.0 < error < 1.0 or dim < 2:
        raise ValueError(
            f"error is {error:g} and dim {dim}; with the identity mean expected an error between "
            "0 and 1, and at least two coordinates"
        )
    if target.matrix is None or p == 0:
        return _blurred_norm(p, (0, q), dim, error, spread)
    return _mixture_norm(target, dim, error, spread)


def kernel_coefficient(query_power: int, key_power: int) -> float:
    """kappa_rs: how much of a^r b^s there is in the kernel of RFA."""
    c = np.array(_series())
    seen = np.flatnonzero(c > 0.0)
    return float(np.sum(np.exp(np.log(c[seen]) + _log_share(seen, query_power, key_power))))


def complexity_from_below(
    target: Target, dim: int, mean: Mean = "zero", points: int = 2000, seed: Seed = 0
) -> float:
    """A lower bound of B(f) by random pairs of a query and a key; more points bring it nearer.

    For any points, F K^-1 F is one, and it grows to B(f) as points are added.
    """
    z = on_sphere(points, 1, dim, seed)
    K = kernel(z, z, mean)
    K.flat[:: points + 1] *= 1.0 + TINY_RIDGE
    values = target(z)
    return float(values @ np.linalg.solve(K, values))


def _log_share(l: NDArray[np.intp], r: int, s: int) -> Array:  # noqa: E741
    """The logarithm of 4^-l binom(l, r) binom(l + 1, s): of a^r b^s in t^l (1 + b)."""
    shares = [
        _log_binomial(int(n), r) + _log_binomial(int(n) + 1, s) - int(n) * math.log(4.0) for n in l
    ]
    return np.array(shares)


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
    if k > n:
        return -math.inf
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _tensor_norm(target: Target, dim: int) -> float:
    """|T|^2 of the symmetric coefficients of <x_0, S x>^p <beta, x>^q, beta a unit vector."""
    p, q, S = target.correlation_power, target.direction_power, target.matrix
    if S is None or p == 0:
        log = sum(math.log(dim + q + j) for j in range(p))
        return math.exp(log + math.lgamma(q + 1) - math.lgamma(p + q + 1))
    if (p, q) == (1, 1):
        return _mixed_norm(S, target.beta)
    raise ValueError(
        f"{target.name}: powers are {p} and {q}; with another matrix than the identity, B(f) is "
        "known for powers of 1 and 1"
    )


def _mixed_norm(S: Array, beta: Array) -> float:
    """|T|^2 of <x_0, S x> <beta, x>."""
    return float(np.sum(S**2) + np.sum((S @ beta) ** 2)) / 2.0


def _mean_square(S: Array, beta: Array) -> float:
    """Of <x_0, S x> <beta, x> on the sphere, times d^2 (d + 2)."""
    return float(np.sum(S**2) + 2.0 * np.sum((S @ beta) ** 2))


def _mixture_norm(target: Target, dim: int, error: float, spread: float) -> float:
    """<x_0, S x> <beta, x> as tau <x_0, x> <beta, x> and a rest without trace.

    Roots of their errors add up at the most, and are shared out as is best. They are of different
    degrees in the query, so that their squared norms add up.
    """
    _tensor_norm(target, dim)  # refuses other powers
    S = np.asarray(target.matrix)
    tau = float(np.trace(S)) / dim
    rest = S - tau * np.eye(dim)
    whole = _mean_square(S, target.beta)
    parts = (
        (_mean_square(S - rest, target.beta) / whole, tau**2, 1, (0, 1)),
        (_mean_square(rest, target.beta) / whole, _mixed_norm(rest, target.beta), 0, (1, 2)),
    )
    least = math.inf
    for share in np.linspace(0.0, 1.0, SHARES):
        norm = 0.0
        for root, (square, tensor, power, degrees) in zip((share, 1.0 - share), parts, strict=True):
            allowed = root**2 * error
            if square > allowed:  # else nothing is near enough
                within = allowed / square
                norm += (
                    tensor * _blurred_norm(power, degrees, dim, within, spread)
                    if within > 0.0
                    else math.inf
                )
        least = min(least, norm)
    return least


class _Blurred(NamedTuple):
    """Regression of z^power on phi_l(z), weighted, in coordinates in which it is diagonal."""

    parts: Array  #: of z^power
    values: Array  #: singular
    whole: float  #: the mean square of z^power
    missed: float  #: of that, what no sum of phi_l has

    def left(self, log: float) -> float:
        """Mean squared error with this logarithm of a ridge."""
        ridge = math.exp(log)
        return self.missed + float(np.sum((self.parts * ridge / (self.values**2 + ridge)) ** 2))


@lru_cache(maxsize=64)
def _blurred(power: int, degrees: tuple[int, int], dim: int, spread: float) -> _Blurred:
    """With z as it is on the sphere, and v_l in units of the root of its share of a^r b^s."""
    from scipy.special import roots_gegenbauer

    z, density = roots_gegenbauer(NODES, 0.5 * dim - 1.0)
    roots = np.sqrt(density / density.sum())
    shares = np.exp(0.5 * _log_share(np.arange(BLURRED_TERMS), *degrees))
    basis = (shares[:, None] * relu_coefficients(z, 2.0 * spread, BLURRED_TERMS)).T * roots[:, None]
    wanted = z**power * roots
    U, values, _ = np.linalg.svd(basis, full_matrices=False)
    parts, whole = U.T @ wanted, float(wanted @ wanted)
    return _Blurred(parts, values, whole, max(whole - float(parts @ parts), 0.0))


def _blurred_norm(
    power: int, degrees: tuple[int, int], dim: int, error: float, spread: float
) -> float:
    """The least norm with which sum v_l phi_l(z) is z^power within an error: of ridge regression
    with the largest ridge that leaves no more."""
    found = _blurred(power, degrees, dim, spread)
    low, high = LOG_RIDGES
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        enough = found.left(middle) <= error * found.whole
        low, high = (middle, high) if enough else (low, middle)
    return float(np.sum((found.parts * found.values / (found.values**2 + math.exp(low))) ** 2))
