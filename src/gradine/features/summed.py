"""Ridge regression on features of examples that come in blocks, from anywhere: one pass.

Of examples that are too many for memory, or that lie on other machines, a fit to p features needs
only sums over them: the Gram matrix Phi^T Phi, Phi^T Y, and those that means are made of. Blocks
are summed by any engine (`gradine.engine`), in double precision; every solution, the choice of
alpha by generalised cross validation included, follows from the sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine.engine import Engine, reduce_blocks
from gradine.examples.errors import BadBlock, BlockError, first_not_finite
from gradine.examples.source import Examples
from gradine.examples.split import take
from gradine.features.maps import FeatureMap
from gradine.features.ridge import OVERFLOW, Ridge, Solutions

__all__ = ["SummedSpectrum", "sum_features"]

Array = NDArray[np.float64]

#: Examples in a block at most: enough that its products take far longer than its sums take to be
#: sent, and not more, so that there is work for many.
BLOCK = 4096
FIRST = 256  # examples whose means are subtracted before anything is summed


class Sums(NamedTuple):
    """Over the examples of a block, or of several."""

    examples: float
    features: Array  #: (p,), and all of the following, less their origin
    targets: Array  #: (t,)
    gram: Array  #: Phi^T Phi, (p, p)
    cross: Array  #: Phi^T Y, (p, t)
    energy: Array  #: of each target, (t,)


@dataclass(frozen=True, eq=False)
class _Summing:
    """The kernel of the pass; targets are what the layer gave for the query, the first token."""

    features: FeatureMap
    block_bytes: int
    name: str
    origin: Array  #: (p,) subtracted from features: sums of squares of large means lose digits
    target_origin: Array  #: (t,)

    def __call__(self, X: Array, Y: Array, start: int) -> Sums:
        if (bad := first_not_finite(X, Y, start)) is not None:
            raise BlockError(self.name, BadBlock(start, start + len(X), bad[1]))
        p, y = self.features.n_features, Y[:, 0] - self.target_origin
        step = max(1, self.block_bytes // (8 * self.features.numbers(X.shape[1])))
        total, gram, cross = np.zeros(p), np.zeros((p, p)), np.zeros((p, y.shape[1]))
        for first in range(0, len(X), step):
            with np.errstate(over="ignore", invalid="ignore"):
                block = self.features(X[first : first + step])
            if not np.isfinite(block).all():
                raise ValueError(OVERFLOW)
            block -= self.origin
            total += block.sum(axis=0)
            gram += block.T @ block
            cross += block.T @ y[first : first + step]
        return Sums(float(len(X)), total, y.sum(axis=0), gram, cross, np.sum(y**2, axis=0))


def _merged(a: Sums, b: Sums) -> Sums:
    # The Gram matrix is large: no third is made, where what a worker sent may be written to.
    gram = a.gram if a.gram.flags.writeable else a.gram.copy()
    gram += b.gram
    return Sums(
        a.examples + b.examples,
        a.features + b.features,
        a.targets + b.targets,
        gram,
        a.cross + b.cross,
        a.energy + b.energy,
    )


def sum_features(
    features: FeatureMap,
    examples: Examples,
    memory: int,
    block_bytes: int,
    centered: bool,
    engine: Engine | None = None,
    on_block: Callable[[int, Sums], None] | None = None,
) -> SummedSpectrum:
    """All solutions, by one pass; its Gram matrices take ``memory`` bytes at most, all together."""
    p = features.n_features
    about = (1 if engine is None else engine.in_flight) + 2
    most = math.isqrt(memory // (8 * about))
    if p > most:
        needed = math.ceil(8 * about * p * p / 2**20)
        raise ValueError(
            f"there are {p:,} features; expected at most {most:,}, as {about} Gram matrices of "
            f"these take {memory // 2**20:,} MiB: set memory to {needed:,} or fit to arrays"
        )
    size = min(BLOCK, examples.block_size(memory))
    origin, target_origin = np.zeros(p), np.zeros(examples.out_dim)
    if centered:
        X, Y = take(examples, np.arange(min(FIRST, examples.n)))
        with np.errstate(over="ignore", invalid="ignore"):
            origin, target_origin = features(X).mean(axis=0), Y[:, 0].mean(axis=0)
        if not (np.isfinite(origin).all() and np.isfinite(target_origin).all()):
            origin, target_origin = np.zeros(p), np.zeros(examples.out_dim)  # the pass will say why
    kernel = _Summing(features, block_bytes, examples.name, origin, target_origin)
    sums = reduce_blocks(
        examples, kernel, _merged, block_size=size, engine=engine, on_block=on_block
    )
    return SummedSpectrum(sums, origin, target_origin, centered)


class SummedSpectrum(Solutions):
    """All solutions at once, by the eigenvalues of the Gram matrix; the sums are used up."""

    def __init__(self, sums: Sums, origin: Array, target_origin: Array, centered: bool) -> None:
        self.count, self.centered = sums.examples, centered
        n, share = sums.examples, float(centered) / sums.examples
        means, offset = share * sums.features, share * sums.targets  # less their origins
        gram = sums.gram
        gram -= n * np.outer(means, means)
        right = sums.cross - n * np.outer(means, offset)
        self.energy = sums.energy - n * offset**2
        self.means, self.offset = origin + means, target_origin + offset
        values, vectors = np.linalg.eigh(gram)
        super().__init__(values, vectors, vectors.T @ right, dual=False)

    @property
    def size(self) -> float:
        """Mean squared norm of a row of features."""
        return float(self.values.sum()) / self.count or 1.0

    def errors(self, alphas: Array) -> tuple[Array, Array]:
        """Generalised cross validation: mean squared errors (alphas, t), and shares (alphas,) of
        the examples that are left free."""
        shifted = self.values[:, None] + alphas
        weights = (self.values[:, None] + 2.0 * alphas) / shifted**2
        left = np.maximum(self.energy - weights.T @ self.inner**2, 0.0)
        free = self.count - self.centered - np.sum(self.values[:, None] / shifted, axis=0)
        share = np.maximum(free / self.count, np.finfo(float).eps)
        return left / (self.count * share[:, None] ** 2), share

    def solution(self, alpha: float | Array) -> Ridge:
        C = self.coefficients(alpha)
        return Ridge(C, self.offset - self.means @ C, alpha, "summed", 0)
