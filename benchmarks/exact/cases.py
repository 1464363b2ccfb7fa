"""Cases that a certificate must survive: learnable ones, and many that are not.

Each case is small: 1 to 3 heads, 6 to 10 dimensions. A case knows where its labels come from, so
that fresh examples can be drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

import gradine
from benchmarks.exact.instances import Instance, with_noise
from benchmarks.exact.ours import HELD_OUT

__all__ = ["CATEGORIES", "Case", "make_case"]

Array = NDArray[np.float64]
Label = Callable[[Array, int], Array]  #: inputs and a seed for the noise, to labels
Make = Callable[[Instance, int, np.random.Generator], "Case"]

RATIO = 8.0  # examples over the counting bound, unless a case says otherwise


@dataclass(frozen=True, eq=False)
class Case:
    """What is asked, and the truth where there is one."""

    kind: str
    instance: Instance
    examples: int
    heads: int  #: asked of the learner
    label: Label
    truth: gradine.AttentionLayer | None  #: None: no layer made these labels


def _of(layer: gradine.AttentionLayer) -> Label:
    return lambda X, _: layer(X)


def _plain(instance: Instance, seed: int, kind: str) -> Case:
    truth = instance.truth(seed)
    examples = instance.examples_at(RATIO) + HELD_OUT
    return Case(kind, instance, examples, instance.heads, _of(truth), truth)


def _learnable(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    return _plain(instance, seed, "learnable")


def _noisy(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    case, decibels = _plain(instance, seed, "noisy"), float(rng.uniform(10, 40))
    clean = case.label
    return replace(case, label=lambda X, s: with_noise(clean(X, s), decibels, s))


def _fewer_asked(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    more = replace(instance, heads=instance.heads + 1)
    return replace(_plain(more, seed, "fewer heads asked"), heads=instance.heads)


def _network(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    d = instance.dim
    inward, outward = rng.standard_normal((d, 2 * d)), rng.standard_normal((2 * d, d)) / d
    return replace(
        _plain(instance, seed, "two-layer net"),
        label=lambda X, _: np.tanh((X + X.mean(axis=1, keepdims=True)) @ inward) @ outward,
        truth=None,
    )


def _quadratic(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    d = instance.dim
    theta, w = rng.standard_normal((d, d)) / d, rng.standard_normal((d, d)) / np.sqrt(d)
    return replace(
        _plain(instance, seed, "attention without softmax"),
        label=lambda X, _: (X @ theta @ X.swapaxes(1, 2)) @ X @ w / X.shape[1],
        truth=None,
    )


def _planted_anew(instance: Instance, seed: int, kind: str, theta: Array, w: Array) -> Case:
    truth = gradine.AttentionLayer(theta, w)
    return replace(_plain(instance, seed, kind), label=_of(truth), truth=truth, heads=len(theta))


def _two_heads(instance: Instance, seed: int) -> tuple[Instance, Array, Array]:
    instance = replace(instance, heads=max(2, instance.heads))
    truth = instance.truth(seed)
    return instance, truth.theta.copy(), truth.w.copy()


def _equal_heads(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    instance, theta, w = _two_heads(instance, seed)
    theta[1] = theta[0]
    return _planted_anew(instance, seed, "equal heads", theta, w)


def _zero_head(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    instance, theta, w = _two_heads(instance, seed)
    w[0] = 0.0
    return _planted_anew(instance, seed, "a head without W", theta, w)


def _low_rank(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    truth, flat = instance.truth(seed), replace(instance, rank=1).truth(seed)
    return _planted_anew(instance, seed, "Theta of rank 1", flat.theta, truth.w)


def _near_heads(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    instance, theta, w = _two_heads(instance, seed)
    apart = 10.0 ** rng.uniform(-4, -1)
    theta[1] = theta[0] + apart * theta[1]
    return _planted_anew(instance, seed, "nearly equal heads", theta, w)


def _random_labels(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    def label(X: Array, seed: int) -> Array:
        return np.random.default_rng([seed, len(X)]).standard_normal(X.shape)

    return replace(_plain(instance, seed, "random labels"), label=label, truth=None)


def _too_few(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    examples = max(2, instance.examples_at(float(rng.uniform(0.3, 0.9)))) + HELD_OUT
    return replace(_plain(instance, seed, "fewer examples than unknowns"), examples=examples)


def _too_sharp(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    return _plain(replace(instance, scale=30.0), seed, "scale 30")


CATEGORIES: dict[str, tuple[Make, ...]] = {
    "learnable": (_learnable,),
    "noisy": (_noisy,),
    "misfit": (_fewer_asked, _network, _quadratic),
    "degenerate": (_equal_heads, _zero_head, _low_rank, _near_heads),
    "unlearnable": (_random_labels, _too_few, _too_sharp),
}


def make_case(category: str, number: int) -> Case:
    """Case ``number`` of a category; its kinds take turns."""
    makers = CATEGORIES[category]
    rng = np.random.default_rng([number, list(CATEGORIES).index(category)])
    heads, seq_len, dim = (int(rng.integers(*span)) for span in ((1, 4), (3, 7), (6, 11)))
    instance = Instance(heads, seq_len, dim, float(rng.uniform(1, 4)))
    seed = int(rng.integers(2**31))
    return makers[number % len(makers)](instance, seed, rng)
