"""Random features of a query and its keys: attention heads and neurons that are never trained.

With xt = [x; 1], a query x_0 and keys x_1 .. x_N, head h of random-feature attention gives

    phi_h(X) = (1/N) sum_i relu(xt_0^T A_h xt_i) xt_i    or    sum_i softmax_i(xt_0^T A_h xt_i) xt_i

with A_h of entries N(0, 1/4), about zero (RFA) or about the identity diag(I_d, 0) (biased: BRFA),
and a function is <v_h, phi_h(X)> summed over heads, linear in all v_h. The network it is compared
with has features relu(<a_m, [x_0; ..; x_N; 1]>), which know nothing of tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from gradine import kernels
from gradine.kernels import AnyArray

__all__ = ["Activation", "AttentionMap", "FeatureMap", "Mean", "NeuronMap"]

Array = NDArray[np.float64]
Mean = Literal["zero", "identity"]
Activation = Literal["relu", "softmax"]

SPREAD = 0.5  # standard deviation of every random weight [FGBM23]


class FeatureMap(Protocol):
    """Sequences (n, N + 1, d) to rows of features (n, p)."""

    @property
    def n_features(self) -> int: ...

    @property
    def group(self) -> int:
        """Features come in groups of so many: a part of the map has whole groups."""
        ...

    def numbers(self, tokens: int) -> int:
        """That are held at once for each sequence of so many tokens while features are made."""
        ...

    def __call__(self, X: AnyArray) -> AnyArray: ...

    def part(self, start: int, stop: int) -> FeatureMap:
        """The map to features ``start`` to ``stop``, multiples of ``group``."""
        ...


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """Features of random heads, side by side; ``matrices`` (M, d + 1, d + 1) are the A_h."""

    matrices: Array
    activation: Activation = "relu"

    @classmethod
    def draw(
        cls,
        n_heads: int,
        dim: int,
        mean: Mean,
        activation: Activation,
        rng: np.random.Generator,
        spread: float = SPREAD,
    ) -> AttentionMap:
        matrices = spread * rng.standard_normal((n_heads, dim + 1, dim + 1))
        if mean == "identity":
            matrices[:, range(dim), range(dim)] += 1.0
        return cls(matrices, activation)

    @property
    def n_features(self) -> int:
        return self.matrices.shape[0] * self.matrices.shape[1]

    @property
    def group(self) -> int:
        return self.matrices.shape[1]

    def numbers(self, tokens: int) -> int:
        return 2 * (self.n_features + len(self.matrices) * (tokens - 1))  # logits, and attention

    def part(self, start: int, stop: int) -> AttentionMap:
        heads = slice(start // self.group, stop // self.group)
        return AttentionMap(self.matrices[heads], self.activation)

    def __call__(self, X: AnyArray) -> AnyArray:
        xp = kernels.namespace(X)
        n, tokens, d = X.shape
        with_one = _with_one(X)
        A = kernels.like(self.matrices, X)
        queries = with_one[:, 0, :] @ kernels.side_by_side(A)
        keys = with_one[:, 1:, :]
        logits = xp.reshape(queries, (n, len(A), d + 1)) @ xp.matrix_transpose(keys)
        if self.activation == "softmax":
            weights = kernels.softmax(logits)
        else:
            weights = xp.clip(logits, min=0.0) / (tokens - 1)
        return xp.reshape(weights @ keys, (n, self.n_features))


@dataclass(frozen=True, eq=False)
class NeuronMap:
    """Features of random neurons; ``weights`` are (p, L + 1), the last one that of the constant."""

    weights: Array

    @classmethod
    def draw(
        cls, n_neurons: int, numbers: int, rng: np.random.Generator, spread: float = SPREAD
    ) -> NeuronMap:
        return cls(spread * rng.standard_normal((n_neurons, numbers + 1)))

    @property
    def n_features(self) -> int:
        return len(self.weights)

    @property
    def group(self) -> int:
        return 1

    def numbers(self, tokens: int) -> int:
        return 2 * self.n_features

    def part(self, start: int, stop: int) -> NeuronMap:
        return NeuronMap(self.weights[start:stop])

    def __call__(self, X: AnyArray) -> AnyArray:
        xp = kernels.namespace(X)
        rows = xp.reshape(X, (X.shape[0], math.prod(X.shape[1:])))
        A = kernels.like(self.weights, X)
        return xp.clip(rows @ A[:, :-1].T + A[:, -1], min=0.0)


def _with_one(X: AnyArray) -> Any:
    """A constant coordinate after the others."""
    xp = kernels.namespace(X)
    return xp.concat([X, xp.ones_like(X[..., :1])], axis=-1)
