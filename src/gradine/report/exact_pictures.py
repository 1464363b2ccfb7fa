"""The figures of the exact learner, one function each; all return inline SVG."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gradine.exact.results import Curve, HeadFit
from gradine.report.draw import FOUND, GROUND, OTHER, THIRD, number, panel, scientific
from gradine.status import heads_in_words

__all__ = ["SMALLEST", "curve", "fits", "jacobian", "moments"]

Array = NDArray[np.float64]

SMALLEST = 1e-16  # what is zero is drawn here: a logarithm has no zero
MOST_NAMED = 8  # curves up to which each bears its number of heads


class Counted(Protocol):
    """Singular values that count heads."""

    @property
    def values(self) -> Array: ...
    @property
    def edge(self) -> float: ...
    @property
    def heads(self) -> int: ...


def moments(seen: Counted, name: str = "moments", of: str = "the moments") -> str:
    """Singular values as stems, the noise edge, and the gap after the heads."""
    heights, heads = np.maximum(seen.values, SMALLEST), seen.heads
    places = np.arange(1, len(heights) + 1)
    edge = max(seen.edge, SMALLEST)

    def draw(ax: Any) -> None:
        scientific(ax, [*heights, edge], axis="y")
        _stems(ax, places, heights, places <= heads, ("heads", "no head"))
        ax.axhline(edge, color=THIRD, linestyle="--", linewidth=1.2, label="noise edge")
        if 0 < heads < len(heights):
            top, bottom, x = heights[heads - 1], heights[heads], heads + 0.5
            ax.annotate("", (x, top), (x, bottom), arrowprops={"arrowstyle": "<->", "color": THIRD})
            text = f"gap: {number(float(top / bottom))} times"
            offset = {"xytext": (8, 0), "textcoords": "offset points"}
            ax.annotate(text, (x, top), va="center", color=THIRD, **offset)
        ax.set_xticks(places[:: 1 + len(places) // 14])
        ax.set_xlabel("singular value, largest first")
        ax.set_ylabel("size")
        ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, fontsize=8)

    words = ", ".join(number(float(value)) for value in seen.values)
    label = f"Singular values of {of}, noise edge {number(seen.edge)}: {words}"
    return panel(name, label, draw)


def _stems(
    ax: Any,
    places: NDArray[np.int_],
    heights: Array,
    chosen: NDArray[np.bool_],
    labels: tuple[str, str],
) -> None:
    floor = ax.get_ylim()[0]
    for some, colour, label in ((chosen, FOUND, labels[0]), (~chosen, OTHER, labels[1])):
        if some.any():
            ax.vlines(places[some], floor, heights[some], color=colour, linewidth=2)
            ax.plot(places[some], heights[some], "o", color=colour, markersize=6, label=label)


def fits(found: Mapping[str, HeadFit], answer: HeadFit | None, word: str = "the answer") -> str:
    """Residual of each fit after each evaluation; a dot where a start begins."""
    right = 0 if answer is None else answer.heads
    runs = {name: np.sqrt(np.maximum(fit.misfits, SMALLEST**2)) for name, fit in found.items()}
    named = len(runs) <= MOST_NAMED

    def draw(ax: Any) -> None:
        scientific(
            ax,
            [float(value) for run in runs.values() for value in (run.min(), run.max())],
            axis="y",
        )
        seen: set[str] = set()
        for name in sorted(runs, key=lambda name: found[name].heads == right):  # the answer on top
            fit, run = found[name], runs[name]
            label, colour = _role(fit.heads, right, word)
            # A refinement goes on where the fit with as many heads ended.
            first = len(runs.get(f"fit_{fit.heads}", ())) if name.startswith("refine") else 0
            style = ":" if name.startswith("refine") else "-"
            label = "refined by all examples" if name.startswith("refine") else label
            ends = [*fit.begins[1:], len(run)]
            for begin, end in zip(fit.begins, ends, strict=True):
                steps = np.arange(first + begin + 1, first + end + 1)
                look = {
                    "color": colour,
                    "linewidth": 1.6,
                    "label": None if label in seen else label,
                }
                ax.plot(steps, run[begin:end], style, **look)
                ax.plot(steps[:1], run[begin : begin + 1], "o", color=colour, markersize=5)
                seen.add(label)
            if named and not name.startswith("refine"):
                box = {"facecolor": GROUND, "edgecolor": "none", "pad": 1.0}
                offset = {"xytext": (5, 0), "textcoords": "offset points", "bbox": box}
                at = (first + len(run), run[-1])
                ax.annotate(str(fit.heads), at, va="center", color=colour, fontsize=8, **offset)
        ax.margins(x=0.06)
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_xlabel("evaluation")
        ax.set_ylabel("relative residual")
        ax.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=2, fontsize=8)

    words = "; ".join(
        f"{name.replace('_', ' ')} ends at {number(fit.residual)}" for name, fit in found.items()
    )
    return panel("fit", f"Relative residual against evaluations: {words}", draw, height=3.0)


def _role(heads: int, right: int, word: str) -> tuple[str, str]:
    if heads == right:
        return f"{word}, {heads_in_words(heads)}", FOUND
    return ("fewer heads", OTHER) if heads < right else ("more heads", THIRD)


def curve(measured: Curve) -> str:
    """Validation error against examples over the counting bound."""
    heights = np.maximum(np.nan_to_num(measured.errors, nan=1.0, posinf=1e16), SMALLEST)

    def draw(ax: Any) -> None:
        ax.plot(measured.ratio, heights, "o-", color=FOUND, markersize=6, linewidth=1.6)
        scientific(ax, heights.tolist(), axis="y")
        ax.axvline(1.0, color=THIRD, linestyle="--", linewidth=1.2)
        spot = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        ax.annotate("counting bound", (1.0, 1.0), xytext=(4, 3), color=THIRD, fontsize=8, **spot)
        ax.set_xlim(min(0.8, 0.9 * float(measured.ratio.min())), None)
        ax.set_xlabel("examples over the counting bound")
        ax.set_ylabel("validation error")

    words = ", ".join(
        f"{number(error)} at {number(ratio)}"
        for ratio, error in zip(measured.ratio.tolist(), measured.errors.tolist(), strict=True)
    )
    return panel("curve", f"Validation error by examples over the counting bound: {words}", draw)


def jacobian(values: Array) -> str:
    """Smallest singular values of the Jacobian, relative to the largest."""
    heights, places = np.maximum(values, SMALLEST), np.arange(1, len(values) + 1)

    def draw(ax: Any) -> None:
        scientific(ax, [*heights, 1.0], axis="y")
        _stems(ax, places, heights, places > 0, ("", ""))
        ax.axhline(1.0, color=THIRD, linestyle="--", linewidth=1.2)
        spot = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        ax.annotate("the largest", (1, 1.0), xytext=(0, 3), ha="right", color=THIRD, **spot)
        ax.set_xticks(places)
        ax.set_xlabel("singular value, smallest first")
        ax.set_ylabel("relative to the largest")

    words = ", ".join(number(float(value)) for value in values)
    return panel("determined", f"Smallest singular values of the Jacobian: {words}", draw)
