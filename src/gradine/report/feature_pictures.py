"""Pictures of experiments with random features: test error against examples, log-log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradine.report.draw import FOUND, OTHER, THIRD, scientific, write_picture

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
LEAST = 1e-30  # errors below this are drawn there
TITLES = {
    "powers": "⟨β, xᵢ⟩^p",
    "correlation": "⟨x₀, xᵢ⟩^p ⟨β, xᵢ⟩",
    "gamma": "⟨x₀, (I + \u03b3S) xᵢ⟩ ⟨β, xᵢ⟩",
    "bridge": "one output of a planted softmax layer",
}


def draw_figures(found: dict[str, Any], folder: Path) -> list[Path]:
    """An SVG and a PNG for every figure of the findings."""
    written = []
    for figure, entries in found["figures"].items():
        panels: list[Callable[[Axes], None]] = []
        if figure == "bridge":
            panels = [partial(_bridge, entries["output"], known) for known in (False, True)]
        else:
            for i, (name, entry) in enumerate(entries.items()):
                panels.append(partial(_errors, entry, _title(name, entry), first=i == 0))
        if figure == "gamma":
            panels.append(partial(_turning, entries))
        written += write_picture(folder / figure, panels, title=TITLES[figure])
    return written


def _title(name: str, entry: dict[str, Any]) -> str:
    target = name.replace("gamma", "\u03b3").replace("=", " = ")
    plain, biased = (_short(entry["complexity"][model]) for model in ("RFA", "BRFA"))
    return f"{target},  B = {plain}, biased {biased}"


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
    _errors({"models": frozen}, title, ax, first=True)


def _errors(entry: dict[str, Any], title: str, ax: Axes, *, first: bool) -> None:
    """Medians with their quartiles, and the rate that theory has for RFA and BRFA."""
    lowest, sizes = 1.0, next(iter(entry["models"].values()))["n"]
    for model, curve in entry["models"].items():
        lines = [
            [max(value, LEAST) for value in curve[key]]
            for key in ("median", "lower_quartile", "upper_quartile")
        ]
        ax.plot(sizes, lines[0], "o-", color=COLOURS[model], label=model, ms=2.5, lw=1.3)
        ax.fill_between(sizes, lines[1], lines[2], color=COLOURS[model], alpha=0.2, lw=0)
        lowest = min(lowest, *lines[1])
    for model, predicted in entry.get("predicted", {}).items():
        inside = [pair for pair in zip(sizes, predicted, strict=True) if pair[1] < 1.3]
        if inside:
            label = f"\u221a(B/n), {model}"
            ax.plot(*zip(*inside, strict=True), "--", color=COLOURS[model], lw=1.0, label=label)
    scientific(ax, sizes)
    scientific(ax, [lowest, 1.1], "y")
    ax.set_title(title, fontsize=9)
    ax.set_xlabel("examples n")
    ax.set_ylabel("test error / variance")
    if first:
        ax.legend(fontsize=7, loc="best")


def _turning(entries: dict[str, Any], ax: Axes) -> None:
    """How much smaller the error is with the identity mean, by gamma."""
    gammas = [float(name.split("=")[1]) for name in entries]
    sizes: Sequence[int] = next(iter(entries.values()))["models"]["RFA"]["n"]
    for shade, i in zip((0.35, 0.65, 1.0), range(-3, 0), strict=True):
        if len(sizes) < -i:
            continue
        ratios = [
            e["models"]["RFA"]["median"][i] / e["models"]["BRFA"]["median"][i]
            for e in entries.values()
        ]
        ax.plot(gammas, ratios, "o-", color=THIRD, alpha=shade, ms=2.5, label=f"n = {sizes[i]:,}")
    ax.axhline(1.0, color=OTHER, lw=0.8)
    ax.set_title("where the order turns", fontsize=9)
    ax.set_xlabel("\u03b3")
    ax.set_ylabel("error of RFA / BRFA")
    ax.grid(True)
    ax.legend(fontsize=7)
