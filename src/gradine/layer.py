"""The function class: a multi-head attention layer, its forward pass and its canonical form.

F(X) = sum_{i=1..m} softmax(X Theta_i X^T) X W_i        X: k tokens x D, softmax over each row

Another attention function may stand in the place of the softmax (`gradine.attention_functions`).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from numpy.typing import ArrayLike, NDArray

from gradine import kernels
from gradine.attention_functions import SOFTMAX, AttentionFunction, attention_function
from gradine.canonical import canonical_form
from gradine.checkpoint import read_checkpoint
from gradine.displayed import Displayed
from gradine.factors import Factors, balanced_factors, finite_array
from gradine.forward import NarrowHeads, WideHeads
from gradine.layer_file import read_layer, write_layer
from gradine.projections import factors_of
from gradine.torch_layer import module_of, projections_of_module

__all__ = ["AttentionLayer", "attention_features", "softmax"]

Array = NDArray[np.float64]

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
    features = kernels.features_of(X, kernels.softmax(kernels.logits_of(X, theta)))
    return features.reshape(n, k, len(theta), width).swapaxes(1, 2)


@dataclass(frozen=True, eq=False, repr=False, init=False)
class AttentionLayer(Displayed):
    """A multi-head attention layer, the thing that is planted, learned, saved and compared.

    ``theta`` has shape (m, D, D) and ``w`` (m, D, d_out); both are copied to float64 and made
    read-only. ``constant=True`` says that the last of the D coordinates is always 1, so that
    tokens have d = D - 1 coordinates of their own and the layer carries biases. ``factors``,
    where they are known, must multiply to theta and w. ``attention`` names the attention function:
    softmax, polynomial, sigmoid, relu, or one that was registered.

    >>> layer = AttentionLayer(np.zeros((1, 2, 2)), np.eye(2)[None])
    >>> layer([[1.0, -1.0], [3.0, 1.0]])  # Theta = 0 averages the tokens
    array([[2., 0.],
           [2., 0.]])
    """

    theta: Array
    w: Array
    constant: bool = False
    factors: Factors | None = None
    function: AttentionFunction = SOFTMAX

    def __init__(
        self,
        theta: ArrayLike,
        w: ArrayLike,
        constant: bool = False,
        factors: Factors | None = None,
        attention: str = "softmax",
    ) -> None:
        theta = finite_array("theta", theta, axes=3)
        w = finite_array("w", w, axes=3)
        heads, width, columns = theta.shape
        if width != columns:
            raise ValueError(f"theta has shape {theta.shape}; expected (m, D, D)")
        if w.shape[:2] != (heads, width):
            raise ValueError(f"w has shape {w.shape}; expected ({heads}, {width}, d_out)")
        if constant and width < 2:
            raise ValueError(f"constant is set but theta has width {width}; expected at least 2")
        if factors is not None:
            if not isinstance(factors, Factors):
                kind = type(factors).__name__
                raise ValueError(f"factors is a {kind}; expected gradine.Factors")
            if factors.bias is not None and not constant:
                raise ValueError("factors have a bias but constant is not set")
            factors.check_product(theta, w)
        object.__setattr__(self, "theta", theta)
        object.__setattr__(self, "w", w)
        object.__setattr__(self, "constant", bool(constant))
        object.__setattr__(self, "factors", factors)
        object.__setattr__(self, "function", attention_function(attention))

    def __repr__(self) -> str:
        named = "" if self.function is SOFTMAX else f", attention={self.function.name!r}"
        return (
            f"AttentionLayer(heads={self.n_heads}, dim={self.dim}, "
            f"out_dim={self.out_dim}, constant={self.constant}{named})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # The attention function goes by its name: functions in it need not have one of their own.
        parts = (self.theta, self.w, self.constant, self.factors, self.function.name)
        return type(self), parts

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
        function = self.function
        keys = self.dim if function.shift_invariant else self.width
        rows = self.dim if function.normalised else self.width
        per_head = self.width * keys + rows * self.out_dim - function.scale_free
        return self.n_heads * per_head + (self.width - rows) * self.out_dim

    def __call__(self, X: Any) -> Any:
        """F(X): (n, k, d) to (n, k, d_out), or one sequence (k, d) to (k, d_out).

        Tokens may come with D coordinates, or with D - 1: then a constant 1 is appended. A torch
        tensor gives a tensor of its type (whole numbers: float64), computed on its device; all else
        gives float64 numpy.
        """
        tokens, single = self._tokens(X)
        Y = self._by_blocks(self._heads(tokens).output, tokens)
        return Y[0] if single else Y

    def attention(self, X: Any) -> Any:
        """The attention weights of every head: (n, m, k, k), or (m, k, k) for one sequence.

        >>> AttentionLayer(np.zeros((1, 2, 2)), np.eye(2)[None]).attention([[1.0, 0.0], [0.0, 1.0]])
        array([[[0.5, 0.5],
                [0.5, 0.5]]])
        """
        tokens, single = self._tokens(X)
        weights = self._by_blocks(self._heads(tokens).attention, tokens)
        return weights[0] if single else weights

    def canonical(self) -> AttentionLayer:
        """The same function in the one form that examples can identify.

        Equal heads are merged, invisible ones dropped, and heads come by decreasing norm of W, then
        of Theta. The constant row of the W_i is shared out equally where attention adds up to 1, as
        only its sum is visible then. With softmax the constant key column of Theta, which cancels,
        is zero; with relu every Theta_i has norm 1, and W_i its scale; with polynomial attention
        and a constant coordinate the last entry of Theta_i is at least -1 (of Theta and its mirror
        image one is kept). Factors are left behind: no example can identify their gauge.

        >>> twice = AttentionLayer(np.zeros((2, 2, 2)), np.stack([np.eye(2), np.eye(2)]))
        >>> twice.canonical().n_heads, twice.canonical().w[0].tolist()
        (1, [[2.0, 0.0], [0.0, 2.0]])
        """
        theta, w = canonical_form(self.theta, self.w, self.constant, self.function)
        return self._like(theta, w)

    def _like(self, theta: Array, w: Array) -> AttentionLayer:
        """A layer of the same kind with other heads."""
        return AttentionLayer(theta, w, self.constant, attention=self.function.name)

    @classmethod
    def from_factors(
        cls, factors: Factors, constant: bool = False, attention: str = "softmax"
    ) -> AttentionLayer:
        """The layer whose heads are these products; it keeps the factors.

        >>> ones = np.ones((2, 5, 1))
        >>> AttentionLayer.from_factors(Factors(ones, ones, ones, np.ones((2, 1, 4))))
        AttentionLayer(heads=2, dim=5, out_dim=4, constant=False)
        """
        return cls(factors.theta(), factors.w(), constant, factors, attention)

    def factored(self, rank: int | None = None, tolerance: float = 1e-10) -> AttentionLayer:
        """The same function with factors, found by truncated SVD and balanced.

        ``rank`` None takes the smallest rank that keeps every Theta_i and W_i to ``tolerance``, a
        relative Frobenius norm. A given rank that loses more of some head is a ``ValueError``; a
        larger tolerance permits the loss. With softmax, what cannot be seen is where ``canonical``
        puts it: the constant key column of Theta is zero, the constant row of W is shared out.

        >>> layer = AttentionLayer(np.ones((1, 4, 4)), np.eye(4)[None]).factored()
        >>> layer.factors
        Factors(heads=1, rank=1, value_rank=4)
        """
        unseen = self.constant and self.function.shift_invariant
        factors = balanced_factors(self.theta, self.w, unseen, rank, tolerance)
        return AttentionLayer.from_factors(factors, self.constant, self.function.name)

    @classmethod
    def from_torch(cls, module: Any) -> AttentionLayer:
        """What a ``torch.nn.MultiheadAttention`` makes of tokens as self-attention, in eval mode.

        The factors are its weights, whatever their float type. With biases the layer has the
        constant coordinate. Dropout does nothing in eval mode and is left out; ``batch_first`` is
        about the order of axes only. Keys that are not those of the tokens (``add_bias_kv``,
        ``add_zero_attn``, another ``kdim`` or ``vdim``) are refused.

        >>> import torch
        >>> AttentionLayer.from_torch(torch.nn.MultiheadAttention(8, 2).eval())
        AttentionLayer(heads=2, dim=8, out_dim=8, constant=True)
        """
        projections, heads = projections_of_module(module)
        return cls.from_factors(factors_of(projections, heads), constant=projections.biased)

    def to_torch(self, batch_first: bool = True, dtype: Any = None) -> Any:
        """A ``torch.nn.MultiheadAttention`` in eval mode that computes this layer.

        ``module(X, X, X)[0]`` is then ``layer(X)``. Torch has as many outputs as inputs and heads
        of rank d / m: a layer that does not fit is a ``ValueError`` naming the head and its rank.
        ``dtype`` None is torch's default type. Torch has softmax only.

        >>> import torch
        >>> from gradine.inputs import plant
        >>> layer, X = plant(heads=2, dim=8, rank=4), torch.ones(1, 3, 8, dtype=torch.float64)
        >>> module = layer.to_torch(dtype=torch.float64)
        >>> bool(torch.allclose(module(X, X, X)[0], layer(X)))
        True
        """
        if self.function is not SOFTMAX:
            raise ValueError(
                f"layer has attention {self.function.name!r}; torch has 'softmax' only"
            )
        return module_of((self.theta, self.w, self.constant, self.factors), batch_first, dtype)

    @classmethod
    def from_checkpoint(
        cls,
        path: str | os.PathLike[str],
        layer: int,
        *,
        heads: int | None = None,
        prefix: str | None = None,
    ) -> AttentionLayer:
        """One attention layer of a saved model of the BERT family; layers count from 0.

        ``path`` is a safetensors file, the index of a sharded one, or the folder of a model. The
        number of heads stands in config.json beside it, or is given. ``prefix`` chooses among
        several encoders. The layer is self-attention with its output map, before the residual and
        the LayerNorm; what the model adds to its logits by position is left out, with a warning.

        >>> import tempfile
        >>> from safetensors.numpy import save_file
        >>> start, square = "encoder.layer.0.attention.", np.eye(4)
        >>> names = ["self.query", "self.key", "self.value", "output.dense"]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     weights = {f"{start}{name}.weight": square for name in names}
        ...     biases = {f"{start}{name}.bias": np.zeros(4) for name in names}
        ...     save_file(weights | biases, f"{folder}/model.safetensors")
        ...     AttentionLayer.from_checkpoint(f"{folder}/model.safetensors", 0, heads=2)
        AttentionLayer(heads=2, dim=4, out_dim=4, constant=True)
        """
        found = read_checkpoint(path, layer, heads=heads, prefix=prefix)
        for part in found.left_out:
            warnings.warn(f"{path}: left out: {part}", stacklevel=2)
        return cls.from_factors(found.factors(), found.constant)

    def save(self, path: str | os.PathLike[str], *, notes: Mapping[str, str] | None = None) -> None:
        """Write the layer as safetensors; the file appears whole or not at all.

        ``notes`` are strings of its metadata, by name, which ``load`` passes over.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     AttentionLayer(np.zeros((1, 2, 2)), np.eye(2)[None]).save(f"{folder}/a.safetensors")
        ...     AttentionLayer.load(f"{folder}/a.safetensors")
        AttentionLayer(heads=1, dim=2, out_dim=2, constant=False)
        """
        write_layer(path, self.theta, self.w, self.constant, self.factors, self.function, notes)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> AttentionLayer:
        """Read a layer that ``save`` wrote; anything else is a ``ValueError`` naming the file.

        Numbers are read only after the header has been checked. A missing file raises
        ``FileNotFoundError``.

        >>> AttentionLayer.load("nowhere.safetensors")
        Traceback (most recent call last):
        FileNotFoundError: nowhere.safetensors: no such file
        """
        theta, w, constant, factors, attention = read_layer(path)
        try:
            return cls(theta, w, constant, factors, attention)
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

    def _heads(self, tokens: Any) -> WideHeads | NarrowHeads:
        """How to compute the heads of these tokens: by factors, if that is less work."""
        factors, function, xp = self.factors, self.function, kernels.namespace(tokens)
        if factors is None or not factors.narrow:
            return WideHeads(self.theta, self.w, function, tokens)
        # Unless attention adds up to 1, and the constant coordinate is 1, a bias would be changed.
        whole = function.normalised and bool(xp.all(tokens[..., -1] == 1.0))
        if factors.bias is not None and not whole:
            return WideHeads(self.theta, self.w, function, tokens)
        return NarrowHeads(factors, function, tokens)

    def _by_blocks(self, compute: Callable[[Any], Any], tokens: Any) -> Any:
        blocks = self._blocks(*tokens.shape[:2])
        return kernels.namespace(tokens).concat(
            [compute(tokens[start:stop]) for start, stop in blocks]
        )

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
