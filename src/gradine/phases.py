"""Phases of a run: each is run once, told of, and kept on disk or read back from there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from gradine.engine import Bookmarks
from gradine.files import OutputError
from gradine.fit import figures_of
from gradine.progress import Listener
from gradine.records import check_record, load_record, save_record

__all__ = ["RECORDS", "RECORD_PATTERN", "Phases"]

Result = TypeVar("Result")

RECORDS = "phases"
RECORD_PATTERN = "[0-9][0-9]_*.safetensors"  # phase records, and nothing that others put there


class Phases:
    """Results of the phases of one run by name, in the order they ran.

    With ``records`` they are kept in that folder; with ``resume``, those that are there already
    are read back, if they belong to the run that ``key`` is the fingerprint of. ``total`` is what
    the listener hears of how much there is to see. ``bookmarks`` keep passes within a phase.
    """

    def __init__(
        self,
        listener: Listener,
        total: int,
        *,
        records: str | os.PathLike[str] | None = None,
        resume: bool = False,
        key: str = "",
        bookmarks: Bookmarks | None = None,
    ) -> None:
        self.results: dict[str, Any] = {}
        self.recalled_seconds = 0.0  #: that phases took in the run that is resumed
        self._listener = listener
        self._total = total
        self._folder = None if records is None else _made(Path(records) / RECORDS)
        self._resume = resume
        self._key = key
        self._bookmarks = bookmarks
        if bookmarks is not None:
            bookmarks.begin("00_survey_after", key)
        if self._folder is not None and resume:
            # All of them, as this run may come to other phases than that one.
            for path in sorted(self._folder.glob(RECORD_PATTERN)):
                check_record(path, key)

    def run(self, name: str, kind: type[Result], work: Callable[[], Result]) -> Result:
        """Run a phase, tell the listener, and keep its result."""
        path = self._path(name)
        self._listener.phase_started(name, self._total)
        recalled = self._resume and path is not None and path.exists()
        if recalled:
            assert path is not None
            result = load_record(path, kind, self._key)
            self.recalled_seconds += result.seconds  # pyright: ignore[reportAttributeAccessIssue]
        else:
            chapter = f"{len(self.results) + 1:02d}_{name}"
            if self._bookmarks is not None:
                self._bookmarks.begin(chapter, self._key)
            result = work()
            if path is not None:
                save_record(path, result, self._key)
            if self._bookmarks is not None:
                self._bookmarks.forget(chapter)
        self.results[name] = result
        if self._bookmarks is not None:  # what comes before the next phase
            self._bookmarks.begin(f"{len(self.results):02d}_{name}_after", self._key)
        self._listener.phase_ended(name, figures_of(result), recalled)
        return result

    def _path(self, name: str) -> Path | None:
        if self._folder is None:
            return None
        return self._folder / f"{len(self.results) + 1:02d}_{name}.safetensors"


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from error
    return folder
