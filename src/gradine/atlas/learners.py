"""The learners of the map, each from examples alone: nothing here has seen a truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gradine import learners as registry
from gradine.certificate import Certificate
from gradine.exact.config import ExactConfig
from gradine.fit import LearnConfig
from gradine.layer import AttentionLayer
from gradine.learn import learn
from gradine.plugins import load_plugins
from gradine.refusals import is_refusal
from gradine.status import Status
from gradine.students.config import StudentConfig
from gradine.students.descent import Optimizer
from gradine.students.learn import learn_by_descent

__all__ = ["BY_DESCENT", "LEARNERS", "Answer", "Task", "held_out", "learner_of"]

Array = NDArray[np.float64]

#: A fifth of the examples that are fitted, within these limits, choose and certify besides.
VALIDATE, CERTIFY = (40, 2000), (200, 2000)
OUT_OF_THE_WAY = 0.95  # the cap on a held-out set: the numbers above are what counts


@dataclass(frozen=True, eq=False)
class Task:
    """What a learner is given. All are told the number of heads, and the rank if there is one."""

    X: Array  #: (n, k, d); of these, ``n_fit`` are to be fitted
    Y: Array
    n_fit: int
    heads: int
    rank: int | None
    seed: int
    student: StudentConfig

    @property
    def config(self) -> LearnConfig:
        """Settings under which exactly ``n_fit`` of the examples are fitted."""
        validate, certify = held_out(self.n_fit)
        return LearnConfig(
            exact=ExactConfig(rank=self.rank),
            validation_examples=validate,
            certify_examples=certify,
            held_out_share=OUT_OF_THE_WAY,
        )


@dataclass(frozen=True, eq=False)
class Answer:
    """What a learner says."""

    layer: AttentionLayer | None
    status: str
    claims: Literal["heads", "function"] | None = None  #: what is said to be certain of it
    certificate: Certificate | None = None
    theorem: AttentionLayer | None = None  #: the answer of phase 6 alone, before any polish


def held_out(n_fit: int) -> tuple[int, int]:
    """How many examples choose between candidates, and how many certify, besides those fitted.

    >>> held_out(100), held_out(40_000)
    ((40, 200), (2000, 2000))
    """
    validate, certify = (int(np.clip(n_fit // 5, *limits)) for limits in (VALIDATE, CERTIFY))
    return validate, certify


def _certified(method: str, task: Task) -> Answer:
    """Registered learners; what they refuse is not learned."""
    try:
        fit = learn(task.X, task.Y, task.heads, method, task.seed, config=task.config)
    except ValueError as error:  # a solver that broke down is no refusal
        return Answer(None, "refused" if is_refusal(error) else "crashed")
    claims = None
    if fit.learned:
        claims = "function" if fit.status is Status.LEARNED_FUNCTION else "heads"
    return Answer(fit.candidate, fit.status.code, claims, fit.certificate, fit.theorem)


def _by_descent(optimizer: Optimizer, task: Task) -> Answer:
    """Gradient descent on the examples that the others fit; it certifies nothing."""
    rows = task.config.split(len(task.X), task.seed).fit_rows(0, len(task.X))
    X, Y, config = task.X[rows], task.Y[rows], task.student
    fit = learn_by_descent(X, Y, task.heads, optimizer, task.seed, rank=task.rank, config=config)
    return Answer(fit.layer, "fitted" if fit.loss <= config.enough else "not_fitted")


LEARNERS: dict[str, Callable[[Task], Answer]] = {
    "exact": partial(_certified, "exact"),
    "sculpt": partial(_certified, "sculpt"),
    "adam": partial(_by_descent, "adam"),
    "lbfgs": partial(_by_descent, "lbfgs"),
}
BY_DESCENT = ("adam", "lbfgs")


def learner_of(name: str) -> Callable[[Task], Answer]:
    """A learner of the map, or any other that is registered; ``ValueError`` if there is none.

    >>> learner_of("newton")
    Traceback (most recent call last):
    ValueError: learner is 'newton'; expected one of exact, sculpt, adam, lbfgs
    """
    if name not in LEARNERS:
        load_plugins()
    if name in LEARNERS:
        return LEARNERS[name]
    if name in registry.LEARNERS:
        return partial(_certified, name)
    known = dict.fromkeys([*LEARNERS, *registry.LEARNERS])
    raise ValueError(f"learner is {name!r}; expected one of {', '.join(known)}")
