"""The plan: how many examples, how long, and which learner, before any example is there."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any

from gradine.admission import least_examples
from gradine.checks import whole_number
from gradine.displayed import Displayed
from gradine.fit import LearnConfig
from gradine.progress import duration
from gradine.status import heads_in_words
from gradine.theory.conditions import check_sizes
from gradine.theory.cost import Cost, Machine, exact_cost, measure_machine, sculpt_cost
from gradine.theory.judgement import Check, Learner
from gradine.theory.needs import Need, exact_need, pattern_bound, phase_needs, unknowns_bound

__all__ = ["Budget", "Plan", "plan"]

LARGEST = 2**24  # coordinates, or tokens: no layer has more
CALIBRATED = (1.0, 8.0)  # scales at which the needs were measured
CONFIDENT = 0.9  # the confidence up to which plans were compared with runs
MOST = 10**12  # examples beyond which a learner is not an answer


@dataclass(frozen=True)
class Budget:
    """Examples and cost of one learner."""

    fit: int  #: examples under fit
    validate: int  #: kept away to choose between candidates
    certify: int  #: kept away for the certificate
    seconds: float
    memory: int  #: bytes

    @property
    def examples(self) -> int:
        """All of them: what `learn` has to be given."""
        return self.fit + self.validate + self.certify

    @property
    def verify(self) -> int:
        """How many fit nothing."""
        return self.validate + self.certify

    def to_dict(self) -> dict[str, Any]:
        return {"examples": self.examples, "verify": self.verify, **asdict(self)}


@dataclass(frozen=True, repr=False)
class Plan(Displayed):
    """What learning a random layer of this size takes.

    >>> planned = plan(heads=2, dim=8, seq_len=3, scale=3.0)
    >>> planned.learner, planned.to_dict()["heads"], planned.sentence()[:5]
    ('exact', 2, 'exact')
    """

    heads: int
    dim: int
    seq_len: int
    scale: float
    out_dim: int
    confidence: float
    unknowns_bound: float  #: examples below which there are fewer equations than unknowns
    pattern_bound: float  #: examples below which rows do not show all of Theta
    exact_fit: int  #: examples that the exact learner must fit
    exact_limit: str  #: what limits it
    exact: Budget
    phases: tuple[Need, ...]  #: of the six phases, in order
    sculpt: Budget | None  #: None: the six phases cannot do it
    #: Conditions of the six phases, and of the exact learner, that these sizes do not meet: the
    #: number of examples is not to be counted on.
    failing: tuple[str, ...]
    exact_failing: tuple[str, ...]
    learner: str  #: which to use: exact or sculpt
    advice: str  #: why
    machine: Machine

    def __repr__(self) -> str:
        return f"Plan({self.sentence()})"

    @property
    def examples(self) -> int:
        """What to give to `learn`, with the learner that is advised."""
        return self.chosen.examples

    @property
    def chosen(self) -> Budget:
        """That of the learner that is advised."""
        return self.exact if self.learner == "exact" or self.sculpt is None else self.sculpt

    def sentence(self) -> str:
        """The plan in one line."""
        budget = self.chosen
        heads = heads_in_words(self.heads)
        doubtful = self.exact_failing if self.learner == "exact" else self.failing
        sure = "are planned for" if doubtful else "give"
        chance = "" if doubtful else f" with probability {self.confidence}"
        return (
            f"{self.learner}: {budget.examples:,} examples ({budget.fit:,} to fit, "
            f"{budget.verify:,} to verify) {sure} {heads}{chance}, "
            f"in about {_time(budget.seconds)} and {budget.memory / 2**20:,.0f} MiB; {self.advice}"
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain types, for JSON."""
        return asdict(self) | {
            "examples": self.examples,
            "exact": self.exact.to_dict(),
            "sculpt": None if self.sculpt is None else self.sculpt.to_dict(),
            "sentence": self.sentence(),
        }


def plan(
    heads: int,
    dim: int,
    seq_len: int,
    scale: float,
    confidence: float = 0.9,
    *,
    out_dim: int | None = None,
    config: LearnConfig | None = None,
    machine: Machine | None = None,
) -> Plan:
    """Plan to learn a random layer: examples for both learners, time and memory on this machine.

    The layer is one that `plant` would give: ``scale`` is the standard deviation of a logit, labels
    have no noise, and the number of heads is told to the learner. ``confidence`` is the chance that
    the run succeeds; that of its certificate is a setting of ``config``.

    >>> import gradine
    >>> planned = gradine.plan(heads=2, dim=8, seq_len=4, scale=2.0)
    >>> planned.exact.fit, planned.exact.verify, planned.learner
    (88, 187, 'exact')
    """
    m, d = whole_number("heads", heads, 1), whole_number("dim", dim, 2)
    k = whole_number("seq_len", seq_len, 2)  # with one token there is no attention to learn
    outputs = d if out_dim is None else whole_number("out_dim", out_dim, 1)
    config = LearnConfig() if config is None else config
    for name, size in {"dim": d, "seq_len": k, "out_dim": outputs}.items():
        if size > LARGEST:
            raise ValueError(f"{name} is {size}; expected at most {LARGEST}")
    if m > d:
        raise ValueError(f"heads is {m}; expected at most dim = {d}")
    if not isinstance(scale, Real) or not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"scale is {scale!r}; expected a positive finite number")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence is {confidence}; expected between 0 and 1")
    machine = machine or measure_machine()
    need = exact_need(m, d, k, outputs, confidence)
    fit, validate, certify = _shares(need.examples, config)
    n = fit + validate + certify
    exact_takes = exact_cost(m, d, k, outputs, fit, n, machine, config.exact)
    exact = _budget(fit, validate, certify, exact_takes)
    phases = phase_needs(m, d, k, scale, outputs, confidence, config.sculpt)
    sculpt = None
    most = max(phase.examples for phase in phases)
    if outputs > k and d >= k and most <= MOST:
        shares = _shares(most, config)
        takes = sculpt_cost(m, d, k, outputs, sum(shares), machine, config.sculpt)
        sculpt = _budget(*shares, takes)
    checked = check_sizes(m, d, k, outputs, scale)
    learner, advice = _advice(exact, sculpt, phases, checked, outputs > k and d >= k)
    if confidence > CONFIDENT:
        advice += f"; measured for confidences up to {CONFIDENT:g} only"
    return Plan(
        heads=m,
        dim=d,
        seq_len=k,
        scale=float(scale),
        out_dim=outputs,
        confidence=float(confidence),
        unknowns_bound=unknowns_bound(m, d, k, outputs),
        pattern_bound=pattern_bound(m, d, k, outputs),
        exact_fit=need.examples,
        exact_limit=need.limit,
        exact=exact,
        phases=phases,
        sculpt=sculpt,
        failing=tuple(condition.name for condition in checked.failing()),
        exact_failing=tuple(condition.name for condition in checked.failing("exact")),
        learner=learner,
        advice=advice,
        machine=machine,
    )


def _shares(needed: int, config: LearnConfig) -> tuple[int, int, int]:
    """Examples to fit, validate and certify, of the fewest that leave ``needed`` to fit."""
    n = least_examples(needed, config)
    validate, certify = config.held_out(n)
    return n - validate - certify, validate, certify


def _budget(fit: int, validate: int, certify: int, cost: Cost) -> Budget:
    return Budget(fit, validate, certify, cost.seconds, cost.memory)


def _advice(
    exact: Budget, sculpt: Budget | None, phases: tuple[Need, ...], checked: Check, room: bool
) -> tuple[str, str]:
    if not room:
        advice = "the six phases need more coordinates than tokens"
    elif sculpt is None:
        advice = "the six phases would need more examples than anyone has"
    else:
        hardest = max(phases, key=lambda need: need.examples)
        advice = f"the six phases need {sculpt.examples:,}, most of all phase {hardest.phase}"
        if not checked.holds:
            advice += f", and are not to be counted on there ({_names(checked, 'sculpt')})"
    (low, high), scale = CALIBRATED, checked["logits_not_flat"].value
    if not low <= scale <= high:
        advice += f"; measured for scales from {low:g} to {high:g} only"
    if not checked.holds_for("exact"):
        advice += f"; exact is not to be counted on ({_names(checked, 'exact')})"
    if sculpt is not None and checked.holds and sculpt.examples < exact.examples:
        return "sculpt", f"the exact learner needs {exact.examples:,}"
    return "exact", advice


def _names(checked: Check, learner: Learner) -> str:
    return ", ".join(condition.name for condition in checked.failing(learner))


def _time(seconds: float) -> str:
    return "a second" if seconds < 1.0 else duration(seconds)
