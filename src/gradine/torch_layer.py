"""A layer as a `torch.nn.MultiheadAttention`, and back.

Torch is imported where it is used: nothing else of Gradine needs it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine.factors import Factors, balanced_factors, finite_array
from gradine.projections import Linear, Projections, projections_of

__all__ = ["module_of", "projections_of_module"]

Array = NDArray[np.float64]

TOLERANCE = 1e-10  # what a head may lose when it is cut to the rank that torch has for it


def projections_of_module(module: Any) -> tuple[Projections, int]:
    """The maps of a ``torch.nn.MultiheadAttention`` and the number of its heads.

    What is no self-attention of our class is a ``ValueError``.
    """
    _check_kind(module)
    if module._qkv_same_embed_dim:  # the flag by which its forward pass decides
        packed = _numbers("in_proj_weight", module.in_proj_weight, 2)
        weights = _thirds("in_proj_weight", packed, module.embed_dim)
    else:
        names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
        weights = [_numbers(name, getattr(module, name), 2) for name in names]
    biases: list[Array | None] = [None, None, None]
    if module.in_proj_bias is not None:
        packed = _numbers("in_proj_bias", module.in_proj_bias, 1)
        biases = [*_thirds("in_proj_bias", packed, module.embed_dim)]
    output = _numbers("out_proj.weight", module.out_proj.weight, 2)
    bias = module.out_proj.bias
    bias = None if bias is None else _numbers("out_proj.bias", bias, 1)
    query, key, value = map(Linear, weights, biases)
    return Projections(query, key, value, Linear(output, bias)), module.num_heads


def module_of(
    heads: tuple[Array, Array, bool, Factors | None], batch_first: bool, dtype: Any
) -> Any:
    """A ``torch.nn.MultiheadAttention`` whose self-attention is the layer (theta, w, ...)."""
    import torch

    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise ValueError(f"dtype is {dtype}; expected a float type of torch")
    theta, w, biased, factors = heads
    m, width, out_dim = w.shape
    dim = width - biased
    if out_dim != dim:
        raise ValueError(f"layer has out_dim {out_dim}; expected {dim}, its dim, as torch has it")
    if dim % m:
        raise ValueError(f"layer has {m} heads; expected a divisor of its dim, {dim}, for torch")
    size = dim // m
    if factors is None or max(factors.rank, factors.value_rank) > size:
        try:
            factors = balanced_factors(theta, w, biased, size, TOLERANCE)
        except ValueError as error:
            raise ValueError(f"torch has {m} heads of rank {dim} / {m} = {size}: {error}") from None
    # Empty, because filling it with random numbers would change the random state of the caller.
    module = torch.nn.utils.skip_init(
        torch.nn.MultiheadAttention, dim, m, bias=biased, batch_first=batch_first, dtype=dtype
    )
    _fill(module, projections_of(factors, size, biased))
    return module.eval()


def _check_kind(module: Any) -> None:
    import torch

    kind = torch.nn.MultiheadAttention
    if not isinstance(module, kind) or type(module).forward is not kind.forward:
        raise ValueError(
            f"module is a {type(module).__name__}; expected torch.nn.MultiheadAttention"
        )
    dim = module.embed_dim
    if (module.kdim, module.vdim) != (dim, dim):
        raise ValueError(
            f"module has kdim {module.kdim} and vdim {module.vdim}; expected {dim}, its embed_dim: "
            "in self-attention queries, keys and values are made of the same tokens"
        )
    if module.bias_k is not None or module.bias_v is not None:
        raise ValueError("module has add_bias_kv set; expected no keys but those of the tokens")
    if module.add_zero_attn:
        raise ValueError("module has add_zero_attn set; expected no keys but those of the tokens")


def _numbers(name: str, tensor: Any, axes: int) -> Array:
    if tensor.is_meta:
        raise ValueError(f"{name} is on the meta device; expected a module with weights")
    if not tensor.is_floating_point():
        raise ValueError(f"{name} has dtype {tensor.dtype}; expected a float type")
    return finite_array(name, tensor.detach().cpu().double().numpy(), axes)


def _thirds(name: str, packed: Array, dim: int) -> list[Array]:
    """Queries, keys and values of what torch packs into one."""
    if len(packed) != 3 * dim:
        raise ValueError(f"{name} has {len(packed)} rows; expected 3 x {dim}")
    return np.split(packed, 3)


def _fill(module: Any, projections: Projections) -> None:
    import torch

    inward = (projections.query, projections.key, projections.value)
    values = {
        "in_proj_weight": np.concatenate([linear.weight for linear in inward]),
        "out_proj.weight": projections.output.weight,
    }
    if projections.output.bias is not None:
        biases = [linear.bias for linear in inward if linear.bias is not None]
        values["in_proj_bias"] = np.concatenate(biases)
        values["out_proj.bias"] = projections.output.bias
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(torch.tensor(values[name]))
