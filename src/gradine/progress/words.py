"""What is said of a phase: what it came to, and how far it is."""

from __future__ import annotations

import time
from typing import Any

__all__ = ["Pace", "duration", "pace_line", "phase_line"]

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
STEPS = {"losses": "loss", "errors": "validation error", "examples": "examples"}


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


class Pace:
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
