"""One trial: a layer is planted, a learner gets its examples, and the truth judges."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from gradine.atlas.claims import contradicted, wrong_heads
from gradine.atlas.learners import BY_DESCENT, LEARNERS, Answer, Task, held_out, learner_of
from gradine.atlas.setting import Setting
from gradine.engine import one_thread
from gradine.layer import AttentionLayer
from gradine.score import compare
from gradine.settings import Chance, Settings
from gradine.students.config import StudentConfig

__all__ = ["LEARNERS", "MapConfig", "Trial", "run_trial"]

FRESH = 1000  # examples that may contradict a certificate
LAYER, EXAMPLES, CHECK = range(3)  # streams of random numbers of one trial


@dataclass(frozen=True)
class MapConfig(Settings):
    """What counts as success, and how students are trained.

    >>> MapConfig(tolerance=1e-3).tolerance
    0.001
    """

    #: Largest relative error of a Theta_i of a layer that counts as found; of the function, where
    #: it hides a parity, whose heads are not determined.
    tolerance: Chance = 0.01
    student: StudentConfig = field(default_factory=StudentConfig)


@dataclass(frozen=True)
class Trial:
    """How one trial went.

    >>> run_trial(Setting(heads=1, dim=4, scale=2.0), "exact").certified
    True
    """

    learner: str
    seed: int
    examples: int  #: that were fitted
    success: bool  #: within the tolerance and, of a learner that certifies, certified
    certified: bool
    false_certificate: str  #: why what is certified is not so; empty if it is, or nothing is
    status: str
    theta_error: float | None  #: the largest of all heads; None: no layer, or other heads
    function_error: float | None  #: ||F - truth|| / ||truth|| on fresh inputs
    theorem_error: float | None  #: the same of phase 6 alone
    seconds: float  #: of one processor core


def run_trial(
    setting: Setting, learner: str, seed: int = 0, config: MapConfig | None = None
) -> Trial:
    """Plant, sample, learn, judge. The same seed plants the same layer for every learner.

    >>> trial = run_trial(Setting(heads=1, dim=4, scale=2.0), "exact")
    >>> trial.success, trial.status, trial.examples, trial.false_certificate
    (True, 'learned', 22, '')
    """
    config = MapConfig() if config is None else config
    truth = setting.truth(np.random.default_rng([seed, LAYER]))
    total = setting.n_fit + sum(held_out(setting.n_fit))
    X, Y = setting.sample(truth, total, np.random.default_rng([seed, EXAMPLES]))
    task = Task(X, Y, setting.n_fit, truth.n_heads, setting.rank, seed, config.student)
    with one_thread(torch=learner in BY_DESCENT):
        began = time.process_time()
        answer = learner_of(learner)(task)
        seconds = time.process_time() - began
        theta, function = _errors(answer.layer, truth, setting)
        error = function if setting.t is not None else theta
        near = error is not None and error <= config.tolerance
        return Trial(
            learner=learner,
            seed=seed,
            examples=setting.n_fit,
            success=near and (learner in BY_DESCENT or answer.claims is not None),
            certified=answer.claims is not None,
            false_certificate=_false_claim(answer, truth, setting, seed, config),
            status=answer.status,
            theta_error=theta,
            function_error=function,
            theorem_error=_errors(answer.theorem, truth, setting)[1],
            seconds=seconds,
        )


def _errors(
    layer: AttentionLayer | None, truth: AttentionLayer, setting: Setting
) -> tuple[float | None, float | None]:
    """Of Theta and of the function; of Theta there is none unless all heads are found.

    Heads that are equal, or that do nothing, are fewer heads to a comparison: not all are found.
    """
    if layer is None:
        return None, None
    match = compare(layer, truth, seq_len=setting.tokens, kind=setting.inputs)
    all_found = not match.extra and len(match.theta_error) == truth.n_heads
    return float(match.theta_error.max()) if all_found else None, float(match.function_error)


def _false_claim(
    answer: Answer, truth: AttentionLayer, setting: Setting, seed: int, config: MapConfig
) -> str:
    """Why a claim is false: fresh examples contradict it, or heads are not the truth's."""
    if answer.claims is None or answer.layer is None:
        return ""
    X, Y = setting.sample(truth, FRESH, np.random.default_rng([seed, CHECK]))
    if contradicted(answer.certificate, np.asarray(answer.layer(X)), Y):
        return "fresh examples contradict the certificate"
    if answer.claims == "function":
        return ""
    bars = None if answer.certificate is None else answer.certificate.bars
    # Without error bars nothing but the tolerance says what is right.
    return (
        wrong_heads(answer.layer, truth, bars, config.tolerance)
        if bars is None
        else wrong_heads(answer.layer, truth, bars)
    )
