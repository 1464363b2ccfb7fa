"""The forward pass of some heads: by whole matrices, or by factors where these are narrow.

Both give the same numbers up to rounding. With 12 heads of rank 32 in 384 coordinates, as in a
small transformer, factors are about a seventh of the work.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from gradine import kernels
from gradine.attention_functions import AttentionFunction
from gradine.factors import Factors

__all__ = ["NarrowHeads", "WideHeads"]


class WideHeads:
    """Heads by Theta_i and W_i, in the library, type and device of the tokens."""

    def __init__(
        self, theta: NDArray, w: NDArray, function: AttentionFunction, tokens: Any
    ) -> None:
        self.function = function
        self.heads, self.out_dim = len(theta), w.shape[2]
        self.theta = kernels.like(theta, tokens)
        self.w = kernels.like(w.reshape(-1, self.out_dim), tokens)

    def attention(self, X: Any) -> Any:
        """Attention weights (n, m, k, k) of tokens (n, k, D)."""
        xp = kernels.namespace(X)
        n, k, _ = X.shape
        weights = self.function(kernels.logits_of(X, self.theta))
        weights = xp.reshape(weights, (n, k, self.heads, k))
        return xp.permute_dims(weights, (0, 2, 1, 3))

    def output(self, X: Any) -> Any:
        """F(X): (n, k, d_out)."""
        xp = kernels.namespace(X)
        features = kernels.features_of(X, self.function(kernels.logits_of(X, self.theta)))
        return xp.reshape(features @ self.w, (*X.shape[:2], self.out_dim))


class NarrowHeads:
    """Heads by their factors; the last coordinate of every token is 1 if there is a bias."""

    def __init__(self, factors: Factors, function: AttentionFunction, tokens: Any) -> None:
        self.function = function
        self.queries = kernels.like(factors.queries, tokens)
        self.keys = kernels.like(factors.keys, tokens)
        self.values = kernels.like(factors.values, tokens)
        self.out_dim = factors.outputs.shape[2]
        self.outputs = kernels.like(factors.outputs.reshape(-1, self.out_dim), tokens)
        self.bias = None if factors.bias is None else kernels.like(factors.bias, tokens)

    def attention(self, X: Any) -> Any:
        """Attention weights (n, m, k, k) of tokens (n, k, D)."""
        xp = kernels.namespace(X)
        queries, keys = kernels.narrowed(X, self.queries), kernels.narrowed(X, self.keys)
        return self.function(queries @ xp.matrix_transpose(keys))

    def output(self, X: Any) -> Any:
        """F(X): (n, k, d_out)."""
        xp = kernels.namespace(X)
        attended = self.attention(X) @ kernels.narrowed(X, self.values)
        side_by_side = xp.reshape(xp.permute_dims(attended, (0, 2, 1, 3)), (-1, len(self.outputs)))
        Y = side_by_side @ self.outputs
        if self.bias is not None:  # where attention adds up to 1, it passes through unchanged
            Y += self.bias
        return xp.reshape(Y, (*X.shape[:2], self.out_dim))
