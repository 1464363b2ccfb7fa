"""How asking can end: misuse that no retry mends, and two ways of not learning."""

from __future__ import annotations

from typing import Any

from gradine.status import NotLearned, Status

__all__ = ["BudgetSpent", "MisuseError", "OracleFailed"]


class MisuseError(ValueError):
    """A question that must not be sent, or an answer of another shape: asking again is no help."""


class BudgetSpent(NotLearned):
    """The next questions would be more than the budget allows; none of them was sent."""

    def __init__(self, detail: str, **figures: Any) -> None:
        super().__init__(Status.OUT_OF_QUERIES, detail, **figures)


class OracleFailed(NotLearned):
    """The oracle gave no answer, or none that is finite, however often it was asked."""

    def __init__(self, detail: str, **figures: Any) -> None:
        super().__init__(Status.ORACLE_FAILED, detail, **figures)
