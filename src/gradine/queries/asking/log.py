"""Answers on disk as they arrive, so that a run that was stopped does not ask again.

A log is a folder with one file a batch, numbered in the order of asking; each holds the answers, a
digest of the questions, and what they cost. A run that resumes asks the same questions in the same
order, and is answered from the log for as long as that goes; a question that is not the logged one
shows that the log belongs to another run. Files appear whole or not at all, so that a log can be
read whenever its run was ended, and only one of them is in memory at a time.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine.files import OutputError
from gradine.records import RecordError, check_record, fingerprint, load_record, save_record

__all__ = ["AnswerLog", "LoggedAnswers"]

Array = NDArray[np.float64]

NAME = re.compile(r"(\d{6,})\.safetensors")
TEMPORARY = re.compile(r"\.\d{6,}\.[0-9a-f]{12}\.safetensors")  # left where a write was cut short


@dataclass(frozen=True, eq=False)
class LoggedAnswers:
    """The answers to one batch of questions, and what they cost."""

    questions: str  #: digest of the (n, k, d) tokens
    Y: Array  #: (n, rows, d_out)
    answered: NDArray[np.bool_]  #: (n,): which of them have come; a failure leaves gaps
    sent: int  #: sequences sent, those sent again after a failure too
    failures: int
    seconds: float

    def sound(self) -> bool:
        """Whether this can be what was written: files may have been touched since."""
        Y, answered = self.Y, self.answered
        shapes = Y.ndim == 3 and Y.size > 0 and answered.shape == Y.shape[:1]
        kinds = Y.dtype == np.float64 and answered.dtype == np.bool_
        return shapes and kinds and bool(np.isfinite(Y).all())


class AnswerLog:
    """The answers of one run in a folder, which need not be there yet.

    With ``resume`` the answers that it holds are read back; without, a folder with answers is
    refused. ``run`` is anything that JSON can hold, such as the settings of the learner: a log
    that was begun with another is refused.

    >>> import tempfile
    >>> folder, tokens = tempfile.TemporaryDirectory(), np.ones((5, 2, 4))
    >>> log = AnswerLog(folder.name)
    >>> log.begin("my oracle")
    >>> every = np.ones(5, dtype=bool)
    >>> log.keep(LoggedAnswers(fingerprint(tokens), tokens, every, 5, 0, seconds=0.1))
    >>> resumed = AnswerLog(folder.name, resume=True)
    >>> resumed.begin("my oracle")
    >>> resumed.recall(tokens).sent, AnswerLog.held(folder.name)
    (5, 1)
    >>> AnswerLog.clear(folder.name)
    >>> AnswerLog.held(folder.name)
    0
    >>> folder.cleanup()
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, resume: bool = False, run: Any = None
    ) -> None:
        self._folder = Path(folder)
        self._run = run
        self._key: str | None = None
        self._at = 0  # batches that were read or written
        self._held = 0  # batches on disk
        if self._folder.exists() and not self._folder.is_dir():
            raise ValueError(f"{folder}: not a folder; expected one for the answers")
        names = _batches(self._folder)
        if names and not resume:
            raise ValueError(
                f"{folder}: holds the answers of an earlier run; resume it, or clear them"
            )
        for number, name in enumerate(names, start=1):
            if int(name.removesuffix(".safetensors")) != number:
                raise RecordError(f"{self._path(number)}: is missing, though later ones are there")
        self._held = len(names)

    @staticmethod
    def held(folder: str | os.PathLike[str]) -> int:
        """Batches of answers in a folder."""
        return len(_batches(Path(folder)))

    @staticmethod
    def clear(folder: str | os.PathLike[str]) -> None:
        """Remove the answers in a folder, and nothing else that is in it."""
        target = Path(folder)
        cut_short = [path.name for path in target.glob(".*") if TEMPORARY.fullmatch(path.name)]
        # The last one first: what is left of a log if this is cut short is one that can be read.
        for name in [*reversed(_batches(target)), *cut_short]:
            (target / name).unlink(missing_ok=True)

    def begin(self, oracle: str) -> None:
        """Say whose answers these are; `RecordError` if those on disk are of another oracle."""
        if self._key is not None:
            raise ValueError("the log is in use by another oracle; expected one log an oracle")
        self._key = fingerprint(["answers", 1, oracle, self._run])
        for number in range(1, self._held + 1):
            check_record(self._path(number), self._key)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot write {self._folder}: {error.strerror or error}") from error

    def recall(
        self, X: Array, rows: int | None = None, out_dim: int | None = None
    ) -> LoggedAnswers | None:
        """The next batch of the log, if it holds one more; X begins with the questions of it.

        ``rows`` and ``out_dim`` are the shape that an answer must have, where it is known.
        """
        if self._at == self._held:
            return None
        path = self._path(self._at + 1)
        answers = load_record(path, LoggedAnswers, self._begun())
        if not answers.sound():
            raise RecordError(f"{path}: damaged (its arrays do not fit together)")
        n, found_rows, found_dim = answers.Y.shape
        if n > len(X) or fingerprint(X[:n]) != answers.questions:
            raise RecordError(
                f"{path}: answers other questions than this run asks; it belongs to another run"
            )
        if rows not in (None, found_rows) or out_dim not in (None, found_dim):
            raise RecordError(f"{path}: damaged (its answers have another shape than those before)")
        self._at += 1
        return answers

    def keep(self, answers: LoggedAnswers, again: bool = False) -> None:
        """Write the answers to the next batch, or ``again`` those to the one before it."""
        number = self._at if again else self._at + 1
        save_record(self._path(number), answers, self._begun())
        self._at, self._held = number, max(self._held, number)

    def _begun(self) -> str:
        if self._key is None:
            raise ValueError("the log was not begun; expected an oracle that uses it")
        return self._key

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:06d}.safetensors"


def _batches(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    names = [path.name for path in folder.iterdir() if NAME.fullmatch(path.name)]
    return sorted(names, key=lambda name: int(name.removesuffix(".safetensors")))
