"""How a run is shown to people while it goes on: a line for each phase, a bar on a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from gradine.progress.listener import Listener
from gradine.progress.words import Pace, pace_line, phase_line

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["PhaseDisplay", "tell", "terminal_bar"]

PAUSE = 30.0  # seconds between lines on a long pass, where they are not on a terminal


def tell(text: str) -> None:
    """One line for people about the work under way, which goes on if nobody can read it."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:  # a full disk, or a pager that was closed
        _hush()


def _hush() -> None:
    """Standard error leads nowhere from now on: Python would complain of what is left, at the end,
    with an exit code of its own."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stderr.fileno())
        os.close(nowhere)


def terminal_bar(name: str, total: float | None = None) -> Progress | None:
    """A bar with one task on standard error, yet to be started; None where that is no terminal."""
    if not sys.stderr.isatty():
        return None
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[pace]}"),
        console=Console(stderr=True),
        transient=True,
    )
    bar.add_task(name, total=total, pace="")
    return bar


class PhaseDisplay(Listener):
    """Shows phases on standard error; plain lines where that is no terminal."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._name, self._total = "", 0
        self._began = 0.0
        self._held_back: list[str] = []
        self._pace, self._kept, self._told = Pace(), None, time.perf_counter()

    def __enter__(self) -> PhaseDisplay:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove_bar()

    def phase_started(self, name: str, total: int) -> None:
        self._began = self._told = time.perf_counter()
        self._pace, self._kept, self._name, self._total = Pace(), None, name, total
        # No total until examples are seen: some phases never pass over them, and a bar that
        # stays at zero would look stuck.
        self._bar = terminal_bar(f"{name:<16s}")
        if self._bar is not None:
            self._bar.start()

    def examples_seen(self, seen: int) -> None:
        rate, now = self._pace.rate(seen), time.perf_counter()
        known = self._total  # or nobody knows how many there will be
        text = pace_line(seen, known, rate, self._kept) if known else f"{seen:,}"
        if self._bar is not None:
            self._bar.update(
                self._bar.task_ids[0], completed=seen, total=self._total or None, pace=text
            )
        elif now - self._told > PAUSE:
            self._told = now
            tell(f"{self._name or 'questions':<16s} {text}")

    def hits_kept(self, kept: int) -> None:
        self._kept = kept

    def fit_went_on(self, residual: float, theta: Callable[[], Any]) -> None:
        if self._bar is not None:
            task = self._bar.tasks[0]
            name = task.description.split()[0]
            self._bar.update(task.id, description=f"{name:<16s} residual {residual:.1e}")

    def phase_ended(self, name: str, figures: dict[str, Any], recalled: bool) -> None:
        self._remove_bar()
        line = phase_line(name, figures, recalled, time.perf_counter() - self._began)
        self._held_back.append(line)
        # The examples can still be refused after the survey, and a refusal is one line only.
        if name != "survey":
            for held in self._held_back:
                tell(held)
            self._held_back.clear()

    def _remove_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
