"""Settings of an oracle, with the reason for each default."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gradine.checks import whole_number
from gradine.queries.asking.sources import Form

__all__ = ["OracleConfig"]


@dataclass(frozen=True)
class OracleConfig:
    """How an oracle is asked; every field has a default that suits a function in memory.

    >>> OracleConfig(one_at_a_time=True).form().one_at_a_time
    True
    """

    #: Sequences that may be sent, those sent again after a failure too; None: any number.
    max_queries: int | None = None
    #: Sequences in one call; fewer where the tokens of so many would take more than 64 MiB.
    batch_size: int = 1024
    #: Calls in a row without a single new answer, after the first such one, before giving up.
    retries: int = 3
    #: Seconds before the first of them; each of the others waits twice as long, up to the longest.
    wait: float = 1.0
    longest_wait: float = 60.0
    #: For callables: whether one takes a single sequence (k, d), and the float type of the torch
    #: tensors it takes; None: numpy arrays.
    one_at_a_time: bool = False
    tensors: str | None = None
    #: What messages and the log call the oracle; None: the name of its function, or its file.
    #: A log knows a callable by this alone.
    name: str | None = None

    def __post_init__(self) -> None:
        for field, least in (("max_queries", 0), ("batch_size", 1), ("retries", 0)):
            value = getattr(self, field)
            if value is not None or field != "max_queries":
                object.__setattr__(self, field, whole_number(field, value, least))
        for field in ("wait", "longest_wait"):
            value = getattr(self, field)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{field} is {value}; expected a finite number of seconds")
        self.form()

    def form(self) -> Form:
        """How a callable wants its tokens."""
        return Form(self.one_at_a_time, self.tensors)
