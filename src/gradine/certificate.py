"""What held-out examples prove about an answer.

Of N examples that took no part in fitting, c have a relative error above eps. Then with confidence
1 - delta the fraction of all inputs with an error above eps is at most the Clopper-Pearson bound

    p = the (1 - delta) quantile of Beta(c + 1, N - c).

The curve gives p for each eps of a fixed grid; delta is shared out over the grid, so the whole
curve holds at once and may be read anywhere.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine.displayed import Displayed

__all__ = ["Certificate", "HeadBars", "certify", "clopper_pearson", "relative_errors"]

Array = NDArray[np.float64]

EPS_GRID = (*(float(f"{step}e{power}") for power in range(-15, 0) for step in (1, 2, 5)), 1.0)


@dataclass(frozen=True)
class HeadBars:
    """What local identifiability adds: how far label noise may have moved each head."""

    noise: float  #: of the labels, relative RMS; rounding where there is none
    theta: tuple[float, ...]  #: relative standard error of each Theta_i
    w: tuple[float, ...]  #: relative standard error of each W_i
    condition: float  #: largest over smallest singular value of the Jacobian at the answer


@dataclass(frozen=True, repr=False)
class Certificate(Displayed):
    """With confidence ``confidence``, for every eps: at most p of inputs err by more than eps.

    >>> certificate = certify(np.full(1000, 1e-12))
    >>> certificate.eps_at(0.01), certificate.to_dict()["sentence"] == certificate.sentence()
    (1e-12, True)
    """

    confidence: float
    examples: int
    eps: tuple[float, ...]
    p: tuple[float, ...]
    median_error: float
    largest_error: float
    floor: float = 0.0  #: norm below which an output counts as this large
    bars: HeadBars | None = None  #: error bars of the heads, where the learner gives them

    def __repr__(self) -> str:
        return f"Certificate({self.sentence()}; {self.examples} held-out examples)"

    def eps_at(self, p: float) -> float:
        """The smallest eps of the curve above which at most a fraction ``p`` of inputs errs."""
        for eps, bound in zip(self.eps, self.p, strict=True):
            if bound <= p:
                return eps
        return float("inf")

    def sentence(self, p: float = 0.01) -> str:
        """The certificate at one point of its curve, in words."""
        reachable = min(self.p)
        eps = self.eps_at(max(p, reachable))
        share = self.p[self.eps.index(eps)] if eps in self.eps else 1.0
        return (
            f"with confidence {self.confidence:.1%}, at most {share:.2%} of inputs "
            f"have a relative error above {eps:g}"
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"sentence": self.sentence()}


def relative_errors(predicted: Array, Y: Array, floor: float = 0.0) -> Array:
    """|F(X) - Y| / |Y| of each example; outputs smaller than ``floor`` count as that large.

    Without a floor, nothing but a perfect answer is right where an output is zero.
    """
    error = np.linalg.norm((predicted - Y).reshape(len(Y), -1), axis=1)
    size = np.linalg.norm(Y.reshape(len(Y), -1), axis=1)
    return error / np.maximum(size, max(floor, np.finfo(float).tiny))


def clopper_pearson(exceeding: int, examples: int, delta: float) -> float:
    """Upper bound, with confidence 1 - delta, on a probability seen ``exceeding`` times.

    >>> round(clopper_pearson(0, 100, 0.05), 4)
    0.0295
    """
    if exceeding >= examples:
        return 1.0
    from scipy.special import betaincinv

    return float(betaincinv(exceeding + 1, examples - exceeding, 1.0 - delta))


def certify(
    errors: Array, confidence: float = 0.99, bars: HeadBars | None = None, floor: float = 0.0
) -> Certificate:
    """The certificate that relative errors of held-out examples, with that floor, support.

    >>> certify(np.full(1000, 1e-12)).sentence()
    'with confidence 99.0%, at most 0.84% of inputs have a relative error above 1e-12'
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence is {confidence}; expected a number between 0 and 1")
    if len(errors) == 0:
        raise ValueError("errors is empty; expected at least one held-out example")
    delta = (1.0 - confidence) / len(EPS_GRID)
    bounds = tuple(
        clopper_pearson(int(np.sum(~(errors <= eps))), len(errors), delta) for eps in EPS_GRID
    )
    return Certificate(
        confidence=confidence,
        examples=len(errors),
        eps=EPS_GRID,
        p=bounds,
        median_error=float(np.median(errors)),
        largest_error=float(np.max(errors)),
        floor=floor,
        bars=bars,
    )
