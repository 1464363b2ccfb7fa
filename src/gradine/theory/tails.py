r"""Upper tails of logits on the cube, with constants for which they hold.

A logit :math:`x_r^\top \Theta x_j` is a bilinear form of two independent :math:`\pm 1` tokens, or
a quadratic one where a token looks at itself, and one entry of a token's output is a linear form.
The analysis of [CL25] bounds all three, up to constants; these functions have the constants.
Everything rests on one comparison. For a function f that is linear in each coordinate by itself,

.. math:: E\, e^{\lambda f(x)} \le E\, e^{\lambda f(g)},

with x uniform on the cube and g standard Gaussian: given the others, one coordinate contributes
:math:`\cosh(\lambda b) \le e^{\lambda^2 b^2 / 2} = E\, e^{\lambda b g_i}`, and coordinates are
replaced one by one.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "BERRY_ESSEEN",
    "BERRY_ESSEEN_ALIKE",
    "berry_esseen",
    "bilinear_quantile",
    "bilinear_tail",
    "hoeffding_tail",
    "quadratic_quantile",
    "quadratic_tail",
]

Array = NDArray[np.float64]

#: The constant for independent summands (Shevtsova 2010), and for identically distributed ones
#: (Shevtsova 2013): the best that are known, or next to them.
BERRY_ESSEEN, BERRY_ESSEEN_ALIKE = 0.5600, 0.4690


def hoeffding_tail(a: ArrayLike, t: float) -> float:
    r"""Bound on the chance that a linear form of a :math:`\pm 1` vector is large.

    .. math:: P(\langle a, x \rangle \ge t) \le e^{-t^2 / (2 |a|^2)}, \qquad t \ge 0.

    Hoeffding (1963), theorem 2; it is the comparison with Gaussians for a linear form.

    >>> round(hoeffding_tail([1.0, 1.0, 1.0, 1.0], 4.0), 4)  # the truth is 1/16
    0.1353
    """
    a, t = _vector("a", a), _level(t)
    return _sub_gamma_tail(t, math.hypot(*a), 0.0)


def bilinear_tail(A: ArrayLike, t: float) -> float:
    r"""Hanson-Wright for two tokens: bound on the chance that :math:`x^\top A y` is large.

    .. math:: P(x^\top A y \ge t) \le
              \exp\Big(-\frac{t^2}{2\, (|A|_F^2 + |A|_{op}\, t)}\Big), \qquad t \ge 0,

    for x and y independent and uniform on their cubes. Proof: with singular values :math:`s_i` the
    comparison gives :math:`E e^{\lambda x^\top A y} \le \prod_i (1 - \lambda^2 s_i^2)^{-1/2} \le
    \exp(\lambda^2 |A|_F^2 / (2 (1 - \lambda |A|_{op})))`, as :math:`-\log(1 - u) \le u / (1 - u)`.
    So the form is sub-gamma with variance :math:`|A|_F^2` and scale :math:`|A|_{op}`, and such
    variables have this tail (Boucheron, Lugosi, Massart 2013, section 2.4).

    >>> A = np.eye(4)  # x and y agree in all four coordinates with probability 1/16
    >>> round(bilinear_tail(A, 4.0), 4)
    0.3679
    """
    frobenius, operator = _norms(_matrix(A))
    return _sub_gamma_tail(_level(t), frobenius, operator)


def bilinear_quantile(A: ArrayLike, delta: float) -> float:
    r"""What :math:`x^\top A y` exceeds with probability at most ``delta``.

    .. math:: |A|_F \sqrt{2 \log(1/\delta)} + |A|_{op} \log(1/\delta),

    by the bound behind `bilinear_tail`.

    >>> round(bilinear_quantile(3.0 * np.eye(9) / 3.0, 0.01), 2)
    13.71
    """
    frobenius, operator = _norms(_matrix(A))
    return _sub_gamma_quantile(delta, frobenius, operator)


def quadratic_tail(A: ArrayLike, t: float) -> float:
    r"""Hanson-Wright for one token: :math:`x^\top A x` above its mean, the trace.

    .. math:: P(x^\top A x - \mathrm{tr} A \ge t) \le
              \exp\Big(-\frac{t^2}{4\, (|A_0|_F^2 + |A_0|_{op}\, t)}\Big), \qquad t \ge 0,

    with :math:`A_0` the symmetric part of A without its diagonal, which adds a constant on the
    cube. Proof: the form of :math:`A_0` is linear in each coordinate, so that with its eigenvalues
    :math:`\mu_i`, which sum to zero, the comparison gives

    .. math:: \log E\, e^{\lambda x^\top A_0 x} \le
              \sum_i -\tfrac12 \log(1 - 2 \lambda \mu_i) - \lambda \mu_i \le
              \frac{\lambda^2 |A_0|_F^2}{1 - 2 \lambda |A_0|_{op}} :

    sub-gamma with variance :math:`2 |A_0|_F^2` and scale :math:`2 |A_0|_{op}`.

    >>> round(quadratic_tail(np.ones((4, 4)), 12.0), 4)  # all four alike: probability 1/8
    0.4724
    """
    frobenius, operator = _norms(_without_diagonal(A))
    return _sub_gamma_tail(_level(t), math.sqrt(2.0) * frobenius, 2.0 * operator)


def quadratic_quantile(A: ArrayLike, delta: float) -> float:
    r"""What :math:`x^\top A x - \mathrm{tr} A` exceeds with probability at most ``delta``.

    .. math:: 2 |A_0|_F \sqrt{\log(1/\delta)} + 2 |A_0|_{op} \log(1/\delta).

    >>> round(quadratic_quantile(np.eye(5), 0.01), 2)  # a diagonal alone never varies
    0.0
    """
    frobenius, operator = _norms(_without_diagonal(A))
    return _sub_gamma_quantile(delta, math.sqrt(2.0) * frobenius, 2.0 * operator)


def berry_esseen(a: ArrayLike, *, alike: bool | None = None) -> float:
    r"""How far the distribution of a linear form is from Gaussian, at most.

    .. math:: \sup_t \big| P(\langle a, x \rangle \le t |a|) - \Phi(t) \big| \le
              C\, \frac{\sum_i |a_i|^3}{|a|^3},

    C = 0.5600 (Shevtsova 2010), and 0.4690 where all :math:`|a_i|` are alike (Shevtsova 2013),
    which is looked up unless ``alike`` says it.

    >>> round(berry_esseen(np.ones(16)), 4)
    0.1172
    """
    a = np.abs(_vector("a", a))
    if alike is None:
        alike = bool(np.all(a == a[0]))
    constant = BERRY_ESSEEN_ALIKE if alike else BERRY_ESSEEN
    return constant * float(np.sum((a / math.hypot(*a)) ** 3))


def _sub_gamma_tail(t: float, deviation: float, scale: float) -> float:
    """exp(-t^2 / (2 (v + c t))): what log E e^{lambda Z} <= lambda^2 v / (2 (1 - c lambda)) gives.

    The exponent is that of lambda = t / (v + c t); v is the square of ``deviation``. No square is
    taken by itself, as it may not be a float even where the exponent is.
    """
    if t == 0.0:
        return 1.0
    if math.isinf(t) or deviation == 0.0:  # a form of finite numbers is bounded
        return 0.0
    times = t / deviation
    return math.exp(-times / (1.0 / times + scale / deviation) / 2.0) if times > 0.0 else 1.0


def _sub_gamma_quantile(delta: float, deviation: float, scale: float) -> float:
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta is {delta}; expected between 0 and 1")
    t = -math.log(delta)
    return deviation * math.sqrt(2.0 * t) + scale * t


def _norms(A: Array) -> tuple[float, float]:
    values = np.linalg.svd(A, compute_uv=False)
    return math.hypot(*values), float(values.max(initial=0.0))


def _matrix(A: ArrayLike) -> Array:
    array = np.asarray(A, dtype=np.float64)
    if array.ndim != 2 or not array.size or not np.isfinite(array).all():
        raise ValueError(f"A has shape {array.shape}; expected a matrix of finite numbers")
    return array


def _without_diagonal(A: ArrayLike) -> Array:
    array = _matrix(A)
    if array.shape[0] != array.shape[1]:
        raise ValueError(f"A has shape {array.shape}; expected a square matrix")
    symmetric = array / 2.0 + array.T / 2.0
    return symmetric - np.diag(np.diag(symmetric))


def _vector(name: str, a: ArrayLike) -> Array:
    array = np.asarray(a, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all() or not np.any(array):
        raise ValueError(f"{name} has shape {array.shape}; expected a vector other than zero")
    return array


def _level(t: float) -> float:
    if not t >= 0.0:
        raise ValueError(f"t is {t}; expected a number from 0 on")
    return float(t)
