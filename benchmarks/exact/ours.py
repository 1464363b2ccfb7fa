"""The learner under test: the one place where the benchmark calls it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import gradine
from benchmarks.clock import clock
from benchmarks.exact.watch import Watch
from gradine.certificate import Certificate
from gradine.fit import LearnConfig

__all__ = ["CLAIMS_FUNCTION", "HELD_OUT", "SOLVED", "Answer", "error_of", "figures", "ours"]

Array = NDArray[np.float64]

SOLVED = 1e-6  # theta_error of a layer that counts as found, ours or a peer's
CERTIFY, VALIDATE = 200, 40  # examples beside those that are fitted
HELD_OUT = CERTIFY + VALIDATE
#: The phase that finds no heads but puts error bars on them. The survey and the certificate are
#: no phases, and the curve of the report, which would be one, is not asked for here.
CHECKING = "identify"
SHARE = 0.95  # the cap on a held-out set is out of the way: the numbers above are what counts
#: Endings by which a run says that its heads are the truth's, and the one by which it says that
#: of the function alone.
CLAIMS_HEADS = ("learned", "learned_up_to_noise")
CLAIMS_FUNCTION = "learned_function"


@dataclass(frozen=True, eq=False)
class Answer:
    """What a run of the learner gave."""

    layer: gradine.AttentionLayer | None  #: the last answer there was, verified or not
    status: str
    reason: str
    seconds: float  #: of the whole call, by the clock of the benchmark
    solved_seconds: float  #: until a bystander saw the heads within `SOLVED`, if one did
    wall: float  #: the same by the wall clock, as the phases are
    phase_seconds: dict[str, float]
    flops: float | None  #: of the phases that count them
    certificate: Certificate | None
    fitted: NDArray[np.intp]  #: the examples that may be fitted; the others were held out
    examples: int  #: the most examples that a fit took of these

    @property
    def learned(self) -> bool:
        """Whether the run claims the heads; the function alone is less."""
        return self.status in CLAIMS_HEADS

    @property
    def error_bar(self) -> float | None:
        """The largest error bar of a Theta, relative; None: not given, or unknown."""
        bars = None if self.certificate is None else self.certificate.bars
        if bars is None or not bars.theta or not np.isfinite(bars.theta).all():
            return None
        return max(bars.theta)


def ours(
    X: Array,
    Y: Array,
    heads: int | Literal["auto"],
    seed: int,
    *,
    rank: int | None = None,
    attention: str = "softmax",
    few: bool = True,
    examples_per_bound: float | None = None,
    truth: gradine.AttentionLayer | None = None,
) -> Answer:
    """Learn exactly. With ``few`` all but `HELD_OUT` of the examples may be fitted.

    The truth is for a bystander, who notes when the heads are found.
    The learner takes no more of them than some multiple of the counting bound, its own by default.
    """
    from gradine.exact.config import ExactConfig
    from gradine.exact.results import HeadFit

    held = {"held_out_share": SHARE, "validation_examples": VALIDATE, "certify_examples": CERTIFY}
    exact = ExactConfig(rank=rank, attention=attention)
    if examples_per_bound is not None:
        exact = replace(exact, examples_per_bound=examples_per_bound)
    config = LearnConfig(exact=exact, **(held if few else {}))
    watch = None if truth is None else Watch(truth, SOLVED)
    began, wall = clock(), time.perf_counter()
    fit = gradine.learn(X, Y, heads=heads, method="exact", seed=seed, config=config, listener=watch)
    looking = 0.0 if watch is None else watch.looking
    seconds, wall = clock() - began - looking, time.perf_counter() - wall - looking
    split = config.split(len(X), seed)
    fits = [result for result in fit.phases.values() if isinstance(result, HeadFit)]
    return Answer(
        layer=fit.candidate,
        status=fit.status.code,
        reason=fit.reason,
        seconds=seconds,
        solved_seconds=(watch and watch.seconds) or seconds,
        wall=wall,
        phase_seconds={name: result.seconds for name, result in fit.phases.items()},
        flops=sum(result.flops for result in fits) if fits else None,
        certificate=fit.certificate,
        fitted=split.fit_rows(0, len(X)),
        examples=max((result.examples for result in fits), default=0),
    )


def error_of(layer: gradine.AttentionLayer | None, truth: gradine.AttentionLayer) -> float | None:
    """The largest relative error of an attention matrix; None: no layer, or heads too many."""
    if layer is None:
        return None
    match = gradine.compare(layer, truth, examples=1)
    return None if match.extra else float(match.theta_error.max())


def figures(answer: Answer, truth: gradine.AttentionLayer) -> dict[str, Any]:
    """What is kept of a run."""
    error = error_of(answer.layer, truth)
    fitting = sum(s for name, s in answer.phase_seconds.items() if name != CHECKING)
    return {
        "success": answer.learned and error is not None and error <= SOLVED,
        "learned": answer.learned,
        "status": answer.status,
        "reason": answer.reason,
        "theta_error": error,
        "heads": None if answer.layer is None else answer.layer.n_heads,
        "seconds": answer.seconds,
        "solved_seconds": answer.solved_seconds,
        "phase_seconds": answer.phase_seconds,
        "outside_share": 1.0 - fitting / answer.wall,
        "flops": answer.flops,
        "examples": answer.examples,
    }
