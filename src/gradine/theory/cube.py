r"""Anti-concentration on the cube, and what is left of it where the Hamming weight is known.

Phases of [CL25] need events that are not too rare: margins that are large, logits that spread.
And two tokens that agree in w of d coordinates are no longer independent: the agreements lie on a
slice of the cube. The first half bounds chances from both sides, the second compares a slice with
independent coordinates.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from gradine.checks import whole_number
from gradine.theory.tails import berry_esseen

__all__ = [
    "littlewood_offord",
    "paley_zygmund",
    "slice_mean_tail",
    "slice_part_ratio",
    "slice_ratio",
    "small_ball",
]


def littlewood_offord(dim: int) -> float:
    r"""How often a linear form with coefficients of size at least 1 hits an interval, at most.

    .. math:: P\big(|\langle a, x \rangle - u| < 1\big) \le 2^{-d} \binom{d}{\lfloor d/2 \rfloor},
              \qquad |a_i| \ge 1,

    for every u. Erdos (1945), theorem 1; it is attained by :math:`a = (1, \dots, 1)`.

    >>> littlewood_offord(4)
    0.375
    """
    dim = whole_number("dim", dim, 1)
    logarithm = math.lgamma(dim + 1) - math.lgamma(dim // 2 + 1) - math.lgamma(dim - dim // 2 + 1)
    if dim <= 1000:
        return math.comb(dim, dim // 2) / 2**dim
    return math.exp(logarithm - dim * math.log(2.0))


def small_ball(a: ArrayLike, width: float) -> float:
    r"""How often a linear form is within ``width`` of any one number, at most.

    .. math:: P\big(|\langle a, x \rangle - u| \le w\big) \le
              \frac{2 w}{\sqrt{2 \pi}\, |a|} + 2 C\, \frac{\sum_i |a_i|^3}{|a|^3},

    the Gaussian density at its largest, and twice the error of Berry and Esseen.

    >>> round(small_ball(np.ones(100), 1.0), 3)  # the truth at u = 0: 0.080 (even numbers alone)
    0.174
    """
    if not width >= 0.0:
        raise ValueError(f"width is {width}; expected a number from 0 on")
    error = berry_esseen(a)
    size = math.hypot(*np.asarray(a, dtype=np.float64))
    return min(1.0, 2.0 * width / (math.sqrt(2.0 * math.pi) * size) + 2.0 * error)


def paley_zygmund(degree: int, share: float = 0.5, *, independent: bool = False) -> float:
    r"""How often a polynomial on the cube is a good part of its size, at least.

    .. math:: P\big(|f(x)| \ge \theta \|f\|_2\big) \ge \frac{(1 - \theta^2)^2}{9^q},

    for f of degree at most q, :math:`\|f\|_2^2 = E f^2` and :math:`0 \le \theta \le 1`. Paley and
    Zygmund give :math:`(1 - \theta^2)^2 (E f^2)^2 / E f^4` for :math:`f^2`, and hypercontractivity
    :math:`E f^4 \le 9^q (E f^2)^2` (Bonami 1970; O'Donnell 2014, section 9.1).

    With ``independent``, f is linear in each of q independent tokens, as the logit of two tokens is
    with q = 2, and :math:`3^q` stands for :math:`9^q`. So it does for q = 1, where that is all f
    can be, up to a constant.

    >>> paley_zygmund(2, independent=True), round(paley_zygmund(2), 5), paley_zygmund(1)
    (0.0625, 0.00694, 0.1875)
    """
    degree = whole_number("degree", degree, 0)
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share is {share}; expected between 0 and 1")
    # f = c + <a, y>: E f^4 <= c^4 + 6 c^2 |a|^2 + 3 |a|^4 <= 3 (E f^2)^2. If c and a are forms of
    # another token x, that bounds E_y, and E_x (c^2 + |a|^2)^2 <= (|c^2|_2 + sum_i |a_i^2|_2)^2
    # (Minkowski, norms in x) <= 3 (E f^2)^2, by the same for c and a_i: 9 in all, and so on.
    base = 3.0 if independent or degree == 1 else 9.0
    return (1.0 - share**2) ** 2 * base**-degree


def slice_ratio(dim: int, weight: int) -> float:
    r"""How much more likely any event is on a slice than with independent coordinates, at most.

    .. math:: P(E \mid |z| = w) \le \sqrt{8 w (d - w) / d}\; P_{w/d}(E), \qquad 0 < w < d,

    with z uniform over the sets of w of d coordinates, and :math:`P_p` independent coordinates
    of mean p: dividing by the chance of the most likely weight, which is at least
    :math:`\sqrt{d / (8 w (d - w))}` (MacWilliams and Sloane 1977, chapter 10, lemma 7). At w = 0
    and d there is one set, and the ratio is 1.

    >>> round(slice_ratio(16, 8), 3)  # the truth for E = {|z| = 8} is 1 / 0.196 = 5.09
    5.657
    """
    dim, weight = _weight(dim, weight)
    if weight in (0, dim):
        return 1.0
    return math.sqrt(8.0 * weight * (dim - weight) / dim)


def slice_part_ratio(dim: int, part: int) -> float:
    r"""The same for events that look at ``part`` of the coordinates only: nearly 1 for a few.

    .. math:: P(E \mid |z| = w) \le \Big(\prod_{i < s} \frac{d}{d - i}\Big)\, P_{w/d}(E),
              \qquad E \text{ depends on } s \text{ coordinates},

    for every w. Proof: a pattern with j ones has the chance
    :math:`(w)_j (d - w)_{s - j} / (d)_s` (falling factorials) on the slice, which is at most
    :math:`w^j (d - w)^{s - j} / (d)_s`.

    >>> round(slice_part_ratio(100, 5), 3)
    1.107
    """
    dim = whole_number("dim", dim, 1)
    part = whole_number("part", part, 0)
    if part > dim:
        raise ValueError(f"part is {part}; expected at most dim = {dim}")
    logarithm = -sum(math.log1p(-i / dim) for i in range(part))
    return math.exp(logarithm) if logarithm < 700.0 else math.inf


def slice_mean_tail(dim: int, part: int, t: float) -> float:
    r"""How often the mean of ``part`` coordinates exceeds that of all by t on a slice, at most.

    .. math:: P\Big(\frac1s \sum_{i \le s} z_i \ge \frac wd + t \,\Big|\, |z| = w\Big) \le
              \exp\Big(-\frac{2 s t^2}{1 - (s - 1) / d}\Big), \qquad t \ge 0,

    for every w. Serfling (1974), corollary 1.1; without the denominator it is Hoeffding (1963),
    theorem 4: sampling without replacement concentrates no less than with it.

    >>> round(slice_mean_tail(20, 10, 0.3), 4)
    0.0379
    """
    dim = whole_number("dim", dim, 1)
    part = whole_number("part", part, 1)
    if part > dim:
        raise ValueError(f"part is {part}; expected at most dim = {dim}")
    if not t >= 0.0:
        raise ValueError(f"t is {t}; expected a number from 0 on")
    return math.exp(-2.0 * part * t * t / (1.0 - (part - 1) / dim))


def _weight(dim: int, weight: int) -> tuple[int, int]:
    dim, weight = whole_number("dim", dim, 1), whole_number("weight", weight, 0)
    if weight > dim:
        raise ValueError(f"weight is {weight}; expected at most dim = {dim}")
    return dim, weight
