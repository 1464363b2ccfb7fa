r"""How complex a target is for random-feature attention: B(f), a squared norm.

With infinitely many heads, :math:`f(X) = \frac1N \sum_i F(x_0, x_i)` is in reach if :math:`F` lies
in the space of the kernel K of `gradine.features.kernel`, and B(f) is the squared norm of :math:`F`
there: n examples leave an excess risk like sqrt(B / n).

**RFA: exact.** With :math:`2 \pi \sum_L c_L t^L = \sqrt{1 - t^2} + t (\pi - \arccos t)`, K is
:math:`\sum_L c_L t^L (1 + b)`, a function of :math:`a = \langle x_0, x_0' \rangle` and
:math:`b = \langle x_i, x_i' \rangle`. So products of a harmonic of degree k of the query and one of
degree l of the key are its eigenfunctions, and with Legendre's polynomials of the sphere,
:math:`P_k(1) = 1`, the eigenvalues are

.. math:: \lambda_{kl} = \sum_L c_L\, 2 M_{Lk} M_{L+1,l}, \qquad
          M_{Lk} = E\big[(\tfrac{1 + a}2)^L P_k(a)\big]

(`gradine.features.harmonics`). If a target has the mean square :math:`N_{kl}` in degrees k, l, then
:math:`B = \sum N_{kl} / \lambda_{kl}`, and the least B within an error is that of a ridge
regression in these few components.

**BRFA: an upper bound.** The constants :math:`c_L` become functions of :math:`z = \langle x_0, x_i
\rangle`: K is the sum of :math:`\varphi_L(z) \varphi_L(z')\, t^L (1 + b)`. So for a
function G in degrees k, l

.. math:: \sum_L v_L\, \varphi_L(z)\, G \quad \text{has} \quad
          B \le E[G^2] \sum_L \frac{v_L^2}{2 M_{Lk} M_{L+1,l}} ,

and :math:`z^p \langle \beta, x_i \rangle^q` needs :math:`\sum_L v_L \varphi_L(z) = z^p` for each of
the components G of :math:`\langle \beta, x_i \rangle^q`, none of which has to do with z. The
:math:`\varphi_L` are blurred by a Gaussian, so that a polynomial is met only up to an error, which
the bound depends on. It is the smallest norm of such sums within that error; other functions of
that space may be as near with a smaller one. For S other than the identity, the part of S without
trace has to be met by :math:`\sum_L v_L \varphi_L(z) \approx 1` times itself.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine.features.harmonics import (
    kernel_eigenvalue,
    mixed_components,
    plain_components,
    term_eigenvalues,
)
from gradine.features.kernel import kernel, relu_coefficients
from gradine.features.maps import SPREAD, Mean
from gradine.features.targets import Target, on_sphere
from gradine.inputs import Seed

__all__ = ["complexity", "complexity_from_below"]

Array = NDArray[np.float64]

MOST_POWER = 50  # of a target
BLURRED_TERMS = 120  # of phi_L: what is beyond is below rounding
NODES = 120  # of the quadrature over z
TINY_RIDGE = 1e-10  # of the kernel matrix, relative to its diagonal
LOG_RIDGES, HALVINGS = (-600.0, 10.0), 60  # between which a ridge is sought, and how closely
SHARES = 21  # of an error between two parts that are tried


def complexity(
    target: Target, dim: int, mean: Mean = "zero", error: float = 0.0, spread: float = SPREAD
) -> float:
    """The least B of functions near f: exact with mean zero, else an upper bound.

    ``error`` is how near: the mean squared difference over the mean square of F, for one query and
    one key on the sphere. With the identity mean it must be positive. ``spread`` is the standard
    deviation of the entries of the random matrices.

    >>> from gradine.features.targets import correlation, powers
    >>> round(complexity(powers(1, 16), 16), 2)
    3.32
    >>> for dim in (16, 64):
    ...     target = correlation(1, dim)
    ...     found = [complexity(target, dim, mean, error=0.1) for mean in ("zero", "identity")]
    ...     print(*(round(B) for B in found))
    41 17
    161 15
    """
    if dim != len(target.beta):
        raise ValueError(f"dim is {dim}; the target is one of {len(target.beta)} coordinates")
    if mean not in ("zero", "identity"):
        raise ValueError(f"mean is {mean!r}; expected 'zero' or 'identity'")
    least = "from 0" if mean == "zero" else "above 0"
    if not 0.0 <= error < 1.0 or dim < 2 or (mean == "identity" and error == 0.0):
        raise ValueError(
            f"error is {error:g} and dim {dim}; with the {mean} mean expected an error {least} to "
            "below 1, and at least two coordinates"
        )
    p, q, plain = target.correlation_power, target.direction_power, target.matrix is None
    if max(p, q) > MOST_POWER:
        raise ValueError(f"{target.name}: powers are {p} and {q}; B(f) is known up to {MOST_POWER}")
    if not plain and p > 0 and (p, q) != (1, 1):
        raise ValueError(
            f"{target.name}: powers are {p} and {q}; with another matrix than the identity, B(f) "
            "is known for powers of 1 and 1"
        )
    if mean == "zero":
        return _exact(target, dim).norm(error) / (2.0 * spread) ** 2
    if plain or p == 0:
        parts = [
            _blurred(p, (component,), dim, spread)
            for component in plain_components(0, q, dim).items()
        ]
        return _together(parts).norm(error)
    return _mixture_norm(target, dim, error, spread)


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


class _Spectrum(NamedTuple):
    """A function in coordinates in which both its mean square and its norm are sums."""

    parts: Array  #: of the function
    values: Array  #: singular: a part of mean square one has the squared norm 1 / value^2
    missed: float = 0.0  #: mean square of what the space does not have

    @property
    def whole(self) -> float:
        return self.missed + float(self.parts @ self.parts)

    def left(self, log: float) -> float:
        """Mean squared error with this logarithm of a ridge."""
        ridge = math.exp(log)
        return self.missed + float(np.sum((self.parts * ridge / (self.values**2 + ridge)) ** 2))

    def norm(self, error: float) -> float:
        """The least squared norm within an error over the mean square: of ridge regression with
        the largest ridge that leaves no more."""
        if error == 0.0:
            return float(np.sum((self.parts / self.values) ** 2))
        (low, high), allowed = LOG_RIDGES, error * self.whole
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.left(middle) <= allowed else (low, middle)
        return float(np.sum((self.parts * self.values / (self.values**2 + math.exp(low))) ** 2))


def _together(parts: list[_Spectrum]) -> _Spectrum:
    """Of a sum of functions that are orthogonal in both ways."""
    return _Spectrum(
        np.concatenate([part.parts for part in parts]),
        np.concatenate([part.values for part in parts]),
        sum(part.missed for part in parts),
    )


def _exact(target: Target, dim: int) -> _Spectrum:
    """A target in the space of RFA."""
    if target.matrix is None or target.correlation_power == 0:
        found = plain_components(target.correlation_power, target.direction_power, dim)
    else:
        found = mixed_components(target.matrix, target.beta)
    values = [kernel_eigenvalue(*degrees, dim) for degrees in found]
    return _Spectrum(np.sqrt(list(found.values())), np.sqrt(values))


def _mixture_norm(target: Target, dim: int, error: float, spread: float) -> float:
    """<x_0, S x> <beta, x> as tau <x_0, x> <beta, x> and a rest without trace.

    Roots of their errors add up at the most, and are shared out as is best. They are of different
    degrees in the query, so that their squared norms add up.
    """
    S = np.asarray(target.matrix)
    tau = float(np.trace(S)) / dim
    without_trace = S - tau * np.eye(dim)
    rest = mixed_components(without_trace, target.beta)
    parts = (
        _blurred(1, (((0, 1), tau**2 / dim),), dim, spread),
        _blurred(0, tuple(rest.items()), dim, spread, _square_given(without_trace, target.beta)),
    )
    whole = sum(mixed_components(S, target.beta).values())
    least = math.inf
    for share in np.linspace(0.0, 1.0, SHARES):
        norm = 0.0
        for root, part in zip((share, 1.0 - share), parts, strict=True):
            allowed = root**2 * error * whole
            if part.whole > allowed:  # else nothing is near enough
                norm += part.norm(allowed / part.whole) if allowed > 0.0 else math.inf
        least = min(least, norm)
    return least


def _square_given(R: Array, beta: Array) -> tuple[float, float]:
    """The mean square of <x_0, R x> <beta, x> given z, R without trace: first + second z^2.

    In units of the mean square itself. With x_0 = z x + sqrt(1 - z^2) y it takes
    E[|R x|^2 <beta, x>^2] and E[<x, R x>^2 <beta, x>^2], by Wick's formula.
    """
    dim, even = len(beta), 0.5 * (R + R.T)
    whole = float(np.sum(R**2) + 2.0 * np.sum((R @ beta) ** 2)) / (dim * (dim + 2))
    along = float(2.0 * np.sum(even**2) + 8.0 * np.sum((even @ beta) ** 2))
    along /= dim * (dim + 2) * (dim + 4)
    if whole == 0.0:
        return 1.0, 0.0
    across = (whole - along) / (dim - 1)
    return across * dim / whole, (along - across) * dim / whole


@lru_cache(maxsize=64)
def _blurred(
    power: int,
    components: tuple[tuple[tuple[int, int], float], ...],
    dim: int,
    spread: float,
    square_given: tuple[float, float] = (1.0, 0.0),
) -> _Spectrum:
    """z^power times a function with these components, by phi_L(z) times that function.

    Regression on phi_L in units of the root of what the function costs in t^L (1 + b), with z as
    it is on the sphere. Given z, the function has the mean square first + second z^2, in units of
    that of all.
    """
    from scipy.special import roots_gegenbauer

    z, density = roots_gegenbauer(NODES, 0.5 * dim - 1.0)
    roots = np.sqrt(density / density.sum() * (square_given[0] + square_given[1] * z**2))
    size = sum(square for _, square in components)
    if size == 0.0:
        return _Spectrum(np.zeros(1), np.ones(1))
    cost = np.zeros(BLURRED_TERMS)
    with np.errstate(divide="ignore"):  # a term without these degrees has an infinite cost
        for degrees, square in components:
            cost += square / size / term_eigenvalues(*degrees, dim, BLURRED_TERMS)
    shares = np.sqrt(1.0 / cost)
    basis = (shares[:, None] * relu_coefficients(z, 2.0 * spread, BLURRED_TERMS)).T * roots[:, None]
    wanted = math.sqrt(size) * z**power * roots
    U, values, _ = np.linalg.svd(basis, full_matrices=False)
    parts = U.T @ wanted
    return _Spectrum(parts, values, max(float(wanted @ wanted - parts @ parts), 0.0))
