"""Attention functions: from the logits of a row to the weights of its keys.

With z_1..z_k the logits of one query, the weight of key j is

    softmax      e^{z_j} / sum_l e^{z_l}
    polynomial   q(z_j) / sum_l q(z_l),      q(z) = 1 + z + z^2 / 2 = ((1 + z)^2 + 1) / 2
    sigmoid      1 / (k (1 + e^{-z_j}))
    relu         max(z_j, 0) / k

A function is normalised, g(z_j) / sum_l g(z_l), or works key by key, g(z_j) / k. With the slopes
s_j = g'(z_j) over the same divisor, its derivative is the linear map

    (D c)_j   = s_j c_j - p_j sum_l s_l c_l       where it is normalised, p the weights,
    (D^T u)_l = s_l (u_l - sum_j p_j u_j),

and key by key, s_j c_j both ways, where it is not.

All of it works on arrays of numpy and of torch. A function of your own is one object, registered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from gradine import kernels
from gradine.kernels import AnyArray
from gradine.plugins import load_plugins

__all__ = [
    "FUNCTIONS",
    "POLYNOMIAL",
    "RELU",
    "SIGMOID",
    "SOFTMAX",
    "Attended",
    "AttentionFunction",
    "attention_function",
    "register",
]


class Attended(NamedTuple):
    """The weights of some keys (last axis), and what their derivative needs beside them."""

    weights: AnyArray
    slopes: AnyArray  #: the very same array for softmax

    def cast(self, dtype: Any) -> Attended:
        weights = kernels.cast(self.weights, dtype)
        same = self.slopes is self.weights
        return Attended(weights, weights if same else kernels.cast(self.slopes, dtype))


@dataclass(frozen=True, eq=False)
class AttentionFunction:
    """One attention function, with all that a layer and a learner need to know of it.

    ``weights`` takes logits (..., k) to weights of that shape, ``slopes`` takes logits and weights
    to slopes; neither changes what it is given. The flags say what examples cannot show.
    """

    name: str
    weights: Callable[[AnyArray], AnyArray]
    slopes: Callable[[AnyArray, AnyArray], AnyArray]
    #: The weights of a row add up to 1.
    normalised: bool = False
    #: A number that is added to all logits of a row changes nothing.
    shift_invariant: bool = False
    #: Logits c z have weights c times those of z, c > 0: (c Theta, W / c) is the same head.
    scale_free: bool = False
    #: Logits -2 a - z have the weights of z, for this number a; None: there is no such number.
    mirror: float | None = None

    def __repr__(self) -> str:
        return f"AttentionFunction({self.name!r})"

    def __call__(self, logits: AnyArray) -> AnyArray:
        """The weights.

        >>> import numpy as np
        >>> RELU(np.array([3.0, -1.0])).tolist(), POLYNOMIAL(np.array([0.0, 0.0])).tolist()
        ([1.5, 0.0], [0.5, 0.5])
        """
        return self.weights(logits)

    def attend(self, logits: AnyArray) -> Attended:
        """Weights and slopes.

        >>> import numpy as np
        >>> SIGMOID.attend(np.zeros(2))
        Attended(weights=array([0.25, 0.25]), slopes=array([0.125, 0.125]))
        """
        weights = self.weights(logits)
        return Attended(weights, self.slopes(logits, weights))

    def derivative(self, at: Attended, change: AnyArray) -> AnyArray:
        """D c: how the weights change with their logits. ``change`` is overwritten.

        >>> import numpy as np
        >>> at = SOFTMAX.attend(np.zeros(2))
        >>> SOFTMAX.derivative(at, np.array([1.0, 0.0])).tolist()
        [0.25, -0.25]
        """
        if self.normalised:
            return kernels.share_derivative(at.weights, at.slopes, change)
        change *= at.slopes
        return change

    def transposed(self, at: Attended, change: AnyArray) -> AnyArray:
        """D^T u: from a gradient in the weights to one in the logits. ``change`` is overwritten.

        >>> import numpy as np
        >>> at = RELU.attend(np.array([2.0, -2.0]))
        >>> RELU.transposed(at, np.array([1.0, 1.0])).tolist()
        [0.5, 0.0]
        """
        if not self.normalised or at.slopes is at.weights:  # then D is symmetric
            return self.derivative(at, change)
        change -= kernels.row_sums(at.weights * change)
        change *= at.slopes
        return change


def _polynomial(logits: AnyArray) -> AnyArray:
    xp = kernels.namespace(logits)
    t = 1.0 + logits
    # In units of the largest of a row, so that no square is too large for a float.
    unit = xp.max(xp.abs(t), axis=-1, keepdims=True)
    unit = xp.where(unit > 1.0, unit, xp.ones_like(unit))
    t /= unit
    t *= t
    t += (1.0 / unit) ** 2
    t /= xp.sum(t, axis=-1, keepdims=True)
    return t


def _polynomial_slopes(logits: AnyArray, weights: AnyArray) -> AnyArray:
    """p q'/q = p 2 t / (t^2 + 1) with t = 1 + z, whatever the size of t."""
    xp = kernels.namespace(logits)
    t = 1.0 + logits
    size = xp.abs(t)
    inverse = 1.0 / xp.where(size > 1.0, size, xp.ones_like(size))
    t *= inverse
    return weights * (2.0 * t * inverse) / (t * t + inverse * inverse)


def _sigmoid(logits: AnyArray) -> AnyArray:
    xp = kernels.namespace(logits)
    small = xp.exp(-xp.abs(logits))  # never too large for a float
    weights = xp.where(logits < 0.0, small, xp.ones_like(small)) / (1.0 + small)
    weights /= logits.shape[-1]
    return weights


def _sigmoid_slopes(logits: AnyArray, weights: AnyArray) -> AnyArray:
    xp = kernels.namespace(logits)
    small = xp.exp(-xp.abs(logits))
    return small / ((1.0 + small) ** 2 * logits.shape[-1])


def _relu(logits: AnyArray) -> AnyArray:
    xp = kernels.namespace(logits)
    return xp.where(logits > 0.0, logits / logits.shape[-1], xp.zeros_like(logits))


def _relu_slopes(logits: AnyArray, weights: AnyArray) -> AnyArray:
    return kernels.cast(weights > 0.0, weights.dtype) / logits.shape[-1]


SOFTMAX = AttentionFunction(
    "softmax",
    kernels.softmax,
    lambda logits, weights: weights,
    normalised=True,
    shift_invariant=True,
)
POLYNOMIAL = AttentionFunction(
    "polynomial", _polynomial, _polynomial_slopes, normalised=True, mirror=1.0
)
SIGMOID = AttentionFunction("sigmoid", _sigmoid, _sigmoid_slopes)
RELU = AttentionFunction("relu", _relu, _relu_slopes, scale_free=True)

#: Every function by its name.
FUNCTIONS: dict[str, AttentionFunction] = {}


def register(function: AttentionFunction) -> AttentionFunction:
    """Make a function known by its name, to layers, files and the exact learner alike.

    >>> register(SOFTMAX)
    Traceback (most recent call last):
    ValueError: attention 'softmax' is registered already; expected another name
    """
    if function.name in FUNCTIONS:
        raise ValueError(
            f"attention {function.name!r} is registered already; expected another name"
        )
    FUNCTIONS[function.name] = function
    return function


def attention_function(name: str | None) -> AttentionFunction:
    """The function of that name; ``ValueError`` if there is none.

    >>> attention_function("relu")
    AttentionFunction('relu')
    """
    if isinstance(name, str) and name not in FUNCTIONS:
        load_plugins()
    if not isinstance(name, str) or name not in FUNCTIONS:
        raise ValueError(f"attention is {name!r}; expected one of {', '.join(FUNCTIONS)}")
    return FUNCTIONS[name]


for _function in (SOFTMAX, POLYNOMIAL, SIGMOID, RELU):
    register(_function)
