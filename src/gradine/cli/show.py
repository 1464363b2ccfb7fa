"""How a run is shown to people while it goes on: a line for each phase, a bar on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from gradine.cli.console import tell
from gradine.progress import Listener

__all__ = ["PhaseDisplay", "duration", "pace_line", "phase_line"]

#: The most telling figures of each phase, by the start of its name.
TELLING = {
    "survey": ("inputs", "examples"),
    "crude_sum": ("energy",),
    "sculpt": ("rows", "slabs", "residual", "feasible_slack", "dropped"),
    "proxy": ("residual", "rows"),
    "span": ("heads", "gap", "chord_agreement"),
    "search": ("tuples", "validation_error"),
    "polish": ("losses", "validation_error", "skipped"),
    "spectrum": ("heads", "confidence", "reason"),
    "mixing": ("residual",),
    "fit_": ("heads", "residual", "validation_error"),
    "ripe_": ("heads", "residual", "validation_error"),
    "needed_": ("heads", "residual", "validation_error"),
    "refine": ("residual", "validation_error", "examples"),
    "identify": ("noise", "condition"),
    "curve": ("examples", "errors"),
    "scout": ("heads", "logit", "rows"),
    "verify": ("queries", "error"),
}
PAUSE = 30.0  # seconds between lines on a long pass, where they are not on a terminal
#: Figures that are lists, step by step: the last one is what was reached.
STEPS = {"losses": "loss", "errors": "held-out error", "examples": "examples"}


def phase_line(name: str, figures: dict[str, Any], recalled: bool, seconds: float) -> str:
    """What a phase came to, in one line.

    >>> phase_line("proxy", {"rows": 13, "residual": 4.8652e-05}, False, 0.0919)
    'proxy            residual 4.9e-05, rows 13  (0.1 s)'
    """
    keys = next((keys for start, keys in TELLING.items() if name.startswith(start)), ())
    if figures.get("reason"):  # there is nothing but why there is nothing
        keys = ("reason",)
    told = ", ".join(_figure(key, figures[key]) for key in keys if _worth_telling(figures.get(key)))
    ending = "recalled from the earlier run" if recalled else f"{seconds:.1f} s"
    return f"{name:<16s} {told}  ({ending})"


def _worth_telling(value: Any) -> bool:
    return value is not None and value != "" and value != []


def _figure(key: str, value: Any) -> str:
    if key == "reason":
        return f"no count: {value}"
    if isinstance(value, list):
        key, value = STEPS[key], value[-1]
        value = int(value) if key == "examples" else value
    text = f"{value:.2g}" if isinstance(value, float) else str(value)
    return f"{key.replace('_', ' ')} {text}"


def pace_line(seen: int, total: int, rate: float, kept: int | None = None) -> str:
    """How far a pass has come; ``rate`` is that of the examples a second.

    >>> pace_line(12_000_000, 100_000_000, 250_000.0, 1152)
    '12,000,000 of 100,000,000 examples, 250,000 a second, 1,152 kept, about 6 min left'
    """
    parts = [f"{seen:,} of {total:,} examples"]
    if rate > 0.0:
        parts.append(f"{rate:,.0f} a second")
    if kept is not None:
        parts.append(f"{kept:,} kept")
    if rate > 0.0:
        parts.append(f"about {duration((total - seen) / rate)} left")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(40.2), duration(400.0), duration(40_000.0)
    ('40 s', '7 min', '11 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.0f} h"


class _Pace:
    """How fast a pass goes, from its first block on: one that is resumed begins midway."""

    def __init__(self) -> None:
        self._seen, self._first, self._began = 0, 0, 0.0

    def rate(self, seen: int) -> float:
        """Examples a second, now that so many have been seen; 0 at the first block."""
        now = time.perf_counter()
        if seen <= self._seen or not self._began:  # another pass
            self._first, self._began = seen, now
        self._seen = seen
        return (seen - self._first) / max(now - self._began, 1e-9)


class PhaseDisplay(Listener):
    """Shows phases on standard error; plain lines where that is no terminal."""

    def __init__(self) -> None:
        self._console = Console(stderr=True) if sys.stderr.isatty() else None
        self._bar: Progress | None = None
        self._name, self._total = "", 0
        self._began = 0.0
        self._held_back: list[str] = []
        self._pace, self._kept, self._told = _Pace(), None, time.perf_counter()

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
        self._pace, self._kept, self._name, self._total = _Pace(), None, name, total
        if self._console is None:
            return
        self._bar = Progress(
            TextColumn("{task.description:<16s}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[pace]}"),
            console=self._console,
            transient=True,
        )
        # No total until examples are seen: some phases never pass over them, and a bar that
        # stays at zero would look stuck.
        self._bar.add_task(name, total=None, pace="")
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
