"""A PyTorch student of the architecture that is to be learned: its start, forward pass and layer.

Parameters are a list of tensors: Theta (m, d, d) and W (m, d, o) of full heads, or the factors
U, V, A, B of heads of a given rank, Theta_i = U_i V_i^T and W_i = A_i B_i.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradine.layer import AttentionLayer

__all__ = ["Shape", "features", "forward", "layer_of", "matrices_of", "random_start"]


@dataclass(frozen=True)
class Shape:
    """What a student looks like; ``rank`` None: full matrices."""

    heads: int
    dim: int
    out_dim: int
    rank: int | None = None


def random_start(shape: Shape, std: float, generator: Any) -> list[Any]:
    """Matrices with entries of standard deviation ``std``, as they are or as products."""
    import torch

    m, d, o, r = shape.heads, shape.dim, shape.out_dim, shape.rank
    if r is None:
        sizes, factor = [(m, d, d), (m, d, o)], std
    else:
        sizes, factor = [(m, d, r), (m, d, r), (m, d, r), (m, r, o)], (std / r**0.5) ** 0.5
    return [torch.randn(size, generator=generator, dtype=torch.float64) * factor for size in sizes]


def matrices_of(parameters: list[Any]) -> tuple[Any, Any]:
    """Theta (m, d, d) and W (m, d, o), multiplied out where they are factors."""
    if len(parameters) == 2:
        return parameters[0], parameters[1]
    u, v, a, b = parameters
    return u @ v.transpose(1, 2), a @ b


def forward(X: Any, keys: Any, parameters: list[Any]) -> Any:
    """F(X) with large products; ``keys`` is X with its last two axes swapped, in one piece.

    Of the ways to write it that were tried these are the fastest, for full heads and for factors.
    """
    n, k, _ = X.shape
    if len(parameters) == 4:
        return _forward_by_factors(X, parameters)
    theta, w = parameters
    return (features(X, keys, theta) @ w.reshape(-1, w.shape[2])).reshape(n, k, -1)


def _forward_by_factors(X: Any, parameters: list[Any]) -> Any:
    """Queries, keys and values of all heads in one product, as in a layer with narrow heads."""
    import torch

    *inward, b = parameters
    n, k, d = X.shape
    m, r, o = b.shape
    side_by_side = torch.cat(inward).permute(1, 0, 2).reshape(d, 3 * m * r)
    narrow = (X.reshape(n * k, d) @ side_by_side).reshape(n, k, 3, m, r).permute(2, 0, 3, 1, 4)
    queries, keys, values = narrow
    attended = (queries @ keys.transpose(2, 3)).softmax(dim=-1) @ values
    return (attended.permute(0, 2, 1, 3).reshape(n * k, m * r) @ b.reshape(m * r, o)).reshape(
        n, k, o
    )


def features(X: Any, keys: Any, theta: Any) -> Any:
    """softmax(X Theta_i X^T) X of all heads side by side: (n k, m d)."""
    n, k, d = X.shape
    m = len(theta)
    side_by_side = theta.permute(1, 0, 2).reshape(d, m * d)
    queries = (X.reshape(n * k, d) @ side_by_side).reshape(n, k * m, d)
    return ((queries @ keys).softmax(dim=-1) @ X).reshape(n * k, m * d)


def layer_of(parameters: list[Any]) -> AttentionLayer:
    """The layer that a student is."""
    theta, w = (matrix.detach().double().numpy() for matrix in matrices_of(parameters))
    return AttentionLayer(theta, w)
