"""Cases that a certificate must survive: learnable ones, and many that are not.

Each case is small: 1 to 3 heads, 6 to 10 dimensions. Of each kind every third is learned without
being told the number of heads, and every fourth has Gaussian tokens, not +-1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.exact.case import Case, Make, plain
from benchmarks.exact.degenerate import DEGENERATE
from benchmarks.exact.instances import Instance, with_noise
from benchmarks.exact.ours import HELD_OUT

__all__ = ["CATEGORIES", "Case", "make_case"]

Array = NDArray[np.float64]

FEWER_ASKED = "fewer heads asked"


def _learnable(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    return plain(instance, seed, "learnable")


def _noisy(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    case, decibels = plain(instance, seed, "noisy"), float(rng.uniform(10, 40))
    clean = case.label
    return replace(case, label=lambda X, s: with_noise(clean(X, s), decibels, s))


def _fewer_asked(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    more = replace(instance, heads=instance.heads + 1)
    return replace(plain(more, seed, FEWER_ASKED), heads=instance.heads)


def _network(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    d = instance.dim
    inward, outward = rng.standard_normal((d, 2 * d)), rng.standard_normal((2 * d, d)) / d
    return replace(
        plain(instance, seed, "two-layer net"),
        label=lambda X, _: np.tanh((X + X.mean(axis=1, keepdims=True)) @ inward) @ outward,
        truth=None,
    )


def _quadratic(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    d = instance.dim
    theta, w = rng.standard_normal((d, d)) / d, rng.standard_normal((d, d)) / np.sqrt(d)
    return replace(
        plain(instance, seed, "attention without softmax"),
        label=lambda X, _: (X @ theta @ X.swapaxes(1, 2)) @ X @ w / X.shape[1],
        truth=None,
    )


def _random_labels(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    def label(X: Array, seed: int) -> Array:
        return np.random.default_rng([seed, len(X)]).standard_normal(X.shape)

    return replace(plain(instance, seed, "random labels"), label=label, truth=None)


def _too_few(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    examples = max(2, instance.examples_at(float(rng.uniform(0.3, 0.9)))) + HELD_OUT
    return replace(plain(instance, seed, "fewer examples than unknowns"), examples=examples)


def _too_sharp(instance: Instance, seed: int, rng: np.random.Generator) -> Case:
    return plain(replace(instance, scale=30.0), seed, "scale 30")


CATEGORIES: dict[str, tuple[Make, ...]] = {
    "learnable": (_learnable,),
    "noisy": (_noisy,),
    "misfit": (_fewer_asked, _network, _quadratic),
    "degenerate": DEGENERATE,
    "unlearnable": (_random_labels, _too_few, _too_sharp),
}


def make_case(category: str, number: int) -> Case:
    """Case ``number`` of a category; its kinds take turns."""
    makers = CATEGORIES[category]
    turn, kind = divmod(number, len(makers))
    rng = np.random.default_rng([number, list(CATEGORIES).index(category)])
    heads, seq_len, dim = (int(rng.integers(*span)) for span in ((1, 4), (3, 7), (6, 11)))
    tokens = "gaussian" if turn % 4 == 3 else "boolean"
    instance = Instance(heads, seq_len, dim, float(rng.uniform(1, 4)), tokens=tokens)
    case = makers[kind](instance, int(rng.integers(2**31)), rng)
    # Where fewer heads are asked for than there are, asking is the point.
    if turn % 3 == 2 and case.kind != FEWER_ASKED:
        return replace(case, heads="auto")
    return case
