"""Matching and errors: how near a learned layer is to the truth.

This is the only module that sees a truth; no learner may import it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradine.displayed import Displayed
from gradine.inputs import InputKind, Seed, sample_inputs
from gradine.layer import AttentionLayer

__all__ = ["Match", "compare"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Match(Displayed):
    """How a learned layer compares with the true one, both in canonical form.

    Errors are relative Frobenius norms, one per true head; a true head that found no partner has
    error 1. Where the truth is zero there is nothing to be relative to: errors are absolute.

    >>> from gradine.inputs import plant
    >>> match = compare(plant(heads=2, dim=4, seed=1), plant(heads=2, dim=4, seed=1))
    >>> match.order.tolist(), match.missing, match.extra, match.function_error
    ([0, 1], 0, 0, 0.0)
    """

    theta_error: Array  #: (m,) error of Theta_i, by true head
    w_error: Array  #: (m,) error of W_i, by true head
    function_error: float  #: ||F_learned - F_true|| / ||F_true|| over fresh inputs
    order: NDArray[np.intp]  #: (m,) which learned head matches each true head, -1 for none
    missing: int  #: true heads without a partner
    extra: int  #: learned heads without a partner

    def __repr__(self) -> str:
        theta, w = (float(errors.max(initial=0.0)) for errors in (self.theta_error, self.w_error))
        return (
            f"Match(worst theta_error={theta:.2g}, worst w_error={w:.2g}, "
            f"function_error={self.function_error:.2g}, missing={self.missing}, "
            f"extra={self.extra})"
        )


def compare(
    learned: AttentionLayer,
    truth: AttentionLayer,
    *,
    seq_len: int = 4,
    examples: int = 2000,
    kind: InputKind = "boolean",
    seed: Seed = 0,
) -> Match:
    """Match the heads of two layers and measure what separates them.

    Heads are known up to order: the assignment that minimises the sum of relative errors (each
    clipped at 1, so that one lost head cannot unsettle the others) decides which belongs to which.
    A layer without the constant coordinate may be compared with one that has it; layers of
    different attention functions may not be compared at all.

    >>> from gradine.inputs import plant
    >>> truth = plant(heads=2, dim=6)
    >>> shuffled = AttentionLayer(truth.theta[::-1], truth.w[::-1])
    >>> match = compare(shuffled, truth)
    >>> float(match.theta_error.max()), match.missing, match.extra
    (0.0, 0, 0)
    """
    from scipy.optimize import linear_sum_assignment

    learned, truth = common_ground(learned, truth)
    found, true = learned.canonical(), truth.canonical()
    theta_errors = _pairwise_errors(true.theta, found.theta)
    w_errors = _pairwise_errors(true.w, found.w)
    costs = np.minimum(theta_errors, 1.0) + np.minimum(w_errors, 1.0)
    rows, columns = linear_sum_assignment(costs)

    theta_error, w_error = np.ones(true.n_heads), np.ones(true.n_heads)
    order = np.full(true.n_heads, -1, dtype=np.intp)
    order[rows] = columns
    theta_error[rows] = theta_errors[rows, columns]
    w_error[rows] = w_errors[rows, columns]

    X = sample_inputs(examples, seq_len, truth.dim, kind, seed)
    return Match(
        theta_error=theta_error,
        w_error=w_error,
        function_error=_relative_error(learned(X), truth(X)),
        order=order,
        missing=true.n_heads - len(rows),
        extra=found.n_heads - len(rows),
    )


def _relative_error(value: Array, truth: Array) -> float:
    size = float(np.linalg.norm(truth))
    return float(np.linalg.norm(value - truth)) / (size or 1.0)


def _pairwise_errors(truths: Array, values: Array) -> Array:
    return np.array([[_relative_error(value, truth) for value in values] for truth in truths])


def common_ground(
    learned: AttentionLayer, truth: AttentionLayer
) -> tuple[AttentionLayer, AttentionLayer]:
    """Both layers over the same coordinates, or a ``ValueError`` that says why not."""
    for name, layer in (("learned", learned), ("truth", truth)):
        if not isinstance(layer, AttentionLayer):
            raise ValueError(f"{name} is of type {type(layer).__name__}; expected AttentionLayer")
    if learned.function is not truth.function:  # their Theta would be beyond comparison
        raise ValueError(
            f"learned has attention {learned.function.name!r}; expected {truth.function.name!r} "
            "as truth has"
        )
    if learned.out_dim != truth.out_dim:
        raise ValueError(
            f"learned has out_dim {learned.out_dim}; expected {truth.out_dim} as truth has"
        )
    if learned.constant != truth.constant:
        if learned.width == truth.width:  # D = d + 1 with the flag left at its default
            return _flagged(learned), _flagged(truth)
        learned, truth = _with_constant(learned), _with_constant(truth)
    if learned.dim != truth.dim:
        raise ValueError(f"learned has dim {learned.dim}; expected {truth.dim} as truth has")
    return learned, truth


def _flagged(layer: AttentionLayer) -> AttentionLayer:
    return AttentionLayer(layer.theta, layer.w, constant=True, attention=layer.function.name)


def _with_constant(layer: AttentionLayer) -> AttentionLayer:
    """The same function with a constant coordinate that it does not use."""
    if layer.constant:
        return layer
    theta = np.pad(layer.theta, ((0, 0), (0, 1), (0, 1)))
    w = np.pad(layer.w, ((0, 0), (0, 1), (0, 0)))
    return AttentionLayer(theta, w, constant=True, attention=layer.function.name)
