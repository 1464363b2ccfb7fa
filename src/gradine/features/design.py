"""Features of examples, made block by block, and kept only where they may take so much memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gradine.features.maps import FeatureMap
from gradine.settings import Count, Positive, Settings, Whole

__all__ = ["Design", "RidgeConfig", "Sample", "inner_products"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RidgeConfig(Settings):
    """Settings of the solver."""

    #: Bytes that are taken by making features.
    block_bytes: Count = 2**27
    #: Bytes up to which features are kept from one pass to the next.
    kept_bytes: Whole = 2**31
    #: The smaller of n and p up to which a Gram matrix is formed in double precision.
    dense: Whole = 5000
    #: The same for eigenvalues, which take twenty times as long as one solution.
    spectral: Whole = 10_000
    #: Examples in the preconditioner: few if features are kept and a pass takes little.
    sample: tuple[Count, Count] = (4500, 10_000)
    #: Relative size of the gradient at which conjugate gradients are done.
    tolerance: Positive = 1e-8
    #: Iterations of one solve in single precision, and such solves.
    iterations: Count = 200
    corrections: Whole = 8


class Design:
    """Features of examples, centered if there is an intercept, in one precision or the other.

    An example may stand for several equal ones, ``counts`` of them: its row is then multiplied by
    the root of its count, which leaves sums of squares as they were.
    """

    def __init__(
        self,
        features: FeatureMap,
        X: Array,
        config: RidgeConfig,
        centered: bool,
        counts: Array | None = None,
    ) -> None:
        self.features, self.X, self.config, self.centered = features, X, config, centered
        self.n, self.p = len(X), features.n_features
        self.counts = np.ones(self.n) if counts is None else counts
        self.roots = np.sqrt(self.counts)
        self._repeated = counts is not None
        self._kept: NDArray | None = None

    @cached_property
    def means(self) -> Array:
        """Of the features, if these are centered."""
        total = np.zeros(self.p)
        if self.centered:
            for part, block in self._made(np.float64, self.X):
                total += self.counts[part] @ block
        return total / self.counts.sum()

    @cached_property
    def sample(self) -> Sample:
        return Sample(self)

    def keep(self, dtype: type) -> bool:
        """Keep the features in one precision from now on, where that is allowed."""
        if (
            self._kept is None
            and np.dtype(dtype).itemsize * self.n * self.p <= self.config.kept_bytes
        ):
            kept = np.empty((self.n, self.p), dtype)
            if dtype is np.float32:
                for part, block in self.blocks(dtype):
                    kept[part] = block
            else:  # good enough for the means, too
                for part, block in self._made(dtype, self.X):
                    kept[part] = block
                share = self.counts / self.counts.sum()
                self.means = share @ kept if self.centered else np.zeros(self.p)
                kept -= self.means
                if self._repeated:
                    kept *= self.roots[:, None]
            self._kept = kept
        return self._kept is not None and self._kept.dtype == dtype

    def blocks(self, dtype: type, rows: NDArray[np.intp] | None = None) -> Iterator:
        """Pairs of a slice of the examples (or of ``rows``) and their features."""
        if self._kept is not None and self._kept.dtype == dtype:
            for part in self._parts(dtype, self.n if rows is None else len(rows)):
                yield part, self._kept[part if rows is None else rows[part]]
            return
        means, roots = self.means.astype(dtype), self.roots.astype(dtype)
        roots = roots if rows is None else roots[rows]
        for part, block in self._made(dtype, self.X if rows is None else self.X[rows]):
            if self.centered:
                block -= means
            if self._repeated:
                block *= roots[part, None]
            yield part, block

    def _parts(self, dtype: type, count: int) -> Iterator[slice]:
        numbers = self.features.numbers(self.X.shape[1])
        step = max(1, self.config.block_bytes // (numbers * np.dtype(dtype).itemsize))
        for start in range(0, count, step):
            yield slice(start, min(start + step, count))

    def _made(self, dtype: type, X: Array) -> Iterator:
        """The same without kept ones, and not centered."""
        for part in self._parts(dtype, len(X)):
            yield part, self.features(X[part].astype(dtype))

    def times(self, C: NDArray, dtype: type = np.float64) -> NDArray:
        """Phi C."""
        out = np.empty((self.n, C.shape[1]), dtype)
        for part, block in self.blocks(dtype):
            out[part] = block @ C
        return out

    def transposed(self, U: NDArray, dtype: type = np.float64) -> NDArray:
        """Phi^T U."""
        out = np.zeros((self.p, U.shape[1]), dtype)
        if "means" not in self.__dict__ and self.centered:  # one pass for both
            total, U = np.zeros(self.p), self.roots[:, None] * U
            for part, block in self._made(np.float64, self.X):
                total += self.counts[part] @ block
                out += block.T @ U[part]
            self.means = total / self.counts.sum()
            return out - np.outer(self.means, U.sum(axis=0)).astype(dtype)
        for part, block in self.blocks(dtype):
            out += block.T @ U[part]
        return out

    def curvature(self, C: NDArray, dtype: type) -> NDArray:
        """Phi^T Phi C in one pass."""
        out = np.zeros_like(C)
        for _, block in self.blocks(dtype):
            out += block.T @ (block @ C)
        return out

    def gram(self) -> Array:
        """Phi^T Phi."""
        self.keep(np.float64)
        gram = np.zeros((self.p, self.p))
        for _, block in self.blocks(np.float64):
            gram += block.T @ block
        return gram

    def kernel(self) -> Array:
        """Phi Phi^T."""
        if self.keep(np.float64):
            assert self._kept is not None
            return self._kept @ self._kept.T
        X = self.X.astype(np.float64)
        block_bytes = self.config.block_bytes
        kernel = inner_products(self.features, X, self.n, block_bytes, self.means)[0]
        kernel *= self.roots
        kernel *= self.roots[:, None]
        return kernel


def inner_products(
    features: FeatureMap,
    X: NDArray,
    first: int,
    block_bytes: int,
    means: Array | None = None,
    on_part: Callable[[float], None] | None = None,
) -> tuple[NDArray, NDArray]:
    """Of the ``first`` examples with each other, and of the rest with them, in the precision of X.

    Over parts of the features, so that all examples are held, of few features; ``on_part`` hears
    which share of the features each part was.
    """
    own = np.zeros((first, first), X.dtype)
    beside = np.zeros((len(X) - first, first), X.dtype)
    group, itemsize = features.group, X.dtype.itemsize
    numbers = features.part(0, group).numbers(X.shape[1])
    step = max(1, block_bytes // (itemsize * len(X) * numbers)) * group
    for start in range(0, features.n_features, step):
        stop = min(start + step, features.n_features)
        block = features.part(start, stop)(X)
        if means is not None:
            block -= means[start:stop]
        leading = np.ascontiguousarray(block[:first])
        own += leading @ leading.T
        beside += block[first:] @ leading.T
        if on_part is not None:
            on_part((stop - start) / features.n_features)
    return own, beside


class Sample:
    """Some of the examples, whose Gram matrix stands for that of all in a preconditioner."""

    def __init__(self, design: Design) -> None:
        config, kept = design.config, design.keep(np.float32)
        allowed = max(config.kept_bytes // (4 * design.p), 1)
        self.n, self.s = design.n, min(config.sample[not kept], design.n, allowed)
        chosen = np.sort(np.random.default_rng(self.s).choice(self.n, self.s, replace=False))
        self.rows = np.empty((self.s, design.p), np.float32)
        for part, block in design.blocks(np.float32, chosen):
            self.rows[part] = block
        self.kernel = self.rows @ self.rows.T

    def preconditioner(self, alpha: float) -> Callable[[NDArray], NDArray]:
        """alpha P^-1 v by Woodbury: v - Phi_S^T (Phi_S Phi_S^T + alpha s / n I)^-1 Phi_S v."""
        from scipy.linalg import cho_factor, cho_solve

        kernel = self.kernel.copy()
        # Rounding in single precision must not make it indefinite.
        ridge = alpha * self.s / self.n + 1e-6 * float(np.trace(kernel)) / self.s
        kernel.flat[:: self.s + 1] += np.float32(ridge)
        factor = cho_factor(kernel, lower=True, overwrite_a=True)
        return lambda v: v - self.rows.T @ cho_solve(factor, self.rows @ v)
