"""What each phase of the exact learner hands to the next: frozen, flat, and saved as it ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Curve", "HeadFit", "Identified", "Mixed", "Spectrum"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The moment matrix: how many heads it shows, and the spans of their matrices."""

    values: Array  #: its largest singular values, decreasing
    edge: float  #: what the largest would be without any head: noise of as many examples
    heads: int
    confidence: float  #: chance that ``heads`` is right, by what was measured on planted layers
    theta_span: Array  #: (heads, d, d) orthonormal basis of the span of the Theta_i
    w_span: Array  #: (heads, d, d_out) orthonormal basis of the span of the W_i
    energy: float  #: share of the outputs' variance beyond their linear part
    passes: int
    examples: int
    applies: bool  #: whether the moments say anything about such examples
    reason: str  #: why they do not, or why no head was found; empty otherwise
    seconds: float

    @classmethod
    def not_applicable(cls, reason: str, dim: int, out_dim: int) -> Spectrum:
        """The answer for examples whose moments do not show the heads."""
        return cls(
            values=np.zeros(0),
            edge=0.0,
            heads=0,
            confidence=0.0,
            theta_span=np.zeros((0, dim, dim)),
            w_span=np.zeros((0, dim, out_dim)),
            energy=0.0,
            passes=0,
            examples=0,
            applies=False,
            reason=reason,
            seconds=0.0,
        )


@dataclass(frozen=True, eq=False)
class Mixed:
    """Heads inside the span of the moments: a first answer, to be refined over all parameters."""

    theta: Array  #: (m, D, D)
    w: Array  #: (m, D, d_out), by least squares
    mixing: Array  #: (m, m) Theta_i = sum_j mixing_ij T_j
    residual: float  #: relative RMS error on the examples it was fitted to
    start_residuals: Array  #: the same at the end of each start, in order
    evaluations: int
    examples: int
    seconds: float


@dataclass(frozen=True, eq=False)
class HeadFit:
    """The best layer with so many heads, by variable projection."""

    theta: Array  #: (m, D, d)
    w: Array  #: (m, D, d_out)
    heads: int
    rank: int | None  #: of Theta and W; None: full
    residual: float  #: relative RMS residual on the examples that were fitted
    misfits: Array  #: relative squared residual after each evaluation, all starts in turn
    begins: list[int]  #: where in ``misfits`` each start begins
    reasons: list[str]  #: why each start was made
    exact: bool  #: the residual is rounding
    settled: bool  #: exact, or two starts found the same floor
    validation_errors: Array  #: relative squared error of each validation example
    validation_error: float  #: relative RMS error over them
    equations: float  #: equations for each unknown
    products: int  #: with the Jacobian or its transpose
    flops: float
    examples: int
    seconds: float

    def __post_init__(self) -> None:
        if self.heads < 1 or (self.rank is not None and self.rank < 1):
            raise ValueError(f"{self.heads} heads of rank {self.rank}; expected at least 1 of both")
        shapes = self.theta.shape, self.w.shape  # a record of a run may say anything
        if any(len(shape) != 3 or shape[0] != self.heads for shape in shapes):
            raise ValueError(f"theta and w have shapes {shapes}; expected {self.heads} heads")


@dataclass(frozen=True, eq=False)
class Identified:
    """How well the examples determine the heads: local identifiability at the answer."""

    singular_values: (
        Array  #: of the Jacobian, relative to the largest: the smallest few, increasing
    )
    condition: float  #: largest over smallest
    noise: float  #: estimated label noise, relative RMS
    theta_bars: Array  #: (m,) relative standard error of each Theta_i
    w_bars: Array  #: (m,) relative standard error of each W_i
    determined: bool  #: False: so ill-conditioned that bars are unknown (infinite)
    samples: int
    seconds: float

    def __post_init__(self) -> None:
        shapes = self.theta_bars.shape, self.w_bars.shape  # a record of a run may say anything
        if shapes[0] != shapes[1] or len(shapes[0]) != 1 or not self.theta_bars.size:
            raise ValueError(f"theta_bars and w_bars have shapes {shapes}; expected one a head")


@dataclass(frozen=True, eq=False)
class Curve:
    """Validation error of fits to ever more of the examples."""

    examples: Array
    ratio: Array  #: the same over the counting bound
    errors: Array  #: relative RMS error on the validation examples
    seconds: float
