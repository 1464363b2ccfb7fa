"""How a run is shown to people while it goes on: a line for each phase, a bar on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gradine.cli.console import tell
from gradine.progress import Listener

__all__ = ["PhaseDisplay", "phase_line"]

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


class PhaseDisplay(Listener):
    """Shows phases on standard error; a plain line each where that is no terminal."""

    def __init__(self) -> None:
        self._console = Console(stderr=True) if sys.stderr.isatty() else None
        self._bar: Progress | None = None
        self._total = 0
        self._began = 0.0
        self._held_back: list[str] = []

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
        self._began = time.perf_counter()
        if self._console is None:
            return
        self._bar = Progress(
            TextColumn("{task.description:<16s}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        # No total until examples are seen: some phases never pass over them, and a bar that
        # stays at zero would look stuck.
        self._bar.add_task(name, total=None)
        self._total = total
        self._bar.start()

    def examples_seen(self, seen: int) -> None:
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=seen, total=self._total or None)

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
