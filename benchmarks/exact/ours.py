"""The learner under test: the one place where the benchmark calls it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import gradine
from gradine.certificate import Certificate
from gradine.examples import make_split
from gradine.fit import LearnConfig

__all__ = ["HELD_OUT", "SOLVED", "Answer", "error_of", "figures", "ours"]

Array = NDArray[np.float64]

SOLVED = 1e-6  # theta_error of a layer that counts as found, ours or a peer's
CERTIFY, VALIDATE = 200, 40  # examples beside those that are fitted
HELD_OUT = CERTIFY + VALIDATE
CERTIFYING = ("certify", "certificate")  # phases that are not fitting, if they are phases
SHARE = 0.95  # the cap on a held-out set is out of the way: the numbers above are what counts


@dataclass(frozen=True, eq=False)
class Answer:
    """What a run of the learner gave."""

    layer: gradine.AttentionLayer | None  #: the last answer there was, verified or not
    learned: bool
    status: str
    reason: str
    seconds: float  #: wall time of the whole call
    phase_seconds: dict[str, float]
    flops: float | None  #: of the phases that count them
    certificate: Certificate | None
    error_bar: float  #: relative error of a Theta that the run itself expects; 0: none given
    fitted: NDArray[np.intp]  #: the examples that were fitted; the others were held out


def ours(
    X: Array,
    Y: Array,
    heads: int | Literal["auto"],
    seed: int,
    *,
    rank: int | None = None,
    few: bool = True,
) -> Answer:
    """Learn exactly. With ``few`` all but `HELD_OUT` of the examples are fitted."""
    from gradine.exact.config import ExactConfig

    held = {"held_out_share": SHARE, "validation_examples": VALIDATE, "certify_examples": CERTIFY}
    config = LearnConfig(exact=ExactConfig(rank=rank), **(held if few else {}))
    began = time.perf_counter()
    fit = gradine.learn(X, Y, heads=heads, method="exact", seed=seed, config=config)
    seconds = time.perf_counter() - began
    split = make_split(
        len(X),
        validation=config.validation_examples,
        certify=config.certify_examples,
        largest_share=config.held_out_share,
        seed=seed,
    )
    counted = [flops for result in fit.phases.values() if (flops := _flops(result)) is not None]
    return Answer(
        layer=fit.candidate,
        learned=fit.learned,
        status=fit.status.code,
        reason=fit.reason,
        seconds=seconds,
        phase_seconds={name: result.seconds for name, result in fit.phases.items()},
        flops=sum(counted) if counted else None,
        certificate=fit.certificate,
        error_bar=_error_bar(fit),
        fitted=split.fit_rows(0, len(X)),
    )


def _flops(result: Any) -> float | None:
    return getattr(result, "flops", None)


def _error_bar(fit: Any) -> float:
    """The largest error bar of a head, relative to its Theta; 0 where none is given."""
    if fit.certificate is None or fit.certificate.bars is None:
        return 0.0
    return float(max(fit.certificate.bars.theta))


def error_of(layer: gradine.AttentionLayer | None, truth: gradine.AttentionLayer) -> float | None:
    """The largest relative error of an attention matrix; None: no layer, or heads too many."""
    if layer is None:
        return None
    match = gradine.compare(layer, truth, examples=1)
    return None if match.extra else float(match.theta_error.max())


def figures(answer: Answer, truth: gradine.AttentionLayer) -> dict[str, Any]:
    """What is kept of a run."""
    error = error_of(answer.layer, truth)
    fitting = sum(s for name, s in answer.phase_seconds.items() if name not in CERTIFYING)
    return {
        "success": answer.learned and error is not None and error <= SOLVED,
        "learned": answer.learned,
        "status": answer.status,
        "reason": answer.reason,
        "theta_error": error,
        "heads": None if answer.layer is None else answer.layer.n_heads,
        "seconds": answer.seconds,
        "phase_seconds": answer.phase_seconds,
        "outside_share": 1.0 - fitting / answer.seconds,
        "flops": answer.flops,
    }
