"""One batch of questions on its way: which answers have come, and what they cost."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradine.queries.asking.errors import MisuseError
from gradine.queries.asking.log import LoggedAnswers
from gradine.records import fingerprint

__all__ = ["Batch"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


class Batch:
    """Questions (n, k, d), and the answers to those of them that have one."""

    def __init__(self, X: Array, begun: LoggedAnswers | None = None) -> None:
        self.X = X
        self.logged = begun is not None  #: whether the log holds a part of it, or all
        self.unsaved = False  #: whether it has answers that the log does not hold
        self._Y: Array | None = None
        self._answered = np.zeros(len(X), dtype=bool)
        self.sent = self.failures = 0
        self.seconds = 0.0
        if begun is not None:
            self._Y, self._answered = begun.Y, begun.answered
            self.sent, self.failures, self.seconds = begun.sent, begun.failures, begun.seconds

    @property
    def answers(self) -> Array:
        """(n, rows, d_out), once every question is answered."""
        if self._Y is None or not self._answered.all():
            raise ValueError("questions of the batch have no answer yet")
        return self._Y

    @property
    def out_dim(self) -> int | None:
        return None if self._Y is None else self._Y.shape[2]

    def missing(self) -> Indices:
        """Which questions have no answer."""
        return np.flatnonzero(~self._answered)

    def take(self, which: Indices, Y: Array, out_dim: int | None, name: str) -> int:
        """Answers to the questions ``which``: keep those that are finite, and say how many."""
        known = out_dim if self.out_dim is None else self.out_dim
        if known is not None and Y.shape[2] != known:
            raise MisuseError(
                f"{name}: answer has {Y.shape[2]} coordinates; expected {known}, as before"
            )
        finite = np.isfinite(Y).all(axis=(1, 2))
        if not finite.any():
            return 0
        if self._Y is None:
            self._Y = np.zeros((len(self.X), *Y.shape[1:]))
        self._Y[which[finite]] = Y[finite]
        self._answered[which[finite]] = True
        self.unsaved = True
        return int(finite.sum())

    def to_log(self) -> LoggedAnswers:
        """What goes to the log: as many answers as there are."""
        if self._Y is None:
            raise ValueError("the batch has no answer that could be logged")
        return LoggedAnswers(
            questions=fingerprint(self.X),
            Y=self._Y,
            answered=self._answered,
            sent=self.sent,
            failures=self.failures,
            seconds=self.seconds,
        )
