"""What each phase hands to the next: frozen, flat, and saved as it ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["CrudeSum", "Polished", "Proxy", "Sculpted", "Searched", "Span"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CrudeSum:
    """Phase 1: first estimates of W = sum_i W_i, (D, d_out) each."""

    paper: Array  #: correlation with uniform attention, one gradient step from Theta = 0
    own_token_free: Array  #: the same without the query's own token
    estimate: Array  #: the one that goes on
    energy: float  #: share of the outputs' energy that the estimate accounts for
    examples: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Sculpted:
    """Phases 2 and 4: slabs |<x_r (x_j - x_l)^T, Theta> - offset| <= slack * sigma."""

    queries: Array  #: (K, D) the x_r
    differences: Array  #: (K, d) the x_j - x_l
    offsets: Array  #: (K,) log(v_j / v_l)
    sigma: Array  #: (K,) predicted error of the offset
    center: Array  #: (D, d) the point deepest inside the body
    feasible_slack: float  #: smallest slack, in units of sigma, for which the body is not empty
    spectrum: Array  #: smallest singular values of the slabs, relative to the bulk
    residual: float  #: median relative residual of the certified rows
    rows: int  #: rows looked at
    slabs: int  #: slabs kept
    informative: float  #: share of the best-fitting rows whose weight is spread over two tokens
    dropped: int  #: slabs that contradicted the others
    examples: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Proxy:
    """Phase 3 (and the refinement inside phase 4): minimum-norm point and refined sum."""

    theta: Array  #: (D, d) minimum-norm point of the body
    refined_sum: Array  #: (D, d_out)
    margins: Array  #: (rows,) margins that the proxy predicts for the selected rows
    rows: int  #: rows kept by the trimmed fit
    residual: float  #: relative residual of the trimmed fit
    examples: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Span:
    """Phase 5: the affine hull of the attention matrices."""

    base: Array  #: (D, d) its point nearest to zero
    directions: Array  #: (m - 1, D, d) orthonormal
    heads: int
    counted: int  #: heads after which the spectrum has its widest gap
    spectrum: Array  #: smallest singular values of the slabs with their offsets, over the bulk's
    gap: float  #: ratio of the first singular value above the hull to the last one in it
    reach: Array  #: (m - 1, 2) how far the body reaches from its center along each direction
    chord_directions: Array  #: (m - 1, D, d) the same directions, from chords
    chord_lengths: Array  #: (m,) lengths of the longest chords; the last is outside the hull
    chord_agreement: float | None  #: smallest cosine between the two; None if not measured
    queries: int  #: membership queries asked
    seconds: float
    counted_by: str = "given"  #: or "spectrum", or "trial": by what explains fresh examples


@dataclass(frozen=True, eq=False)
class Searched:
    """Phase 6: the theorem's answer."""

    theta: Array  #: (m, D, d)
    w: Array  #: (m, D, d_out)
    points: int  #: points of the net
    tuples: int  #: tuples of points tried
    net_error: float  #: relative error on validation examples of the best tuple of the net
    validation_error: float  #: the same after local refinement
    seconds: float


@dataclass(frozen=True, eq=False)
class Polished:
    """After the theorem: nonlinear least squares over all parameters."""

    theta: Array  #: (m, D, d)
    w: Array  #: (m, D, d_out)
    losses: Array  #: relative RMS error on the fitted examples, step by step
    validation_error: float
    examples: int
    skipped: str  #: why it was not done; empty if it was
    seconds: float
