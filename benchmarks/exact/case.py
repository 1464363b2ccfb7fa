"""A case for the certificates: where its tokens and labels come from, and the truth, if any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

import gradine
from benchmarks.exact.instances import Instance
from benchmarks.exact.ours import HELD_OUT

__all__ = ["Case", "Make", "label_by", "plain", "planted"]

Array = NDArray[np.float64]
Draw = Callable[[int, int], Array]  #: a number of sequences and a seed, to inputs
Label = Callable[[Array, int], Array]  #: inputs and a seed for the noise, to labels
Make = Callable[[Instance, int, np.random.Generator], "Case"]

RATIO = 8.0  # examples over the counting bound, unless a case says otherwise


@dataclass(frozen=True, eq=False)
class Case:
    """What is asked. Fresh examples come from ``draw`` and ``label``, as the given ones do."""

    kind: str
    instance: Instance
    examples: int
    heads: int | Literal["auto"]  #: asked of the learner
    draw: Draw
    label: Label
    truth: gradine.AttentionLayer | None  #: None: no layer made these labels


def label_by(layer: gradine.AttentionLayer) -> Label:
    return lambda X, _: layer(X)


def plain(instance: Instance, seed: int, kind: str) -> Case:
    """A planted layer with as many examples as it takes and the heads that it has."""
    truth = instance.truth(seed)
    examples = instance.examples_at(RATIO) + HELD_OUT
    return Case(kind, instance, examples, instance.heads, instance.inputs, label_by(truth), truth)


def planted(instance: Instance, seed: int, kind: str, theta: Array, w: Array) -> Case:
    """The same with heads that are given."""
    truth = gradine.AttentionLayer(theta, w)
    return replace(
        plain(instance, seed, kind), label=label_by(truth), truth=truth, heads=len(theta)
    )
