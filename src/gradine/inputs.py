"""Where truth and tokens come from: planted layers and the two input distributions."""

from __future__ import annotations

import math
import numbers
import operator
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradine.attention_functions import attention_function
from gradine.layer import AttentionLayer

__all__ = ["INPUT_KINDS", "InputKind", "Seed", "plant", "sample_inputs"]

Array = NDArray[np.float64]
InputKind = Literal["boolean", "gaussian"]
Seed: TypeAlias = int | np.random.Generator

INPUT_KINDS: tuple[InputKind, ...] = ("boolean", "gaussian")
MOST_NUMBERS = 2**60  # of an array: no machine has as many bytes
MOST_SCALE = 1e100  # squares of what is larger, times sizes, are not finite
QUERY_BIAS = 0.25  # norm of a planted query or key bias, relative to the scale of its head


def plant(
    heads: int = 3,
    dim: int = 16,
    scale: float = 3.0,
    rank: int | None = None,
    seed: Seed = 0,
    *,
    out_dim: int | None = None,
    constant: bool = False,
    attention: str = "softmax",
) -> AttentionLayer:
    """A random layer to be found again.

    Theta_i is Gaussian with Frobenius norm exactly ``scale``, which is the standard deviation of
    a logit under +-1 or Gaussian tokens; entries of W_i have variance 1/dim. With ``rank`` both
    are products of Gaussian factors of that rank, as in a layer with narrow heads. With
    ``constant`` a constant coordinate follows the ``dim`` others: each head gets a query bias,
    and the layer an output bias. ``attention`` names the attention function; where it shows more of
    the constant coordinate than softmax does, heads get key biases and output biases of their own.

    >>> layer = plant(heads=2, dim=8, scale=3.0, rank=2)
    >>> layer.theta.shape, layer.w.shape, round(float(np.linalg.norm(layer.theta[0])), 12)
    ((2, 8, 8), (2, 8, 8), 3.0)
    """
    heads = _positive("heads", heads)
    dim = _positive("dim", dim)
    out_dim = dim if out_dim is None else _positive("out_dim", out_dim)
    if rank is not None and _positive("rank", rank) > dim:
        raise ValueError(f"rank is {rank}; expected at most dim = {dim}")
    if not isinstance(scale, numbers.Real) or not 0 < scale < math.inf:
        raise ValueError(f"scale is {scale!r}; expected a positive finite number")
    if scale > MOST_SCALE:
        raise ValueError(f"scale is {scale!r}; expected at most {MOST_SCALE:g}: logits overflow")

    function = attention_function(attention)
    _check_total(heads=heads, dim=dim, out_dim=max(dim, out_dim))
    rng = _generator(seed)
    width = dim + constant
    theta = np.zeros((heads, width, width))
    w = np.zeros((heads, width, out_dim))
    for Theta, W in zip(theta, w, strict=True):
        Theta[:dim, :dim] = _with_norm(_gaussian(rng, dim, dim, rank), scale)
        W[:dim] = _gaussian(rng, dim, out_dim, rank) / np.sqrt(dim)
        if constant:
            Theta[-1, :dim] = _with_norm(rng.standard_normal(dim), QUERY_BIAS * scale)
        if constant and not function.shift_invariant:  # the key-constant column cancels in softmax
            Theta[:, -1] = _with_norm(rng.standard_normal(width), QUERY_BIAS * scale)
        if constant and not function.normalised:
            W[-1] = rng.standard_normal(out_dim) / np.sqrt(dim)
    if constant and function.normalised:
        # Only the sum over heads is visible, so each head carries an equal share.
        w[:, -1] = rng.standard_normal(out_dim) / np.sqrt(dim) / heads
    return AttentionLayer(theta, w, constant, attention=attention)


def sample_inputs(
    n: int, seq_len: int, dim: int, kind: InputKind = "boolean", seed: Seed = 0
) -> Array:
    """``n`` sequences of ``seq_len`` independent tokens: float64 (n, seq_len, dim).

    ``kind`` is "boolean" (uniform on +-1) or "gaussian" (standard normal).

    >>> X = sample_inputs(2, 3, 4)
    >>> X.shape, sorted(set(X.ravel().tolist()))
    ((2, 3, 4), [-1.0, 1.0])
    """
    shape = (_positive("n", n), _positive("seq_len", seq_len), _positive("dim", dim))
    _check_total(n=shape[0], seq_len=shape[1], dim=shape[2])
    rng = _generator(seed)
    if kind == "boolean":
        X = rng.integers(0, 2, shape, dtype=np.int8).astype(np.float64)
        X *= 2.0
        X -= 1.0
        return X
    if kind == "gaussian":
        return rng.standard_normal(shape)
    raise ValueError(f"kind is {kind!r}; expected one of {', '.join(INPUT_KINDS)}")


def _gaussian(rng: np.random.Generator, rows: int, columns: int, rank: int | None) -> Array:
    """A random matrix with entries of variance one, of the given rank (None: full)."""
    if rank is None:
        return rng.standard_normal((rows, columns))
    left, right = rng.standard_normal((rows, rank)), rng.standard_normal((rank, columns))
    return left @ right / np.sqrt(rank)


def _with_norm(array: Array, norm: float) -> Array:
    return array * (norm / np.linalg.norm(array))


def _positive(name: str, value: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} is {value!r}; expected a positive integer") from None
    if number < 1:
        raise ValueError(f"{name} is {number}; expected a positive integer")
    return number


def _check_total(**sizes: int) -> None:
    """Refuse, by the names of its sizes, an array that numpy could not even describe."""
    if math.prod(sizes.values()) > MOST_NUMBERS:
        name = max(sizes, key=lambda name: sizes[name])
        raise ValueError(f"{name} is {sizes[name]}; expected sizes of an array that fits in memory")


def _generator(seed: Seed) -> np.random.Generator:
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise ValueError(
            f"seed is {seed!r}; expected a whole number from 0, or a numpy Generator"
        ) from None
