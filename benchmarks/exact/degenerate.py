"""Cases in which something is equal, zero, weak or badly scaled.

In most of them the examples do not determine the heads, though a layer that explains all of them
may be easy to find: whoever claims the heads then claims too much. Some are harmless, and only
look unusual.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.exact.case import Case, Make, plain, planted
from benchmarks.exact.instances import Instance, with_noise

__all__ = ["DEGENERATE"]

Array = NDArray[np.float64]

SEQUENCES = 10  # distinct ones, where they are repeated
WEAK_NOISE = 100.0  # decibels: 1e-5 of the labels


def _two_heads(instance: Instance, seed: int) -> tuple[Instance, Array, Array]:
    instance = replace(instance, heads=max(2, instance.heads))
    truth = instance.truth(seed)
    return instance, truth.theta.copy(), truth.w.copy()


def _with_tokens(case: Case, change: Callable[[Array], Array]) -> Case:
    """The same layer on other tokens."""
    draw = case.draw
    return replace(case, draw=lambda n, seed: change(draw(n, seed)))


def _equal_heads(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    instance, theta, w = _two_heads(instance, seed)
    theta[1] = theta[0]
    return planted(instance, seed, "equal heads", theta, w)


def _zero_head(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    instance, theta, w = _two_heads(instance, seed)
    w[0] = 0.0
    return planted(instance, seed, "a head without W", theta, w)


def _low_rank(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    truth, flat = instance.truth(seed), replace(instance, rank=1).truth(seed)
    return planted(instance, seed, "Theta of rank 1", flat.theta, truth.w)


def _near_heads(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    instance, theta, w = _two_heads(instance, seed)
    apart = 10.0 ** rng.uniform(-4, -1)
    theta[1] = theta[0] + apart * theta[1]
    return planted(instance, seed, "nearly equal heads", theta, w)


def _weak_head(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    instance, theta, w = _two_heads(instance, seed)
    w[0] *= 10.0 ** rng.uniform(-5, -2)
    return planted(instance, seed, "a weak head", theta, w)


def _weak_head_noisy(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    case = _weak_head(instance, seed, rng)
    clean = case.label
    return replace(
        case,
        kind="a weak head and noise of 1e-5",
        label=lambda X, s: with_noise(clean(X, s), WEAK_NOISE, s),
    )


def _one_hot(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    """A constant may be added to a row of Theta: the softmax does not see it."""
    shape, tokens = (instance.seq_len,), np.eye(instance.dim)

    def draw(n: int, seed: int) -> Array:
        return tokens[np.random.default_rng(seed).integers(len(tokens), size=(n, *shape))]

    return replace(plain(instance, seed, "one-hot tokens"), draw=draw)


def _duplicated(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    """Two rows of W, and of Theta, are seen only as their sum."""

    def change(X: Array) -> Array:
        X = X.copy()
        X[..., 1] = X[..., 0]
        return X

    return _with_tokens(plain(instance, seed, "a coordinate twice"), change)


def _zero_coordinate(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    """A row of W, a row and a column of Theta are not seen at all."""
    mask = np.arange(instance.dim) > 0
    return _with_tokens(plain(instance, seed, "a coordinate that is zero"), lambda X: X * mask)


def _repeated(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    """Held-out examples are among those fitted, so verifying them says nothing about others."""
    pool = instance.inputs(SEQUENCES, seed)

    def draw(n: int, s: int) -> Array:
        return pool[np.random.default_rng([s, seed]).integers(SEQUENCES, size=n)]

    return replace(plain(instance, seed, "ten sequences, repeated"), draw=draw)


def _residual(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    """The layer with a skip connection: another head comes near it only as its Theta grows."""
    layer = instance.truth(seed)
    return replace(plain(instance, seed, "F(X) + X"), label=lambda X, _: layer(X) + X, truth=None)


def _linear(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    w = instance.truth(seed).w[0]
    return replace(plain(instance, seed, "X W"), label=lambda X, _: X @ w, truth=None)


def _scaled(instance: Instance, seed: int, scale: Array, kind: str) -> Case:
    """Tokens times ``scale``, coordinate by coordinate; Theta undoes it, so that logits stay."""
    truth = instance.truth(seed)
    theta = truth.theta / np.outer(scale, scale)
    case = planted(instance, seed, kind, theta, truth.w)
    return _with_tokens(case, lambda X: X * scale)


def _token_scale(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    scale = np.full(instance.dim, 10.0 ** rng.uniform(-2, 2))
    return _scaled(instance, seed, scale, "tokens of another scale")


def _unequal_scales(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    spread = rng.uniform(0, 2)
    scale = 10.0 ** (spread * rng.uniform(-1, 1, instance.dim))
    return _scaled(instance, seed, scale, "coordinates of unequal scale")


DEGENERATE: tuple[Make, ...] = (
    _equal_heads,
    _zero_head,
    _low_rank,
    _near_heads,
    _one_hot,
    _duplicated,
    _zero_coordinate,
    _weak_head,
    _weak_head_noisy,
    _repeated,
    _residual,
    _linear,
    _token_scale,
    _unequal_scales,
)
