"""A torch module, or a callable that wants tensors, as a function of numpy tokens.

Torch is imported where it is used: nothing else of the queries needs it.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["handing_tensors", "is_module", "module_answers"]

Array = NDArray[np.float64]


def is_module(source: Any) -> bool:
    """Whether this is a torch module; where nobody has imported torch, nothing is."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(source, torch.nn.Module)


def handing_tensors(function: Callable[[Any], Any], dtype: str) -> Callable[[Array], Any]:
    """The function with its tokens as a torch tensor of the named float type."""
    import torch

    kind = getattr(torch, dtype)

    def answer(X: Array) -> Any:
        with torch.no_grad():
            return function(torch.as_tensor(X, dtype=kind))

    return answer


def module_answers(module: Any) -> tuple[Callable[[Array], Any], Callable[[], str], int | None]:
    """What a module makes of (n, k, d) tokens, what tells it from others, and d if it is known.

    Self-attention for a ``torch.nn.MultiheadAttention``, a plain call for any other. Tokens come
    in the type and on the device of its weights, in eval mode and without gradients.
    """
    import torch

    kind = torch.nn.MultiheadAttention
    attends = isinstance(module, kind) and type(module).forward is kind.forward
    dim = _embed_dim(module) if attends else None
    numbers = [tensor for tensor in _tensors(module) if tensor.is_floating_point()]
    if any(tensor.is_meta for tensor in numbers):
        raise ValueError(
            f"{type(module).__name__} is on the meta device; expected a module with weights"
        )
    dtype = numbers[0].dtype if numbers else torch.float64
    device = numbers[0].device if numbers else torch.device("cpu")

    def answer(X: Array) -> Any:
        tokens = torch.as_tensor(X, dtype=dtype, device=device)
        with torch.no_grad(), _evaluating(module):
            if not attends:
                return module(tokens)
            if module.batch_first:
                return module(tokens, tokens, tokens, need_weights=False)[0]
            tokens = tokens.transpose(0, 1)
            return module(tokens, tokens, tokens, need_weights=False)[0].transpose(0, 1)

    return answer, lambda: _digest(module), dim


def _embed_dim(module: Any) -> int:
    dim = module.embed_dim
    if (module.kdim, module.vdim) != (dim, dim):
        raise ValueError(
            f"module has kdim {module.kdim} and vdim {module.vdim}; expected {dim}, its embed_dim: "
            "in self-attention queries, keys and values are made of the same tokens"
        )
    return dim


def _tensors(module: Any) -> list[Any]:
    return [*module.parameters(), *module.buffers()]


@contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """Eval mode for a while: the module is somebody's, who may be training it."""
    training = [part for part in module.modules() if part.training]
    try:
        for part in training:
            part.training = False
        yield
    finally:
        for part in training:
            part.training = True


def _digest(module: Any) -> str:
    """A digest of the kind of module and of all its numbers."""
    import torch

    digest = hashlib.sha256(type(module).__qualname__.encode())
    for name, tensor in module.state_dict(keep_vars=False).items():
        if not isinstance(tensor, torch.Tensor):
            continue
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        plain = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
    return digest.hexdigest()
