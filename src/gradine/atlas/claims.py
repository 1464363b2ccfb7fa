"""Whether a claim of a learner is false: asked of fresh examples, and of the truth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradine.certificate import Certificate, HeadBars, clopper_pearson, relative_errors
from gradine.layer import AttentionLayer
from gradine.score import compare

__all__ = ["contradicted", "wrong_heads"]

Array = NDArray[np.float64]

SURE = 1e-6  # chance that fresh examples contradict a statement that is true
BARS = 5.0  # error bars that a head may be off by
EXACT = 1e-6  # and what it may be off by in any case


def contradicted(certificate: Certificate | None, predicted: Array, Y: Array) -> bool:
    """Whether fresh examples, predicted and as they are, speak against any point of a curve.

    The curve bounds a probability; the examples give a share. It counts where the share is so
    large that the bound is wrong beyond doubt. A claim without a statement is a false one.

    >>> from gradine.certificate import certify
    >>> Y = np.ones((500, 2, 3))
    >>> contradicted(certify(np.full(1000, 1e-8)), (1 + 1e-9) * Y, Y)
    False
    >>> contradicted(certify(np.full(1000, 1e-8)), (1 + 1e-3) * Y, Y)
    True
    """
    if certificate is None:
        return True
    errors = relative_errors(predicted, Y, certificate.floor)
    fresh, curve = len(errors), zip(certificate.eps, certificate.p, strict=True)
    within = ((int((errors <= eps).sum()), p) for eps, p in curve)
    return any(1.0 - clopper_pearson(good, fresh, SURE) > p for good, p in within)


def wrong_heads(
    layer: AttentionLayer, truth: AttentionLayer, bars: HeadBars | None, allowed: float = EXACT
) -> str:
    """Why a claim of these heads is false; empty if every head is right.

    Right is what is within ``allowed``, or within five of its own error bars; these come in the
    order of the heads of the layer.
    """
    match = compare(layer, truth, examples=1)
    if match.missing or match.extra:
        return f"{match.missing} heads missing, {match.extra} too many"
    for name, errors in (("theta", match.theta_error), ("w", match.w_error)):
        own = np.zeros(len(match.order)) if bars is None else np.array(getattr(bars, name))
        own = np.where(np.isfinite(own), own, 0.0)  # a bar that is unknown allows nothing
        most = np.maximum(BARS * own[match.order], allowed)
        for error, limit in zip(errors, most, strict=True):
            if not error <= limit:
                shown = "Theta" if name == "theta" else "W"
                return f"an error of {error:.1e} in {shown}, where {limit:.1e} is allowed"
    return ""
