"""The map as a picture: one panel a learner, success as colour and as a number."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradine.report.draw import write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_map"]

#: From dark blue to yellow: its order shows in grey, and to the colour-blind.
COLOURS = "cividis"
BRIGHT = 0.55  # share from which on numbers are dark
TITLES = {
    "exact": "exact",
    "sculpt": "sculpt (six phases)",
    "adam": "gradient descent: Adam",
    "lbfgs": "gradient descent: L-BFGS",
}
NAMES = {
    "ratio": "examples / counting bound",
    "scale": "scale (spread of a logit)",
    "seq_len": "tokens",
    "t": "bits of the parity",
    "coherence": "cosine of the heads",
    "noise": "noise of the labels",
    "turn": "turn of the dial",
}


def draw_map(results: dict[str, Any], folder: Path, name: str = "map") -> list[Path]:
    """map.svg and map.png from what results.json holds."""
    panels: list[Callable[[Axes], None]] = [
        partial(_panel, results, learner) for learner in results["learners"]
    ]
    fixed = ", ".join(f"{key} {_written(value)}" for key, value in results["set"].items())
    title = f"share of {results['trials']} trials that succeed"
    return write_picture(folder / name, panels, title + (f"  ({fixed})" if fixed else ""))


def _panel(results: dict[str, Any], learner: str, ax: Axes) -> None:
    from matplotlib import colormaps

    shares = results["learners"][learner]["success"]
    ax.imshow(shares, cmap=colormaps[COLOURS], vmin=0.0, vmax=1.0, origin="lower", aspect="auto")
    for i, row in enumerate(shares):
        for j, share in enumerate(row):
            ink = "#000000" if share >= BRIGHT else "#ffffff"
            ax.text(j, i, f"{share:.1f}", ha="center", va="center", color=ink, fontsize=8)
    for axis, which in (("x", results["x"]), ("y", results["y"])):
        getattr(ax, f"set_{axis}ticks")(range(len(which["values"])), map(_written, which["values"]))
        getattr(ax, f"set_{axis}label")(NAMES.get(which["name"], which["name"]))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_title(TITLES.get(learner, learner), fontsize=9)


def _written(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
