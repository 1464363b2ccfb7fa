"""Settings of an oracle, with the reason for each default."""

from __future__ import annotations

from dataclasses import dataclass

from gradine.queries.asking.sources import Form
from gradine.settings import Count, Settings, Size, Whole

__all__ = ["OracleConfig"]


@dataclass(frozen=True)
class OracleConfig(Settings):
    """How an oracle is asked; every field has a default that suits a function in memory.

    >>> OracleConfig(one_at_a_time=True).form().one_at_a_time
    True
    """

    #: Sequences that may be sent, those sent again after a failure too; None: any number.
    max_queries: Whole | None = None
    #: Sequences in one call; fewer where the tokens of so many would take more than 64 MiB.
    batch_size: Count = 1024
    #: Calls in a row without a single new answer, after the first such one, before giving up.
    retries: Whole = 3
    #: Seconds before the first of them; each of the others waits twice as long, up to the longest.
    wait: Size = 1.0
    longest_wait: Size = 60.0
    #: For callables: whether one takes a single sequence (k, d), and the float type of the torch
    #: tensors it takes; None: numpy arrays.
    one_at_a_time: bool = False
    tensors: str | None = None
    #: What messages and the log call the oracle; None: the name of its function, or its file.
    #: A log knows a callable by this alone.
    name: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.form()

    def form(self) -> Form:
        """How a callable wants its tokens."""
        return Form(self.one_at_a_time, self.tensors)
