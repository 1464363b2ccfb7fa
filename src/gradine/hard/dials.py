r"""Degenerate layers: for each condition of the theorem, a dial that turns it off by degrees.

At 0 every dial gives the same layer, Gaussian heads with logits of standard deviation ``SCALE`` and
projections of one size, on which the conditions of `gradine.check` hold. At 1 its condition has
failed. An attention matrix that is bent is scaled back to its Frobenius norm, so that no dial but
``sharp`` and ``flat`` changes the scale of the logits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from gradine.checks import whole_number
from gradine.inputs import Seed, plant
from gradine.layer import AttentionLayer

__all__ = ["DIALS", "SCALE", "Dial", "dial"]

Array = NDArray[np.float64]

SCALE = 4.0  # logits on the good side: both learners are at their ease there
SHARPEST = 1e3  # factor of the logits at the end of ``sharp``: attention is one-hot
FLATTEST = 1e-4  # and at the end of ``flat``: attention is uniform
CROWD = 1.5  # heads at the end of ``many_heads``, for each coordinate of a token


@dataclass(frozen=True)
class Dial:
    """One way in which a layer can leave the conditions.

    >>> DIALS["flat"].breaks, DIALS["flat"].least_heads
    ('logits_not_flat', 1)
    """

    breaks: str  #: the condition of `gradine.check` that it is meant for
    what: str  #: what happens as it turns
    turned: Callable[[float, int, int, np.random.Generator], AttentionLayer]
    least_heads: int = 1


def dial(name: str, turn: float, heads: int = 2, dim: int = 10, seed: Seed = 0) -> AttentionLayer:
    """The layer of a seed with one condition turned off by degrees, from 0 (holds) to 1 (fails).

    The same seed gives the same layer at every turn, but for what the dial does to it.

    >>> one, other = dial("equal_theta", 1.0).theta
    >>> bool(np.allclose(one, other))
    True
    >>> bool(np.array_equal(dial("flat", 0.0).theta, dial("sharp", 0.0).theta))
    True
    """
    if name not in DIALS:
        raise ValueError(f"name is {name!r}; expected one of {', '.join(DIALS)}")
    if not isinstance(turn, Real) or not 0.0 <= turn <= 1.0:  # NaN fails it too
        raise ValueError(f"turn is {turn!r}; expected a number from 0 to 1")
    chosen = DIALS[name]
    whole_number("heads", heads, chosen.least_heads)
    whole_number("dim", dim, 2)
    return chosen.turned(float(turn), heads, dim, np.random.default_rng(seed))


def _planted(heads: int, dim: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Random heads; those of `plant`, with projections of one size."""
    layer = plant(heads, dim, SCALE, seed=rng)
    sizes = np.linalg.norm(layer.w, axis=(1, 2), keepdims=True)
    return layer.theta.copy(), layer.w * (np.sqrt(dim) / sizes)


def _scaled_back(bent: Array, straight: Array) -> Array:
    """Each matrix of ``bent`` with the Frobenius norm it had."""
    sizes = [np.linalg.norm(matrices, axis=(1, 2), keepdims=True) for matrices in (straight, bent)]
    return bent * (sizes[0] / sizes[1])


def _towards_first(matrices: Array, turn: float) -> Array:
    return _scaled_back((1.0 - turn) * matrices + turn * matrices[0], matrices)


def _equal_theta(turn: float, heads: int, dim: int, rng: np.random.Generator) -> AttentionLayer:
    """Differences fade with the cube: learners tell heads apart until they hardly differ."""
    theta, w = _planted(heads, dim, rng)
    return AttentionLayer(_towards_first(theta, 1.0 - (1.0 - turn) ** 3), w)


def _equal_w(turn: float, heads: int, dim: int, rng: np.random.Generator) -> AttentionLayer:
    theta, w = _planted(heads, dim, rng)
    return AttentionLayer(theta, _towards_first(w, turn))


def _low_rank(turn: float, heads: int, dim: int, rng: np.random.Generator) -> AttentionLayer:
    """All singular values but the largest fade."""
    theta, w = _planted(heads, dim, rng)
    left, values, right = np.linalg.svd(theta)
    values[:, 1:] *= 1.0 - turn
    return AttentionLayer(_scaled_back(left * values[:, None, :] @ right, theta), w)


def _one_row(turn: float, heads: int, dim: int, rng: np.random.Generator) -> AttentionLayer:
    """Each head keeps one row, its own; the others fade."""
    theta, w = _planted(heads, dim, rng)
    return AttentionLayer(_faded(theta, turn, rng), w)


def _one_column(turn: float, heads: int, dim: int, rng: np.random.Generator) -> AttentionLayer:
    theta, w = _planted(heads, dim, rng)
    return AttentionLayer(_faded(theta.swapaxes(1, 2), turn, rng).swapaxes(1, 2), w)


def _faded(theta: Array, turn: float, rng: np.random.Generator) -> Array:
    factors = np.full(theta.shape[:2], 1.0 - turn)
    factors[np.arange(len(theta)), rng.integers(theta.shape[1], size=len(theta))] = 1.0
    return _scaled_back(theta * factors[:, :, None], theta)


def _faint_head(turn: float, heads: int, dim: int, rng: np.random.Generator) -> AttentionLayer:
    theta, w = _planted(heads, dim, rng)
    w[-1] *= 1.0 - turn
    return AttentionLayer(theta, w)


def _zero_sum(turn: float, heads: int, dim: int, rng: np.random.Generator) -> AttentionLayer:
    """Each W_i gives up its share of the sum."""
    theta, w = _planted(heads, dim, rng)
    return AttentionLayer(theta, w - turn * w.mean(axis=0))


def _steep_sum(turn: float, heads: int, dim: int, rng: np.random.Generator) -> AttentionLayer:
    """All singular values of the sum but the largest fade, the smaller the faster."""
    theta, w = _planted(heads, dim, rng)
    left, values, right = np.linalg.svd(w.sum(axis=0))
    kept = values * (1.0 - turn) ** np.arange(dim)
    return AttentionLayer(theta, w + (left * (kept - values)) @ right / heads)


def _sharp(turn: float, heads: int, dim: int, rng: np.random.Generator) -> AttentionLayer:
    theta, w = _planted(heads, dim, rng)
    return AttentionLayer(theta * SHARPEST**turn, w)


def _flat(turn: float, heads: int, dim: int, rng: np.random.Generator) -> AttentionLayer:
    theta, w = _planted(heads, dim, rng)
    return AttentionLayer(theta * FLATTEST**turn, w)


def _few_outputs(turn: float, heads: int, dim: int, rng: np.random.Generator) -> AttentionLayer:
    theta, w = _planted(heads, dim, rng)
    return AttentionLayer(theta, w[:, :, : max(1, round(dim * (1.0 - turn)))])


def _few_coordinates(turn: float, heads: int, dim: int, rng: np.random.Generator) -> AttentionLayer:
    """Tokens of fewer coordinates: the corner of every matrix, with its size and its outputs."""
    theta, w = _planted(heads, dim, rng)
    left = max(2, round(dim * (1.0 - turn)))
    corner = theta[:, :left, :left]
    return AttentionLayer(
        corner * (SCALE / np.linalg.norm(corner, axis=(1, 2), keepdims=True)), w[:, :left, :left]
    )


def _many_heads(turn: float, heads: int, dim: int, rng: np.random.Generator) -> AttentionLayer:
    crowd = max(heads, round(heads + turn * (CROWD * dim - heads)))
    return AttentionLayer(*_planted(crowd, dim, rng))


#: Every dial by name.
DIALS: dict[str, Dial] = {
    "equal_theta": Dial(
        "theta_incoherence", "attention matrices turn to that of the first head", _equal_theta, 2
    ),
    "equal_w": Dial(
        "w_incoherence", "projection matrices turn to that of the first head", _equal_w, 2
    ),
    "low_rank": Dial("effective_rank", "attention matrices fall to rank one", _low_rank),
    "one_row": Dial("row_share", "attention matrices fade to one row", _one_row),
    "one_column": Dial("column_share", "attention matrices fade to one column", _one_column),
    "faint_head": Dial("w_balance", "the projection matrix of the last head fades", _faint_head, 2),
    "zero_sum": Dial("sum_size", "the sum of the projection matrices vanishes", _zero_sum, 2),
    "steep_sum": Dial(
        "sum_conditioning", "the sum of the projection matrices falls to rank one", _steep_sum, 2
    ),
    "sharp": Dial("logits_not_sharp", "logits grow, up to one-hot attention", _sharp),
    "flat": Dial("logits_not_flat", "logits fade, down to uniform attention", _flat),
    "few_outputs": Dial("tokens", "output coordinates are dropped, down to one", _few_outputs),
    "few_coordinates": Dial(
        "tokens", "coordinates of tokens and outputs are dropped, down to two", _few_coordinates
    ),
    "many_heads": Dial(
        "heads", "heads are added, up to one and a half for each coordinate", _many_heads
    ),
}
