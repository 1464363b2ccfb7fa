"""The judge: an answer is learned if examples that took no part in fitting say so."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gradine.certificate import Certificate, HeadBars, certify, relative_errors
from gradine.exact.results import HeadFit, Identified
from gradine.examples import FittingData
from gradine.fit import LearnConfig
from gradine.layer import AttentionLayer
from gradine.status import NotLearned, Status

__all__ = ["Ended", "Verdict", "judge", "judge_answers"]

Array = NDArray[np.float64]

CHANCE = 4.0  # standard errors by which held-out errors may exceed the noise
NOISE_SLACK = 1.25  # and held-out error over noise at most: a few wild errors widen those, too
ANSWER_SLACK = 1.5  # the same for answers of an oracle, whose noise is known by itself
#: Relative error up to which all heads of a design are there: what it leaves in double precision at
#: worst, or so many times the noise of the answers.
DESIGN_LEAVES, DESIGN_ABOVE = 1e-9, 1000.0
#: Outputs below this share of their root mean square are small, by so many examples: an error
#: relative to nothing means nothing, and the outputs of a hidden parity are zero half the time.
SMALL, TYPICAL = 0.1, 2000


@dataclass(frozen=True, eq=False)
class Ended:
    """What a learner gives back: a layer to be verified, or why there is none to believe."""

    method: str
    layer: AttentionLayer | None
    ending: NotLearned | None = None
    identified: Identified | None = None
    fitted: HeadFit | None = None  #: what the exact learner ended with
    note: str = ""


@dataclass(frozen=True, eq=False)
class Verdict:
    status: Status
    detail: str = ""
    certificate: Certificate | None = None
    error: float | None = None


def judge(ended: Ended, data: FittingData, config: LearnConfig) -> Verdict:
    """Certify on examples that took no part in fitting; nothing else is called learned."""
    if ended.layer is None:
        assert ended.ending is not None
        return Verdict(ended.ending.status, ended.ending.detail)
    X, Y = data.certification()
    predicted, floor = ended.layer(X), _floor(data)
    errors = relative_errors(predicted, Y, floor)
    certificate = certify(errors, config.confidence, _bars(ended.identified), floor)
    median = certificate.median_error
    if ended.ending is not None:
        return Verdict(ended.ending.status, ended.ending.detail, None, median)
    if ended.fitted is not None and not ended.fitted.exact and ended.identified is not None:
        squares = np.sum((predicted - Y) ** 2, axis=(1, 2)) / _mean_square(data)
        return _noisy_verdict(ended.fitted, ended.identified, squares, certificate, ended.note)
    tolerance = config.polished_tolerance
    if ended.method == "sculpt" and not config.sculpt.polish:
        tolerance = config.theorem_tolerance
    return _exact_verdict(ended, errors, certificate, tolerance, config)


def judge_answers(ended: Ended, X: Array, Y: Array, noise: float, config: LearnConfig) -> Verdict:
    """The same for an oracle: X are fresh questions, and its answers Y have noise of that size.

    Where the noise is more than rounding of double or single precision, an answer is learned up to
    that noise at best: it must err by hardly more than the oracle itself.
    """
    assert ended.layer is not None
    predicted = ended.layer(X)[:, -Y.shape[1] :]  # of all rows, or of the last one
    size = max(float(np.sqrt(np.mean(Y**2))), np.finfo(float).tiny)
    error = float(np.sqrt(np.mean((predicted - Y) ** 2)))
    # One number may be next to zero by chance: its error is then relative to the typical one.
    errors = np.abs(predicted - Y)[:, 0, 0] / size
    if Y[0].size > 1:
        errors = relative_errors(predicted, Y)
    certificate = certify(errors, config.confidence, _bars(ended.identified))
    median = certificate.median_error
    if ended.ending is not None:
        return Verdict(ended.ending.status, ended.ending.detail, None, median)
    if noise <= config.exact.exact_residual * size:
        verdict = _exact_verdict(ended, errors, certificate, config.polished_tolerance, config)
        left = max(DESIGN_LEAVES, DESIGN_ABOVE * noise / size)
        if ended.identified is None and verdict.status is Status.LEARNED and error > left * size:
            # Nobody has looked at what the answers determine, and they know better.
            detail = (
                f"the layer misses the answers by {error / size:.2g}, and their noise is "
                f"{noise / size:.2g}: heads that hardly show or hardly differ may be missing"
            )
            detail += f"; {ended.note}" if ended.note else ""
            return replace(verdict, status=Status.LEARNED_FUNCTION, detail=detail)
        return verdict
    detail = f"held-out error {error / size:.2g} of the outputs, noise of the answers"
    detail += f" {noise / size:.2g}"
    if error > ANSWER_SLACK * noise:
        return Verdict(Status.NOT_VERIFIED, detail, None, median)
    if ended.identified is not None:
        known = max(ended.identified.theta_bars.max(), ended.identified.w_bars.max())
        detail += f", heads known to {known:.2g}"
    detail += f"; {ended.note}" if ended.note else ""
    return Verdict(Status.LEARNED_UP_TO_NOISE, detail, certificate, median)


def _exact_verdict(
    ended: Ended, errors: Array, certificate: Certificate, tolerance: float, config: LearnConfig
) -> Verdict:
    """Held-out examples must be reproduced up to the tolerance, but for a small share."""
    median = certificate.median_error
    if certificate.eps_at(config.share) <= tolerance:
        known = ended.identified is None or ended.identified.determined
        status = Status.LEARNED if known else Status.LEARNED_FUNCTION
        return Verdict(status, ended.note, certificate, median)
    above = float(np.mean(~(errors <= tolerance)))
    detail = (
        f"{100 * above:.3g}% of {len(errors)} held-out examples have a relative error above "
        f"{tolerance:g}; the median is {median:.2g}"
    )
    return Verdict(Status.NOT_VERIFIED, detail, None, median)


def _floor(data: FittingData) -> float:
    """The norm below which an output is small, by examples under fit: held-out ones have no say."""
    _, Y = data.sample(TYPICAL, seed=0)
    return SMALL * float(np.sqrt(np.mean(np.sum(Y**2, axis=(1, 2)))))


def _mean_square(data: FittingData) -> float:
    """Mean |Y|^2 of the examples under fit: what their noise is relative to."""
    total = data.reduce(_squares, operator.add, float)
    return max(total / data.split.n_fit, np.finfo(float).tiny)


def _squares(X: Array, Y: Array) -> float:
    return float(np.sum(Y**2))


def _noisy_verdict(
    fitted: HeadFit,
    identified: Identified,
    squares: Array,
    certificate: Certificate,
    note: str = "",
) -> Verdict:
    """Held-out examples must err by the noise that fitting found, and no more.

    ``squares`` are their squared errors, in the units of the noise: an error relative to its own
    example would weigh small outputs more than the fit does. Their mean is that of the noise and
    of what noise did to the heads (a share of one unknown for each equation), up to chance.
    """
    noise, error = identified.noise, float(np.mean(squares))
    expected = noise**2 * (1.0 + 1.0 / fitted.equations)
    both = 1.0 / len(squares) + 1.0 / fitted.examples  # the noise is an estimate, too
    slack = min(CHANCE * float(np.std(squares)) * both**0.5, (NOISE_SLACK**2 - 1.0) * expected)
    median = certificate.median_error
    if error <= expected + slack:
        known = max(identified.theta_bars.max(), identified.w_bars.max())
        detail = f"noise {noise:.2g} of the outputs, heads known to {known:.2g}"
        detail += f"; {note}" if note else ""
        return Verdict(Status.LEARNED_UP_TO_NOISE, detail, certificate, median)
    detail = f"held-out error {error**0.5:.3g} (root mean square), but the noise is {noise:.3g}"
    return Verdict(Status.NOT_VERIFIED, detail, None, median)


def _bars(identified: Identified | None) -> HeadBars | None:
    if identified is None:
        return None
    return HeadBars(
        noise=identified.noise,
        theta=tuple(identified.theta_bars.tolist()),
        w=tuple(identified.w_bars.tolist()),
        condition=identified.condition,
    )
