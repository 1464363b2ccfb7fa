"""Figures as text: a table in markdown, numbers short enough to be read in it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

__all__ = ["markdown", "median", "seconds", "short"]


def markdown(header: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    header = list(header)
    rows = [header, ["---"] * len(header), *(list(line) for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def median(values: Iterable[float]) -> float | None:
    listed = list(values)
    return statistics.median(listed) if listed else None


def short(value: float | None) -> str:
    """Two digits, without the exponents that `g` likes for large numbers."""
    if value is None:
        return "none"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2g}"


def seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}"
