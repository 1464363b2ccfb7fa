"""The figures of the phases, one function each; all return inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine.certificate import Certificate
from gradine.report.draw import (
    FOUND,
    GROUND,
    OTHER,
    THIRD,
    number,
    panel,
    powers_of_ten,
    scientific,
)
from gradine.report.story import Estimate

__all__ = ["carving", "certificate", "chords", "estimates", "losses", "spectrum"]

Array = NDArray[np.float64]

SMALLEST = 1e-16  # errors that are zero are drawn here: a logarithm has no zero


def estimates(items: Sequence[Estimate], reference: str) -> str:
    """Errors of the estimates of the sum, from top to bottom in the order they were made."""

    distances = [(y, item.distance) for y, item in enumerate(items) if item.distance is not None]
    residuals = [(y, item.residual) for y, item in enumerate(items) if item.residual is not None]

    def draw(ax: Any) -> None:
        dot = {"color": FOUND, "markersize": 7, "label": reference}
        ring = {"color": THIRD, "markersize": 10, "label": "residual of its own fit"}
        for points, look in ((distances, dot), (residuals, ring | {"markerfacecolor": "none"})):
            if points:
                xs = [max(value, SMALLEST) for _, value in points]
                ax.plot(xs, [y for y, _ in points], "o", **look)
        for y, value in distances or residuals:
            right = max(value, items[y].residual or 0.0, SMALLEST)  # clear of both marks
            offset = {"xytext": (10, 0), "textcoords": "offset points"}
            ax.annotate(number(value), (right, y), va="center", **offset)
        scientific(ax, [max(value, SMALLEST) for _, value in distances + residuals], most=4)
        low, high = ax.get_xlim()
        ax.set_xlim(low, high * (high / low) ** 0.25)  # ticks stay; the numbers need room
        ax.set_yticks(range(len(items)), [item.name for item in items])
        ax.set_ylim(len(items) - 0.4, -0.6)
        ax.set_xlabel("relative error (smaller is better)")
        ax.legend(loc="lower center", bbox_to_anchor=(0.3, 1.0), ncols=2, fontsize=8)

    words = ", ".join(f"{item.name} {number(item.distance)}" for item in items)
    height = 1.0 + 0.3 * len(items)
    return panel("sum", f"Error of each estimate of the sum: {words}", draw, height=height)


def carving(rounds: Sequence[tuple[str, Array]]) -> str:
    """Half-widths of the slabs, one histogram a round on a common axis."""
    widths = [np.maximum(values, SMALLEST) for _, values in rounds]
    low, high = min(map(np.min, widths)), max(map(np.max, widths))
    low, high = (low / 2, high * 2) if high < 2 * low else (low, high)

    def draw(axes: Any) -> None:
        axes = np.atleast_1d(axes)
        bins = np.geomspace(low, high, 49)
        for ax, (label, _), values in zip(axes, rounds, widths, strict=True):
            ax.hist(values, bins=bins, color=FOUND, alpha=0.75)
            middle = float(np.median(values))
            ax.axvline(middle, color=THIRD, linewidth=1.4)
            ax.annotate(
                f"median {number(middle)}",
                (middle, 1.0),
                xycoords=("data", "axes fraction"),
                ha="center",
                va="bottom",
                fontsize=8,
            )
            scientific(ax, [low, high])
            ax.set_yticks([])
            ax.spines["left"].set_visible(False)
            ax.set_ylabel(label, rotation=0, ha="right", va="center")
        axes[-1].set_xlabel("half-width of a slab, in units of a logit")

    words = "; ".join(f"{label} {number(float(np.median(values)))}" for label, values in rounds)
    height = 0.7 + 0.8 * len(rounds)
    label = f"Half-widths of the slabs, medians: {words}"
    return panel("body", label, draw, height=height, rows=len(rounds))


def spectrum(values: Array, hull: int) -> str:
    """Smallest singular values of the slabs as stems; the ``hull`` first are the heads' own."""
    heights = np.maximum(values, SMALLEST)
    places = np.arange(1, len(heights) + 1)

    def draw(ax: Any) -> None:
        scientific(ax, [*heights, 1.0], axis="y")
        floor = ax.get_ylim()[0]
        for chosen, colour, label in (
            (places <= hull, FOUND, "in the hull"),
            (places > hull, OTHER, "outside" if hull else "smallest first"),
        ):
            if not chosen.any():
                continue
            ax.vlines(places[chosen], floor, heights[chosen], color=colour, linewidth=2)
            ax.plot(places[chosen], heights[chosen], "o", color=colour, markersize=6, label=label)
        if 0 < hull < len(heights):
            bottom, top = heights[hull - 1], heights[hull]
            x = hull + 0.5
            ax.annotate("", (x, top), (x, bottom), arrowprops={"arrowstyle": "<->", "color": THIRD})
            middle = float(np.sqrt(top * bottom))
            text = f"gap: {number(float(top / bottom))} times"
            # Stems outside the hull all reach above the middle: a ground keeps the words apart.
            box = {"facecolor": GROUND, "edgecolor": "none", "pad": 2.0}
            offset = {"xytext": (6, 0), "textcoords": "offset points"}
            ax.annotate(text, (x, middle), va="center", color=THIRD, bbox=box, **offset)
        ax.set_xticks(places[:: 1 + len(places) // 14])
        ax.set_xlabel("singular value, smallest first")
        ax.set_ylabel("relative to the bulk")
        ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, fontsize=8)

    words = ", ".join(number(float(value)) for value in values)
    return panel("spectrum", f"Smallest singular values, {hull} in the hull: {words}", draw)


def chords(lengths: Array) -> str:
    """Longest chords of the body; the last one is outside the hull."""
    places = np.arange(1, len(lengths) + 1)
    colours = [FOUND] * (len(lengths) - 1) + [OTHER]

    def draw(ax: Any) -> None:
        ax.bar(places, lengths, color=colours, width=0.6)
        for x in places if len(places) <= 9 else (1, len(places) - 1, len(places)):
            height = float(lengths[x - 1])
            offset = {"xytext": (0, 2), "textcoords": "offset points"}
            ax.annotate(number(height), (x, height), ha="center", fontsize=8, **offset)
        ax.set_xticks(places[: -1 if len(places) <= 9 else -2 : 1 + len(places) // 10])
        ax.set_xticks([len(places)], ["outside"], minor=True)
        ax.tick_params(axis="x", which="both", length=3)
        room = 0.8 if len(lengths) > 2 else 1.3  # few bars need not be broad
        ax.set_xlim(1 - room, len(lengths) + room)
        ax.set_xlabel("longest chords, each orthogonal to those before")
        ax.set_ylabel("length")
        ax.margins(y=0.1)
        ax.grid(axis="y")

    words = ", ".join(number(float(value)) for value in lengths)
    return panel("chords", f"Chord lengths, the last outside the hull: {words}", draw)


def losses(values: Array, theorem: float | None) -> str:
    """Error of the polish, step by step, against what the theorem's own answer reached."""
    heights = np.maximum(values, SMALLEST)

    def draw(ax: Any) -> None:
        ax.plot(range(len(heights)), heights, "o-", color=FOUND, markersize=4, linewidth=1.4)
        drawn = [*heights]
        if theorem is not None:
            drawn.append(max(theorem, SMALLEST))
            ax.axhline(drawn[-1], color=THIRD, linestyle="--", linewidth=1.2)
            text = f"phase 6 alone: {number(theorem)}"
            spot = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
            ax.annotate(text, (1, drawn[-1]), xytext=(0, 3), ha="right", color=THIRD, **spot)
        scientific(ax, drawn, axis="y")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_xlabel("step of the polish")
        ax.set_ylabel("relative error")

    label = f"Error of the polish from {number(float(values[0]))} to {number(float(values[-1]))}"
    return panel("polish", f"{label} in {len(values) - 1} steps", draw)


def certificate(proven: Certificate) -> str:
    """Share of inputs that may err by more than eps, as the step curve that was proven."""

    def draw(ax: Any) -> None:
        scientific(ax, proven.eps)
        scientific(ax, [*proven.p, 1.0], axis="y")
        # Left of the grid nothing was proven, and a share is never above 1.
        eps, p = np.array([ax.get_xlim()[0], *proven.eps]), np.array([1.0, *proven.p])
        # Between two points of the grid the bound of the lower one holds.
        ax.step(eps, p, where="post", color=FOUND, linewidth=2)
        ax.fill_between(eps, p, ax.get_ylim()[0], step="post", color=FOUND, alpha=0.15)
        at = proven.eps_at(min(p))
        if at in proven.eps:
            ax.plot([at], [min(p)], "o", color=THIRD, markersize=7)
            text = powers_of_ten(f"{min(p):.2%} above {at:g}")
            offset = {"xytext": (6, 8), "textcoords": "offset points"}
            ax.annotate(text, (at, min(p)), color=THIRD, **offset)
        ax.set_xlabel("relative error eps")
        ax.set_ylabel("at most this share errs more")

    return panel("certificate", powers_of_ten(f"Certificate: {proven.sentence()}"), draw)
