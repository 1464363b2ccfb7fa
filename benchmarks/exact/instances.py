"""The instances that the exact learner is measured on, and what is asked of each."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import gradine
from benchmarks.instances import INPUT_SEED
from gradine.inputs import InputKind

__all__ = ["CURVE", "ROWS", "Instance", "Row", "with_noise"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Instance:
    """Gaussian Theta of norm ``scale``, W entries of variance 1/dim, +-1 inputs by default."""

    heads: int
    seq_len: int
    dim: int
    scale: float
    rank: int | None = None
    tokens: InputKind = "boolean"

    @property
    def name(self) -> str:
        rank = "" if self.rank is None else f"-r{self.rank}"
        tokens = "" if self.tokens == "boolean" else f"-{self.tokens}"
        return f"m{self.heads}-k{self.seq_len}-d{self.dim}-s{self.scale:g}{rank}{tokens}"

    @property
    def n_parameters(self) -> int:
        """Numbers that examples can determine; a d x d matrix of rank r has 2 d r - r^2."""
        r = self.rank or self.dim
        return self.heads * 2 * (2 * self.dim * r - r**2)

    def examples_at(self, ratio: float) -> int:
        """``ratio`` times the counting bound: parameters over numbers in an answer."""
        return math.ceil(ratio * self.n_parameters / (self.seq_len * self.dim))

    def truth(self, seed: int) -> gradine.AttentionLayer:
        return gradine.plant(self.heads, self.dim, self.scale, self.rank, seed)

    def inputs(self, n: int, seed: int) -> Array:
        seed += INPUT_SEED
        return gradine.sample_inputs(n, self.seq_len, self.dim, self.tokens, seed)


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    instance: Instance
    ratio: float  #: examples that are fitted, over the counting bound
    seeds: int
    successes: int | None  #: how many of the seeds must succeed; None: reported only
    faster: float | None  #: how many times faster than the faster peer
    peer_seeds: int = 3  #: the first so many seeds are given to the peers too
    starts: int = 3  #: of a peer
    patience: float = 10.0  #: a start of a peer is given up after so many times our time
    expand: bool = True  #: whether expand-and-cluster takes part

    @property
    def name(self) -> str:
        return f"{self.instance.name}-x{self.ratio:g}"


CURVE = Instance(4, 8, 16, 2.0)

ROWS = (
    Row(CURVE, 4, 20, 20, 3, peer_seeds=5),
    Row(CURVE, 2, 20, 18, 3, peer_seeds=5),
    Row(Instance(4, 8, 16, 6.0), 4, 20, 20, 3, peer_seeds=5),
    Row(Instance(2, 2, 16, 2.0), 8, 20, 18, 3, peer_seeds=5),
    Row(Instance(8, 8, 32, 2.0), 4, 10, 10, 10),
    Row(Instance(16, 8, 32, 2.0), 4, 10, 10, 10, peer_seeds=1),
    Row(Instance(8, 8, 64, 2.0, 8), 4, 5, 5, 10, peer_seeds=1),
    # Reported only, and so large that each peer gets one start, and of that little more than our
    # own time: the whole table is to fit in an hour.
    Row(
        Instance(32, 8, 64, 2.0),
        4,
        1,
        None,
        None,
        peer_seeds=1,
        starts=1,
        patience=1.5,
        expand=False,
    ),
)


def with_noise(Y: Array, decibels: float, seed: int) -> Array:
    """Labels with Gaussian noise, the signal's power ``decibels`` above that of the noise."""
    rng = np.random.default_rng([seed, INPUT_SEED])
    size = np.sqrt(np.mean(Y**2)) * 10.0 ** (-decibels / 20.0)
    return Y + size * rng.standard_normal(Y.shape)
