"""The learners by their names: each is one object, registered.

A learner is given what may be fitted and gives back a layer, or says why there is none. It is
shown no truth and no held-out example; whether its answer is believed is decided elsewhere
(`gradine.verdict`), by the same held-out examples for all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gradine.admission import exact_objection, sculpt_objection
from gradine.checks import in_short
from gradine.exact.pipeline import learn_exactly
from gradine.exact.workshop import RunPhase
from gradine.examples import FittingData, Survey
from gradine.fit import LearnConfig
from gradine.layer import AttentionLayer
from gradine.plugins import load_plugins
from gradine.progress import Tell
from gradine.sculpt.pipeline import six_phases
from gradine.sculpt.search import square
from gradine.solvers.convex import SolverError
from gradine.status import NotLearned, Status
from gradine.verdict import Ended

__all__ = [
    "AUTO",
    "LEARNERS",
    "Learner",
    "Request",
    "learners_of",
    "methods",
    "register",
]

#: What `auto` tries in turn. A learner that is added is run where it is asked for by name.
AUTO = ("exact", "sculpt")

NAME = re.compile(r"[\w.-]+")  # what a command line takes as one word


@dataclass(frozen=True, eq=False)
class Request:
    """What a learner is given."""

    data: FittingData  #: the examples that may be fitted
    kind: str  #: of the tokens: "boolean", "gaussian" or "other"
    heads: int | None  #: how many heads; None: the learner counts them
    config: LearnConfig
    seed: int
    run: RunPhase  #: runs a phase: it is told of, kept on disk, and read back by a resumed run
    tell: Tell  #: told of every step of a fit

    def layer(self, theta: Any, w: Any, attention: str = "softmax") -> AttentionLayer:
        """The layer of these heads: ``theta`` (m, D, D) or (m, D, d), ``w`` (m, D, d_out)."""
        theta = square(theta, self.data.width)
        return AttentionLayer(theta, w, self.data.constant, attention=attention).canonical()


def no_objection(data: FittingData, seen: Survey, heads: int | None, config: LearnConfig) -> str:
    """Any examples will do."""
    return ""


@dataclass(frozen=True, eq=False)
class Learner:
    """One learner: its name, what it does, and which examples it cannot work with.

    ``learn`` gives back a layer to be verified (`Request.layer` makes one), or raises `NotLearned`.
    A learner of ours gives all that it knows of its answer, as `Ended`. ``objection`` says in a
    few words why it cannot work with examples, before anything is fitted; empty if it can.
    """

    name: str
    learn: Callable[[Request], AttentionLayer | Ended]
    objection: Callable[[FittingData, Survey, int | None, LearnConfig], str] = no_objection

    def __repr__(self) -> str:
        return f"Learner({self.name!r})"

    def __call__(self, request: Request) -> Ended:
        """Run it; what it gives back bears its name."""
        try:
            answer = self.learn(request)
        except NotLearned as stopped:
            return Ended(self.name, None, stopped)
        if isinstance(answer, Ended):
            return answer
        self._check(answer, request.data)
        return Ended(self.name, answer)

    def _check(self, answer: Any, data: FittingData) -> None:
        """What comes from outside may be anything: who wrote the learner is told."""
        if not isinstance(answer, AttentionLayer):
            raise ValueError(
                f"learner {self.name!r} gave back {in_short(answer)}; expected an AttentionLayer, "
                "such as request.layer(theta, w) makes, or that it raises NotLearned"
            )
        fits = data.width in (answer.width, answer.width - answer.constant)
        if not fits or answer.out_dim != data.out_dim:
            raise ValueError(
                f"learner {self.name!r} gave back {answer!r}; expected one for tokens of "
                f"{data.width} coordinates and outputs of {data.out_dim}"
            )


#: Every learner by its name.
LEARNERS: dict[str, Learner] = {}


def register(learner: Learner) -> Learner:
    """Make a learner known by its name, to `gradine.learn` and to ``--method`` alike.

    >>> register(Learner("exact", LEARNERS["exact"].learn))
    Traceback (most recent call last):
    ValueError: learner 'exact' is registered already; expected another name
    """
    if not isinstance(learner, Learner):
        raise ValueError(f"learner is {in_short(learner)}; expected Learner(name, learn)")
    if not isinstance(learner.name, str) or not NAME.fullmatch(learner.name):
        raise ValueError(
            f"learner is named {in_short(learner.name)}; expected letters, digits, '_', '-' and '.'"
        )
    for part in ("learn", "objection"):
        if not callable(getattr(learner, part)):
            raise ValueError(
                f"{part} of learner {learner.name!r} is {in_short(getattr(learner, part))}; "
                "expected a function"
            )
    if learner.name in methods():
        raise ValueError(f"learner {learner.name!r} is registered already; expected another name")
    LEARNERS[learner.name] = learner
    return learner


def methods() -> tuple[str, ...]:
    """The names that ``method`` may have, as far as they are registered.

    >>> methods()[:3]
    ('auto', 'exact', 'sculpt')
    """
    return ("auto", *LEARNERS)


def learners_of(method: str) -> tuple[Learner, ...]:
    """The learners that a method tries in turn; ``ValueError`` if there is no such method.

    >>> learners_of("auto"), learners_of("sculpt")
    ((Learner('exact'), Learner('sculpt')), (Learner('sculpt'),))
    """
    if method not in methods():
        load_plugins()
    if method not in methods():
        raise ValueError(f"method is {method!r}; expected {', '.join(map(repr, methods()))}")
    return tuple(LEARNERS[name] for name in (AUTO if method == "auto" else (method,)))


def _exact(request: Request) -> Ended:
    data, settings = request.data, request.config.exact
    answer = learn_exactly(
        data,
        request.kind,
        request.heads,
        settings,
        request.seed,
        request.run,
        like=data.examples.like,
        tell=request.tell,
    )
    layer = request.layer(answer.fit.theta, answer.fit.w, settings.attention)
    return Ended("exact", layer, answer.ending, answer.identified, answer.fit, answer.note)


def _sculpt(request: Request) -> AttentionLayer:
    settings = request.config.sculpt
    try:
        answer = six_phases(request.data, request.heads, settings, request.seed, request.run)
    except SolverError as stopped:
        raise NotLearned(Status.NO_BODY, str(stopped)) from stopped
    return request.layer(answer.theta, answer.w)


register(Learner("exact", _exact, exact_objection))
register(Learner("sculpt", _sculpt, sculpt_objection))
