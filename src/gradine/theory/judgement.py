"""Conditions as numbers against thresholds, and what to say of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from gradine.displayed import Displayed

__all__ = ["LEARNERS", "Check", "Condition", "Learner", "Rule"]

Learner = Literal["sculpt", "exact"]
LEARNERS: tuple[Learner, ...] = ("sculpt", "exact")
ROUNDING = 1e-12


@dataclass(frozen=True)
class Rule:
    """What a condition asks, of whom, and why; its thresholds were measured along a dial."""

    what: str  #: the number, in words
    purpose: str  #: what the condition is for
    phase: str  #: the phase of the theorem's learner that fails without it
    at_least: bool  #: whether the value must be at least the threshold, or at most
    sculpt: float | None  #: threshold of the theorem's learner
    exact: float | None  #: threshold of the exact learner; None: it does without
    paper: str  #: what the theorem asks, up to constants that it leaves open
    reference: str = "CL25"  #: Chen and Li, STOC 2025

    def judge(self, name: str, value: float, error: float = 0.0) -> Condition:
        return Condition(name, float(value), self, float(error))


@dataclass(frozen=True)
class Condition:
    """One condition of one layer, or of the examples of one."""

    name: str
    value: float
    rule: Rule
    error: float = 0.0  #: standard error of the value, where it was sampled

    @property
    def threshold(self) -> float | None:
        """What the theorem's learner needs."""
        return self.rule.sculpt

    @property
    def holds(self) -> bool:
        """Whether the theorem's learner can count on it."""
        return self.holds_for("sculpt")

    def holds_for(self, learner: Learner) -> bool:
        """Whether ``learner``, "sculpt" or "exact", can count on it, or does without."""
        threshold = self.threshold_of(learner)
        if threshold is None:
            return True
        # A layer planted at a threshold is on it but for rounding.
        slack = ROUNDING * abs(threshold)
        if self.rule.at_least:
            return self.value >= threshold - slack
        return self.value <= threshold + slack

    def threshold_of(self, learner: Learner) -> float | None:
        if learner not in LEARNERS:
            raise ValueError(f"learner is {learner!r}; expected {' or '.join(map(repr, LEARNERS))}")
        return self.rule.sculpt if learner == "sculpt" else self.rule.exact

    def sentence(self, learner: Learner = "sculpt") -> str:
        """The number, the threshold of a learner, and what fails without it."""
        threshold = self.threshold_of(learner)
        sampled = f" (+- {self.error:.1g})" if self.error else ""
        text = f"{self.rule.what} is {self.value:.3g}{sampled}"
        if threshold is not None:
            bound = "at least" if self.rule.at_least else "at most"
            text += f"; {bound} {threshold:.3g} is needed"
        text += f": {self.rule.purpose}"
        if learner == "exact":  # it has no phases, and its thresholds are from no paper
            return text
        return f"{text} ({self.rule.phase}) [{self.rule.reference}]"

    def to_dict(self) -> dict[str, Any]:
        rule = self.rule
        return {
            "name": self.name,
            "value": self.value,
            "error": self.error,
            "at_least": rule.at_least,
            "threshold": rule.sculpt,
            "holds": self.holds,
            "exact_threshold": rule.exact,
            "exact_holds": self.holds_for("exact"),
            "what": rule.what,
            "purpose": rule.purpose,
            "phase": rule.phase,
            "paper": rule.paper,
            "reference": rule.reference,
        }


@dataclass(frozen=True, repr=False)
class Check(Displayed):
    """All conditions; the theorem's learner needs every one, the exact learner a few."""

    conditions: tuple[Condition, ...]
    subject: str  #: what was checked

    def __repr__(self) -> str:
        return f"Check({self.sentence()})"

    def __getitem__(self, name: str) -> Condition:
        for condition in self.conditions:
            if condition.name == name:
                return condition
        names = ", ".join(condition.name for condition in self.conditions)
        raise ValueError(f"name is {name!r}; expected one of {names}")

    @property
    def holds(self) -> bool:
        """Whether every condition of the theorem's learner holds."""
        return self.holds_for("sculpt")

    def holds_for(self, learner: Learner) -> bool:
        return not self.failing(learner)

    def failing(self, learner: Learner = "sculpt") -> tuple[Condition, ...]:
        """The conditions that do not hold for a learner."""
        return tuple(condition for condition in self.conditions if not condition.holds_for(learner))

    def sentence(self) -> str:
        """What can be expected of either learner, in one line."""
        said = []
        for learner in LEARNERS:
            names = ", ".join(condition.name for condition in self.failing(learner))
            said.append(f"{learner}: {f'do not count on it ({names})' if names else 'all hold'}")
        return f"conditions of {self.subject}; {'; '.join(said)}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "holds": self.holds,
            "exact_holds": self.holds_for("exact"),
            "failing": [condition.name for condition in self.failing()],
            "exact_failing": [condition.name for condition in self.failing("exact")],
            "sentence": self.sentence(),
            "conditions": [condition.to_dict() for condition in self.conditions],
        }
