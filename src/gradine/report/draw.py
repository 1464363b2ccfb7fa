"""How figures are drawn: plain axes, and SVG that follows the page's font and colours.

A figure is drawn without pyplot, so nothing stays behind in the process. In the SVG, ink becomes
a CSS variable of the page: one drawing serves light and dark.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradine.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "COLUMNS",
    "FOUND",
    "GROUND",
    "OTHER",
    "THIRD",
    "number",
    "panel",
    "powers_of_ten",
    "scientific",
    "write_picture",
]

# Mid-tones that stand out on white and on near-black alike.
FOUND = "#1f9d72"  # what belongs to the heads
OTHER = "#8b95a3"  # what does not
THIRD = "#d97b1c"  # a comparison

# Stand-ins that no figure uses otherwise; in the SVG they become variables of the page.
INK, FAINT, GROUND = "#010203", "#040506", "#070809"
VARIABLES = {INK: "var(--ink)", FAINT: "var(--line)", GROUND: "var(--card)"}
ON_PAPER = {INK: "#1b1f24", FAINT: "#d9dde3"}  # the same in a picture of its own
COLUMNS = 4  # panels side by side, at most

STYLE = {
    "svg.fonttype": "none",  # text stays text: it can be searched, and read aloud
    "svg.hashsalt": "gradine",  # the same figure gives the same bytes
    "font.size": 9.0,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.axisbelow": True,
    "legend.frameon": False,
}
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
#: Digits and exponent of a number; not inside a word, a version or the name of a file.
POWER = re.compile(r"(?<![\w.\-/])(-?\d+(?:\.\d+)?)e([+-]?\d+)(?![\w/]|\.\w)")

Draw = Callable[[Any], None]


def panel(name: str, label: str, draw: Draw, *, height: float = 2.7, rows: int = 1) -> str:
    """One figure as inline SVG. ``draw`` fills the axes: one, or an array of ``rows``."""
    from matplotlib import style
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with style.context(["default", STYLE]):
        figure = Figure(figsize=(4.6, height), layout="constrained")
        axes = figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]
        draw(axes[0] if rows == 1 else axes)
        for part in (figure, *axes):
            part.set_facecolor("none")
        target = io.StringIO()
        # savefig would draw everything twice, first for the layout alone.
        FigureCanvasSVG(figure).print_svg(target, metadata={"Date": None})
    return _inline(target.getvalue(), name, label)


def write_picture(stem: Path, panels: Sequence[Draw], title: str) -> list[Path]:
    """Panels side by side as a picture of its own, on white: an SVG and a PNG."""
    from matplotlib import style
    from matplotlib.figure import Figure

    columns = min(len(panels), COLUMNS)
    rows = math.ceil(len(panels) / columns)
    paper = {key: ON_PAPER.get(str(value), value) for key, value in STYLE.items()}
    written = []
    with style.context(["default", paper]):
        figure = Figure(figsize=(max(3.1 * columns, 4.6), 2.7 * rows + 0.3), layout="constrained")
        figure.suptitle(title, fontsize=10)
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for ax, draw in zip(axes, panels, strict=False):
            draw(ax)
        for ax in axes[len(panels) :]:
            ax.remove()
        for kind in ("svg", "png"):
            data = io.BytesIO()
            metadata = {"Date": None} if kind == "svg" else {}
            figure.savefig(data, format=kind, dpi=160, metadata=metadata)
            written.append(stem.with_suffix(f".{kind}"))
            write_bytes(written[-1], data.getvalue())
    return written


def _inline(svg: str, name: str, label: str) -> str:
    """An SVG file as part of a page: no header, no size, no name used twice."""
    box = re.search(r'viewBox="([^"]+)"', svg)
    assert box is not None
    body = svg[svg.index("<defs>", box.end()) : svg.rindex("</svg>")]
    used = set(re.findall(r"#([\w-]+)", " ".join(re.findall(r'(?:href="|url\()#[\w-]+', body))))

    def rename(found: re.Match[str]) -> str:
        return f' id="{name}-{found[1]}"' if found[1] in used else ""

    body = re.sub(r' id="([^"]+)"', rename, body)
    body = re.sub(r'(href="|url\()#', rf"\g<1>#{name}-", body)
    body = re.sub(r"font: ([^;\"]*?px)[^;\"]*", r"font-size: \1", body)
    body = re.sub(r"<!--.*?-->\n?", "", body, flags=re.DOTALL)
    body = re.sub(r"^\s+", "", body, flags=re.MULTILINE)
    for stand_in, variable in VARIABLES.items():
        body = body.replace(stand_in, variable)
    return (
        f'<svg class="plot" viewBox="{box[1]}" role="img" aria-label="{escape(label)}">\n'
        f"{body}</svg>"
    )


def _steps_of_ten(axis: Any, most: int) -> None:
    """A logarithmic axis with few ticks, written as plain text: 10⁻³, or 0.05 in between."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    low, high = (math.log10(limit) for limit in axis.get_view_interval())
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    stride = max(1, math.ceil((last - first + 1) / most))
    ticks = [10.0**power for power in range(first, last + 1, stride)]
    whole = high - low > 3
    for digits in ((1, 3), (1, 2, 5), range(1, 10)):  # hardly a decade in view: steps in between
        if len(ticks) >= 3 or whole:
            break
        values = [digit * 10.0**power for power in range(first - 1, last + 1) for digit in digits]
        ticks = [value for value in values if low <= math.log10(value) <= high]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    written = _power if whole else "{:g}".format
    axis.set_major_formatter(FuncFormatter(lambda value, _: written(value)))


def _power(value: float) -> str:
    exponent = round(math.log10(value))
    return "1" if exponent == 0 else f"10{str(exponent).translate(SUPERSCRIPT)}"


def scientific(ax: Axes, values: Sequence[float], axis: str = "x", *, most: int = 6) -> None:
    """Put an axis on a logarithmic scale that holds ``values`` with some room around them."""
    low, high = math.log10(min(values)), math.log10(max(values))
    room = max(0.08 * (high - low), 0.15)
    getattr(ax, f"set_{axis}scale")("log")
    getattr(ax, f"set_{axis}lim")(10 ** (low - room), 10 ** (high + room))
    _steps_of_ten(getattr(ax, f"{axis}axis"), most)
    getattr(ax, f"{axis}axis").grid(True)


def number(value: float | int | None) -> str:
    """A number for people: three digits, thousands apart, very small ones as powers of ten."""
    if value is None:
        return "-"
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e15):
        return f"{int(value):,}".replace(",", "\u202f")
    if not math.isfinite(value):
        return "unknown"
    if 1e-3 <= abs(value) < 1e4:
        return f"{value:.3g}"
    return powers_of_ten(f"{value:.1e}")


def powers_of_ten(text: str) -> str:
    """A text whose 2e-13, as Python writes it, is 2·10⁻¹³: that does not break at its hyphen."""
    return POWER.sub(lambda it: f"{it[1]}·10{str(int(it[2])).translate(SUPERSCRIPT)}", text)
