"""Attention as four linear maps, the way torch and checkpoints store it, to factors and back.

A map is y = x A^T + b, and the heads share one map for all their queries (keys, values): head i
has rows i h to (i + 1) h of A. A bias b is what the map makes of the constant coordinate.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from gradine.factors import Factors

__all__ = ["Linear", "Projections", "factors_of", "projections_of"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Linear:
    """One map: ``weight`` is (outputs, inputs), ``bias`` (outputs,) or None."""

    weight: Array
    bias: Array | None = None


@dataclass(frozen=True, eq=False)
class Projections:
    """The maps of a layer: tokens to queries, keys and values; values to outputs."""

    query: Linear
    key: Linear
    value: Linear
    output: Linear

    def __post_init__(self) -> None:
        inner, dim = self.query.weight.shape
        for item in fields(self):
            linear: Linear = getattr(self, item.name)
            outer = len(self.output.weight)
            shape = (outer, inner) if item.name == "output" else (inner, dim)
            _expect(f"{item.name}.weight", linear.weight, shape)
            if linear.bias is not None:
                _expect(f"{item.name}.bias", linear.bias, shape[:1])

    @property
    def biased(self) -> bool:
        """Whether there is any bias, so that the layer needs the constant coordinate."""
        return any(getattr(self, item.name).bias is not None for item in fields(self))


def factors_of(projections: Projections, heads: int) -> Factors:
    """The factors of the heads; with biases the constant coordinate is their last row.

    logit = (x A_q^T + b_q) (y A_k^T + b_k)^T / sqrt(h), so Q = [A_q^T; b_q] / sqrt(h) and
    K = [A_k^T; b_k]: the queries are scaled, as torch does it. V = [A_v^T; b_v], O = A_o^T.
    """
    inner, _ = projections.query.weight.shape
    if heads < 1 or inner % heads:
        raise ValueError(f"heads is {heads}; expected a divisor of {inner}")
    size, biased = inner // heads, projections.biased
    return Factors(
        queries=_by_head(projections.query, heads, biased) / np.sqrt(size),
        keys=_by_head(projections.key, heads, biased),
        values=_by_head(projections.value, heads, biased),
        outputs=projections.output.weight.T.reshape(heads, size, -1),
        bias=projections.output.bias,
    )


def projections_of(factors: Factors, size: int, biased: bool) -> Projections:
    """The maps whose heads have ``size`` columns, at least as many as the factors have."""
    heads, _, outputs = factors.outputs.shape
    short = size - factors.value_rank
    output = np.pad(factors.outputs, ((0, 0), (0, short), (0, 0))).reshape(heads * size, outputs).T
    bias = np.zeros(outputs) if factors.bias is None else factors.bias
    return Projections(
        query=_side_by_side(factors.queries * np.sqrt(size), size, biased),
        key=_side_by_side(factors.keys, size, biased),
        value=_side_by_side(factors.values, size, biased),
        output=Linear(output, bias if biased else None),
    )


def _by_head(linear: Linear, heads: int, biased: bool) -> Array:
    """(m, D, h) of one map, with the bias as last row."""
    rows = linear.weight.T
    if biased:
        bias = np.zeros(rows.shape[1]) if linear.bias is None else linear.bias
        rows = np.vstack([rows, bias])
    return rows.reshape(len(rows), heads, -1).swapaxes(0, 1)


def _side_by_side(factor: Array, size: int, biased: bool) -> Linear:
    """One map of (m, D, h), filled up with columns of zeros to ``size`` a head."""
    heads, width, rank = factor.shape
    padded = np.pad(factor, ((0, 0), (0, 0), (0, size - rank)))
    rows = padded.swapaxes(1, 2).reshape(heads * size, width)
    return Linear(rows[:, :-1], rows[:, -1]) if biased else Linear(rows)


def _expect(name: str, array: Array, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; expected {shape}")
