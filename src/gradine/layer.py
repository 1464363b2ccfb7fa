"""The function class: a multi-head attention layer, its forward pass and its canonical form.

F(X) = sum_{i=1..m} softmax(X Theta_i X^T) X W_i        X: k tokens x D, softmax over each row
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from numpy.typing import ArrayLike, NDArray

from gradine import kernels
from gradine.layer_file import read_layer, write_layer

__all__ = ["AttentionLayer", "attention_features", "softmax"]

Array = NDArray[np.float64]

SAME_HEAD = 1e-12  # relative difference of Theta below which two heads cannot be told apart
BLOCK_BYTES = 64 * 2**20  # temporaries of one forward pass, whatever the number of examples


def softmax(logits: ArrayLike) -> Array:
    """Softmax over the last axis, safe for logits of any size.

    >>> softmax([[0.0, 0.0], [1000.0, 0.0]]).tolist()
    [[0.5, 0.5], [1.0, 0.0]]
    """
    return kernels.softmax(np.asarray(logits, dtype=np.float64))


def attention_features(X: Array, theta: Array) -> Array:
    """What each head hands to its ``W_i``: softmax(X Theta_i X^T) X.

    ``X`` is (n, k, D) and ``theta`` (m, D, D); the result is (n, m, k, D). It is a view of an
    (n, k, m, D) array, so ``features.swapaxes(1, 2).reshape(n * k, m * D)`` costs nothing.

    >>> X = np.ones((5, 4, 3))
    >>> attention_features(X, np.zeros((2, 3, 3))).shape
    (5, 2, 4, 3)
    """
    n, k, width = X.shape
    features = kernels.features_of(X, kernels.attend(X, theta))
    return features.reshape(n, k, len(theta), width).swapaxes(1, 2)


@dataclass(frozen=True, eq=False, repr=False)
class AttentionLayer:
    """A multi-head attention layer, the thing that is planted, learned, saved and compared.

    ``theta`` has shape (m, D, D) and ``w`` (m, D, d_out); both are copied to float64 and made
    read-only. ``constant=True`` says that the last of the D coordinates is always 1, so that
    tokens have d = D - 1 coordinates of their own and the layer carries biases.

    >>> layer = AttentionLayer(np.zeros((1, 2, 2)), np.eye(2)[None])
    >>> layer([[1.0, -1.0], [3.0, 1.0]])  # Theta = 0 averages the tokens
    array([[2., 0.],
           [2., 0.]])
    """

    theta: Array
    w: Array
    constant: bool = False

    def __post_init__(self) -> None:
        theta = _finite_3d("theta", self.theta)
        w = _finite_3d("w", self.w)
        heads, width, columns = theta.shape
        if width != columns:
            raise ValueError(f"theta has shape {theta.shape}; expected (m, D, D)")
        if w.shape[:2] != (heads, width):
            raise ValueError(f"w has shape {w.shape}; expected ({heads}, {width}, d_out)")
        if self.constant and width < 2:
            raise ValueError(f"constant is set but theta has width {width}; expected at least 2")
        object.__setattr__(self, "theta", theta)
        object.__setattr__(self, "w", w)
        object.__setattr__(self, "constant", bool(self.constant))

    def __repr__(self) -> str:
        return (
            f"AttentionLayer(heads={self.n_heads}, dim={self.dim}, "
            f"out_dim={self.out_dim}, constant={self.constant})"
        )

    @property
    def n_heads(self) -> int:
        """m, the number of heads."""
        return self.theta.shape[0]

    @property
    def width(self) -> int:
        """D, the coordinates of a token with the constant one, if there is one."""
        return self.theta.shape[1]

    @property
    def dim(self) -> int:
        """d, the coordinates of a token without the constant one."""
        return self.width - self.constant

    @property
    def out_dim(self) -> int:
        """d_out, the coordinates of an output row."""
        return self.w.shape[2]

    @property
    def n_parameters(self) -> int:
        """How many numbers of this layer examples can determine (generic heads)."""
        per_head = self.width * self.dim + self.dim * self.out_dim
        return self.n_heads * per_head + (self.out_dim if self.constant else 0)

    def __call__(self, X: Any) -> Any:
        """F(X): (n, k, d) to (n, k, d_out), or one sequence (k, d) to (k, d_out).

        Tokens may come with D coordinates, or with D - 1: then a constant 1 is appended. A torch
        tensor gives a tensor of its type (whole numbers: float64), computed on its device; all else
        gives float64 numpy.
        """
        tokens, single = self._tokens(X)
        n, k, _ = tokens.shape
        theta = kernels.like(self.theta, tokens)
        project = kernels.like(self.w.reshape(-1, self.out_dim), tokens)
        xp = kernels.namespace(tokens)
        blocks = []
        for start, stop in self._blocks(n, k):
            block = tokens[start:stop]
            features = kernels.features_of(block, kernels.attend(block, theta))
            blocks.append(xp.reshape(features @ project, (stop - start, k, self.out_dim)))
        Y = xp.concat(blocks)
        return Y[0] if single else Y

    def attention(self, X: Any) -> Any:
        """The attention weights of every head: (n, m, k, k), or (m, k, k) for one sequence."""
        tokens, single = self._tokens(X)
        n, k, _ = tokens.shape
        theta, xp = kernels.like(self.theta, tokens), kernels.namespace(tokens)
        weights = xp.concat(
            [kernels.attend(tokens[start:stop], theta) for start, stop in self._blocks(n, k)]
        )
        weights = xp.permute_dims(xp.reshape(weights, (n, k, self.n_heads, k)), (0, 2, 1, 3))
        return weights[0] if single else weights

    def canonical(self) -> AttentionLayer:
        """The same function in the one form that examples can identify.

        Equal heads are merged, invisible ones dropped, the constant key column of Theta (it
        cancels in the softmax) is zero, the constant row of the W_i (only its sum is visible) is
        shared out equally, and heads come by decreasing norm of W, then of Theta.
        """
        theta, w = self.theta.copy(), self.w.copy()
        visible = w[:, : self.dim]
        if self.constant:
            theta[:, :, -1] = 0.0
        heads = sorted(
            _merge_heads(theta, visible),
            key=lambda head: (-_norm(head[1]), -_norm(head[0]), head[0].tobytes()),
        )
        if not heads:  # nothing but the bias is left: one head that does nothing carries it
            heads = [(np.zeros_like(theta[0]), np.zeros_like(visible[0]))]
        new_theta = np.stack([head[0] for head in heads])
        new_w = np.zeros((len(heads), self.width, self.out_dim))
        new_w[:, : self.dim] = [head[1] for head in heads]
        if self.constant:
            rows = w[:, -1]
            # Shares that are equal already stay to the last bit: the form is its own canonical.
            settled = len(heads) == len(rows) and bool((rows == rows[0]).all())
            new_w[:, -1] = rows[0] if settled else rows.sum(axis=0) / len(heads)
        return AttentionLayer(new_theta, new_w, self.constant)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the layer as safetensors; the file appears whole or not at all."""
        write_layer(path, self.theta, self.w, self.constant)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> AttentionLayer:
        """Read a layer that ``save`` wrote; anything else is a ``ValueError`` naming the file.

        Numbers are read only after the header has been checked. A missing file raises
        ``FileNotFoundError``.
        """
        theta, w, constant = read_layer(path)
        try:
            return cls(theta, w, constant)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def _tokens(self, X: Any) -> tuple[Any, bool]:
        """X as (n, k, D) tokens, and whether it was a single sequence."""
        tensor = is_torch_array(X)
        tokens = _floating(X) if tensor else np.ascontiguousarray(X, dtype=np.float64)
        if tokens.ndim not in (2, 3) or tokens.shape[-2] == 0:
            raise ValueError(f"X has shape {tokens.shape}; expected (n, k, d) or (k, d)")
        single = tokens.ndim == 2
        if single:
            tokens = tokens[None]
        if tokens.shape[-1] == self.width - 1:
            xp = kernels.namespace(tokens)
            tokens = xp.concat([tokens, xp.ones_like(tokens[..., :1])], axis=-1)
        elif tokens.shape[-1] != self.width:
            raise ValueError(
                f"X has tokens of {tokens.shape[-1]} coordinates; "
                f"expected {self.width}, or {self.width - 1} to have a constant 1 appended"
            )
        return tokens, single

    def _blocks(self, n: int, k: int) -> list[tuple[int, int]]:
        """Ranges of examples whose temporaries (queries, logits, weights) fit in BLOCK_BYTES."""
        per_example = 8 * self.n_heads * k * (2 * self.width + 3 * k)
        size = max(1, BLOCK_BYTES // per_example)
        return [(start, min(start + size, n)) for start in range(0, max(n, 1), size)]


def _floating(X: Any) -> Any:
    """A torch tensor that can be computed with: whole numbers would round the heads."""
    if X.is_complex():
        raise ValueError(f"X has dtype {X.dtype}; expected real numbers")
    return X if X.is_floating_point() else X.double()


def _finite_3d(name: str, value: ArrayLike) -> Array:
    array = np.array(value, dtype=np.float64, order="C")  # a copy: nobody else can change it
    if array.ndim != 3 or 0 in array.shape:
        raise ValueError(f"{name} has shape {array.shape}; expected three axes, none empty")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has NaN or infinite entries; expected finite numbers")
    array.setflags(write=False)
    return array


def _norm(matrix: Array) -> float:
    return float(np.linalg.norm(matrix))


def _merge_heads(theta: Array, w: Array) -> list[tuple[Array, Array]]:
    """Distinct heads (Theta, W): equal Theta merged with W summed, heads with W = 0 left out."""
    groups: list[tuple[Array, list[Array]]] = []
    for Theta, W in zip(theta, w, strict=True):
        for representative, members in groups:
            size = max(_norm(Theta), _norm(representative))
            if _norm(Theta - representative) <= SAME_HEAD * size:
                members.append(W)
                break
        else:
            groups.append((Theta, [W]))
    merged = [
        (Theta, np.sum(members, axis=0), sum(map(_norm, members))) for Theta, members in groups
    ]
    # Heads that cancel leave rounding behind: that is zero too.
    return [(Theta, W) for Theta, W, total in merged if _norm(W) > SAME_HEAD * total]
