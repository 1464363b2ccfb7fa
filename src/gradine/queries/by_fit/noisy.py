"""Learning from answers with noise: the exact learner as it is for noisy examples.

Rounding to half precision or to a few decimals is noise to a fit, and so is what a defence adds.
It averages out over many rows; what is left of it in the heads is said by their error bars.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gradine.exact.pipeline import ExactAnswer, learn_exactly
from gradine.exact.results import HeadFit, Identified
from gradine.exact.workshop import RunPhase
from gradine.examples import ArrayExamples, FittingData, Split
from gradine.layer import AttentionLayer
from gradine.progress import Tell
from gradine.queries.asking.oracle import Oracle
from gradine.queries.asking.precision import Precision
from gradine.queries.by_fit.frame import Frame
from gradine.queries.by_fit.questions import Questions
from gradine.queries.by_fit.scout import Scouted
from gradine.queries.config import QueryConfig
from gradine.status import NotLearned, Status

__all__ = ["FitAnswer", "learn_noisy", "named", "spare_note"]

VALIDATION = 0.1  # share of the answers that choose between fits
COUNT_AGAIN = (Status.NOT_REALIZABLE, Status.TOO_NOISY)  # the first look may have miscounted


class FitAnswer(NamedTuple):
    """The layer, and what stands against it."""

    layer: AttentionLayer
    fitted: HeadFit
    identified: Identified
    ending: NotLearned | None  #: why it is not to be believed; None: verify it
    note: str
    precision: Precision  #: of the answers, as far as learning had to know it


def learn_noisy(
    oracle: Oracle,
    heads: int | None,
    counted: int,
    precision: Precision,
    seed: int,
    run: RunPhase,
    config: QueryConfig,
    seen: Scouted,
    tell: Tell | None = None,
) -> FitAnswer:
    """The exact learner as it is for noisy examples, with as many as average the noise out."""
    least = config.verify_tokens
    questions = Questions(oracle, seen, counted, config.noisy_logit, least, config, seed + 1)
    # Whether there are biases cannot be told below the noise; with none, a few unknowns more.
    bound = questions.bound(counted + 1, True, config.exact.rank)
    questions.ask(math.ceil(config.noisy_ratio * bound))
    frame = Frame(oracle.center, questions.size, seen.constant)
    n = len(questions.X)
    held = max(1, round(VALIDATION * n))
    split = Split(n, np.arange(n - held, n), np.arange(0), seed)
    examples = ArrayExamples(frame.coordinates(questions.X), questions.Y)
    data = FittingData(examples, split, constant=frame.constant)

    def learn(heads: int | None, run: RunPhase) -> ExactAnswer:
        exact = replace(config.exact, curve_points=0)
        return learn_exactly(data, "other", heads, exact, seed, run, tell=tell)

    answer = learn(counted, run)
    if heads is None and answer.ending is not None and answer.ending.status in COUNT_AGAIN:
        answer = learn(None, _renamed(run))
    layer = frame.layer(answer.fit.theta, answer.fit.w)
    note = "; ".join(part for part in (answer.note, spare_note(heads, answer.fit.heads)) if part)
    return FitAnswer(layer, answer.fit, answer.identified, answer.ending, note, precision)


def _renamed(run: RunPhase) -> RunPhase:
    """Phases of a second try have names of their own."""

    def again(name: str, kind: type[Any], work: Callable[[], Any]) -> Any:
        return run(named(name, 1), kind, work)

    return again


def named(phase: str, again: int) -> str:
    """The name of a phase, or of one of its repetitions."""
    return phase if again == 0 else "_".join([phase, "again", str(again)])


def spare_note(heads: int | None, found: int) -> str:
    if heads is None or found >= heads:
        return ""
    return (
        f"{found} of {heads} heads suffice: heads with equal Theta are one, "
        "and a head with W = 0 is none"
    )
