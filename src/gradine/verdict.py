"""The judge: an answer is learned if examples that took no part in fitting say so."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradine.certificate import Certificate, HeadBars, certify, relative_errors
from gradine.exact.results import Identified
from gradine.examples import FittingData, take
from gradine.fit import LearnConfig
from gradine.layer import AttentionLayer
from gradine.status import NotLearned, Status

__all__ = ["Ended", "Verdict", "judge"]

Array = NDArray[np.float64]

NOISE_SLACK = 1.25  # held-out error over estimated noise: relative errors weigh small outputs more


@dataclass(frozen=True, eq=False)
class Ended:
    """What a learner gives back: a layer to be verified, or why there is none to believe."""

    method: str
    layer: AttentionLayer | None
    ending: NotLearned | None = None
    identified: Identified | None = None
    noisy: bool = False  #: the residual is taken for noise of the labels
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
    X, Y = take(data.examples, data.split.certify)
    errors = relative_errors(ended.layer(data.tokens(X)), Y)
    certificate = certify(errors, config.confidence, _bars(ended.identified))
    median = certificate.median_error
    if ended.ending is not None:
        return Verdict(ended.ending.status, ended.ending.detail, None, median)
    least = math.ceil(
        math.log((1.0 - config.confidence) / len(certificate.p)) / math.log1p(-config.share)
    )
    if len(errors) < least:
        detail = f"{len(errors)} are held out; a share of {config.share:g} takes {least}"
        return Verdict(Status.TOO_FEW_HELD_OUT, detail, None, median)
    if ended.noisy and ended.identified is not None:
        return _noisy_verdict(ended.identified, errors, certificate)
    tolerance = config.polished_tolerance
    if ended.method == "sculpt" and not config.sculpt.polish:
        tolerance = config.theorem_tolerance
    if certificate.eps_at(config.share) <= tolerance:
        known = ended.identified is None or ended.identified.determined
        status = Status.LEARNED if known else Status.LEARNED_FUNCTION
        return Verdict(status, ended.note, certificate, median)
    detail = f"median relative error {median:.2g}, tolerance {tolerance:g}"
    return Verdict(Status.NOT_VERIFIED, detail, None, median)


def _noisy_verdict(identified: Identified, errors: Array, certificate: Certificate) -> Verdict:
    """Held-out examples must err by the noise that fitting found, and no more."""
    noise, error = identified.noise, float(np.sqrt(np.mean(errors**2)))
    detail = f"noise {noise:.2g} of the outputs, heads known to {identified.theta_bars.max():.2g}"
    if error <= NOISE_SLACK * noise:
        return Verdict(Status.LEARNED_UP_TO_NOISE, detail, certificate, certificate.median_error)
    detail = f"held-out error {error:.2g}, but the noise is {noise:.2g}"
    return Verdict(Status.NOT_VERIFIED, detail, None, certificate.median_error)


def _bars(identified: Identified | None) -> HeadBars | None:
    if identified is None:
        return None
    return HeadBars(
        noise=identified.noise,
        theta=tuple(identified.theta_bars.tolist()),
        w=tuple(identified.w_bars.tolist()),
        condition=identified.condition,
    )
