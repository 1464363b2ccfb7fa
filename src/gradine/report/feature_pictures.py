"""Pictures of experiments with random features: test error against examples, log-log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradine.features.findings import NEAR
from gradine.report.draw import COLUMNS, FOUND, OTHER, THIRD, scientific, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_figures"]

COLOURS = {
    "RFA": FOUND,
    "BRFA": THIRD,
    "RFMLP": OTHER,
    "softmax RFA": "#6d5bd0",
    "learn": "#c2314a",
}
RATIOS = "#3566b8"  # of errors of two models
DRAWN = ("median", "lower_quartile", "upper_quartile")
LEAST = 1e-30  # errors below this are drawn there
TITLES = {
    "powers": "⟨β, xᵢ⟩ᵖ",
    "correlation": "⟨x₀, xᵢ⟩ᵖ ⟨β, xᵢ⟩",
    "gamma": "⟨x₀, (I + \u03b3S) xᵢ⟩ ⟨β, xᵢ⟩",
    "bridge": "one output of a planted softmax layer",
}


def draw_figures(found: dict[str, Any], folder: Path) -> list[Path]:
    """An SVG and a PNG for every figure of the findings."""
    written = []
    for figure, entries in found["figures"].items():
        title = TITLES[figure]
        if figure == "bridge":
            panels = [partial(_bridge, entries["output"], known) for known in (False, True)]
        else:
            panels = _panels(entries, own_legend=figure == "gamma")
            title += f"     B: least norm within a squared error of {NEAR:g}"
        if figure == "gamma":
            panels.insert(-1, partial(_turning, entries))
        written += write_picture(folder / figure, panels, title=title)
    return written


def _panels(entries: dict[str, Any], *, own_legend: bool) -> list[Callable[[Axes], None]]:
    """One for every target, all with the same range of errors; the legend in the last of them, or
    in a panel of its own."""
    lowest = min(
        value
        for entry in entries.values()
        for curve in entry["models"].values()
        for value in curve["lower_quartile"]
    )
    panels: list[Callable[[Axes], None]] = [
        partial(
            _errors,
            entry,
            _title(name, entry),
            lowest=max(lowest, LEAST),
            legend=i == len(entries) - 1 and not own_legend,
            labelled=i % COLUMNS == 0,
        )
        for i, (name, entry) in enumerate(entries.items())
    ]
    if own_legend:
        panels.append(partial(_legend, next(iter(entries.values()))))
    return panels


def _title(name: str, entry: dict[str, Any]) -> str:
    """BRFA's B is a bound, RFA's is exact."""
    target = name.replace("gamma", "\u03b3").replace("=", " = ")
    plain, biased = (_short(entry["complexity"][model]) for model in ("RFA", "BRFA"))
    return f"{target}:  B = {plain} (RFA), \u2264 {biased} (BRFA)"


def _short(B: float) -> str:
    return f"{B:,.0f}" if B >= 100 else f"{B:.2g}"


def _bridge(entry: dict[str, Any], known: bool, ax: Axes) -> None:
    """Random features, or the layer that is learned beside the best of them."""
    models = entry["models"]
    frozen = {model: curve for model, curve in models.items() if model != "learn"}
    if known:
        best = min(frozen, key=lambda model: frozen[model]["median"][-1])
        frozen = {best: frozen[best], "learn": models["learn"]}
    title = "the best of them, and the layer learned" if known else "random features"
    lowest = min(value for curve in frozen.values() for value in curve["lower_quartile"])
    _errors(
        {"models": frozen}, title, ax, lowest=max(lowest, LEAST), legend=True, labelled=not known
    )


def _errors(
    entry: dict[str, Any], title: str, ax: Axes, *, lowest: float, legend: bool, labelled: bool
) -> None:
    """Medians with their quartiles, and the rate that theory has for RFA and BRFA."""
    sizes = _curves(entry, ax)
    scientific(ax, sizes)
    scientific(ax, [lowest, 1.1], "y")
    ax.set_title(title, fontsize=8)
    ax.set_xlabel("examples n")
    if labelled:
        ax.set_ylabel("test error / variance")
    if legend:
        ax.legend(fontsize=7, loc="best")


def _curves(entry: dict[str, Any], ax: Axes) -> Sequence[int]:
    """The numbers of examples that they are drawn at."""
    sizes = next(iter(entry["models"].values()))["n"]
    for model, curve in entry["models"].items():
        lines = [[max(value, LEAST) for value in curve[key]] for key in DRAWN]
        ax.plot(sizes, lines[0], "o-", color=COLOURS[model], label=model, ms=2.5, lw=1.3)
        ax.fill_between(sizes, lines[1], lines[2], color=COLOURS[model], alpha=0.2, lw=0)
    for model, rate in entry.get("predicted", {}).items():
        inside = [pair for pair in zip(sizes, rate, strict=True) if pair[1] < 1.3]
        if inside:
            label = f"rate c\u221a(B/n), {model}"
            ax.plot(*zip(*inside, strict=True), "--", color=COLOURS[model], lw=1.0, label=label)
    return sizes


def _legend(entry: dict[str, Any], ax: Axes) -> None:
    """That of all panels, where there is no other."""
    _curves(entry, ax)
    handles, labels = ax.get_legend_handles_labels()
    ax.clear()
    ax.set_axis_off()
    ax.legend(handles, labels, fontsize=8, loc="center")


def _turning(entries: dict[str, Any], ax: Axes) -> None:
    """How much smaller the error is with the identity mean, by gamma: the median and quartiles of
    ratios in which both have the same seed, and so the same examples."""
    gammas = [float(name.split("=")[1]) for name in entries]
    sizes: Sequence[int] = next(iter(entries.values()))["models"]["RFA"]["n"]
    for i in range(-min(3, len(sizes)), 0):
        style = {"color": RATIOS, "alpha": 1.0 + 0.3 * (i + 1)}
        median, lower, upper = (
            [entry["ratio"][key][i] for entry in entries.values()] for key in DRAWN
        )
        ax.plot(gammas, median, "o-", ms=2.5, label=f"n = {sizes[i]:,}", **style)
        ax.fill_between(gammas, lower, upper, color=RATIOS, alpha=0.15, lw=0)
    ax.axhline(1.0, color=OTHER, lw=0.8)
    ax.set_title("error of RFA / error of BRFA, by seed", fontsize=8)
    ax.set_xlabel("\u03b3")
    ax.grid(True)
    ax.legend(fontsize=7)
