"""Progress below the cell of a notebook: lines for the phases, and a bar, rewritten in place.

It needs no JavaScript and no widgets: a display that has a name is updated (`IPython.display`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from html import escape
from typing import Any

from gradine.checks import in_short
from gradine.progress.listener import Listener
from gradine.progress.words import Pace, pace_line, phase_line

__all__ = ["NotebookDisplay", "chosen_listener", "in_notebook"]

REDRAW = 0.25  # seconds between two drawings: each is a message to the browser
# Colours are those of the notebook, light or dark.
PAGE = '<div style="line-height:1.35;font-size:90%">{}</div>'
PLAIN = "margin:0;background:none;color:inherit;white-space:pre;font-family:monospace"
LINES = f'<pre style="{PLAIN}">{{}}</pre>'
NOW = (
    f'<div><code style="{PLAIN}">{{}}</code> '
    '<progress{} style="vertical-align:middle"></progress> {}</div>'
)


def in_notebook() -> bool:
    """Whether what is displayed here goes to a notebook: this process is a Jupyter kernel.

    >>> in_notebook()
    False
    """
    if "ipykernel" not in sys.modules:  # also spares all others the import
        return False
    from IPython.core.getipython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None


def chosen_listener(listener: Listener | None) -> Listener:
    """The listener that was given; else the display of a notebook, or one that shows nothing.

    >>> type(chosen_listener(None)).__name__
    'Listener'
    """
    if listener is not None:
        if not isinstance(listener, Listener):
            raise ValueError(
                f"listener is {in_short(listener)}; expected a gradine.progress.Listener, "
                "such as PhaseDisplay()"
            )
        return listener
    return NotebookDisplay() if in_notebook() else Listener()


class NotebookDisplay(Listener):
    """Shows the phases of one run; the words are those of a terminal."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._handle: Any = None
        self._drawn = 0.0
        self._begin("", 0)

    def _begin(self, name: str, total: int) -> None:
        self._name, self._total, self._began = name, total, time.perf_counter()
        self._pace, self._kept = Pace(), None
        self._seen, self._told = 0, ""

    def phase_started(self, name: str, total: int) -> None:
        self._begin(name, total)
        self._draw()

    def examples_seen(self, seen: int) -> None:
        rate = self._pace.rate(seen)
        self._seen = seen
        known = self._total
        self._told = pace_line(seen, known, rate, self._kept) if known else f"{seen:,}"
        self._draw()

    def hits_kept(self, kept: int) -> None:
        self._kept = kept

    def fit_went_on(self, residual: float, theta: Callable[[], Any]) -> None:
        self._told = f"residual {residual:.1e}"
        self._draw()

    def phase_ended(self, name: str, figures: dict[str, Any], recalled: bool) -> None:
        self._lines.append(phase_line(name, figures, recalled, time.perf_counter() - self._began))
        self._begin("", 0)
        self._draw(at_once=True)

    def _draw(self, at_once: bool = False) -> None:
        now = time.perf_counter()
        if not at_once and now - self._drawn < REDRAW:
            return
        self._drawn = now
        from IPython.display import display

        bundle = {"text/plain": "\n".join(self._lines), "text/html": self.html()}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def html(self) -> str:
        """What the notebook shows now."""
        parts = [LINES.format(escape("\n".join(self._lines)))] if self._lines else []
        if self._name:
            # No place on the bar until examples are seen: some phases never pass over them.
            known = self._total and self._seen
            place = f' value="{self._seen}" max="{self._total}"' if known else ""
            parts.append(NOW.format(f"{escape(self._name):<16s}", place, escape(self._told)))
        return PAGE.format("".join(parts))
