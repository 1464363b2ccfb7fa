"""The unknowns of variable projection: Theta alone, or the factors U, K and V of every head."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce
from operator import add
from typing import Any

from array_api_compat import device

from gradine import kernels
from gradine.kernels import AnyArray

__all__ = ["Parameters", "probe_like", "stacked", "theta_change", "theta_of", "through", "total"]

#: Theta alone, or U, K and V.
Parameters = tuple[AnyArray, ...]


def theta_of(parameters: Parameters) -> AnyArray:
    """Theta_i, from itself or from U_i K_i^T."""
    if len(parameters) == 1:
        return parameters[0]
    U, K = parameters[:2]
    return U @ kernels.namespace(U).matrix_transpose(K)


def theta_change(parameters: Parameters, step: Parameters) -> AnyArray:
    """The first-order change of Theta."""
    if len(parameters) == 1:
        return step[0]
    xp = kernels.namespace(*parameters)
    U, K = parameters[:2]
    return step[0] @ xp.matrix_transpose(K) + U @ xp.matrix_transpose(step[1])


def through(xp: Any, features: AnyArray, parameters: Parameters) -> AnyArray:
    """Features (b k, m D) as they meet O: through V_i to (b k, m r), if there is a V."""
    if len(parameters) == 1:
        return features
    m, width, rank = parameters[2].shape
    wide = xp.permute_dims(xp.reshape(features, (-1, m, width)), (1, 0, 2))
    return xp.reshape(xp.permute_dims(wide @ parameters[2], (1, 0, 2)), (-1, m * rank))


def stacked(xp: Any, pieces: list[AnyArray]) -> AnyArray:
    """Blocks below each other; one alone is not copied."""
    return pieces[0] if len(pieces) == 1 else xp.concat(pieces)


def probe_like(xp: Any, like: AnyArray) -> AnyArray:
    """Numbers that look like no direction in particular."""
    count = xp.arange(1, math.prod(like.shape) + 1, dtype=like.dtype, device=device(like))
    return xp.reshape(xp.sin(count * 12.9898), like.shape)


def total(pieces: Iterable[AnyArray]) -> AnyArray:
    """Their sum, from the first to the last."""
    return reduce(add, pieces)
