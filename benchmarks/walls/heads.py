"""Examples needed against the number of heads, on generic layers: polynomial or exponential?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.store import Store
from benchmarks.text import markdown, seconds
from benchmarks.walls.needed import Climb, fit_growth, ladder, needed
from gradine.atlas import MapConfig, Setting
from gradine.report.draw import FOUND, OTHER, THIRD, scientific, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw", "measure", "page"]

Record = dict[str, Any]

DIM, SEQ_LEN, SCALE = 8, 3, 3.0
NAMES = {
    "exact": "exact",
    "adam": "Adam",
    "sculpt": "sculpt, polished",
    "phases": "sculpt, six phases alone",
}
HEADS = {
    "exact": (1, 2, 3, 4, 6, 8),
    "adam": (1, 2, 3, 4, 6),
    "sculpt": (1, 2, 3),
    "phases": (1, 2, 3),
}
QUICK_HEADS = {"exact": (1, 2), "adam": (1,), "sculpt": (1,), "phases": (1,)}
COLOURS = {"exact": FOUND, "adam": THIRD, "sculpt": "#6d5bd0", "phases": "#c2314a"}
NEAR = 0.3  # function error of phase 6 alone that counts as found: it is there to be polished


def _climb(name: str, heads: int) -> Climb:
    """Our own and Adam from the counting bound on; the six phases by factors of two."""
    setting = Setting(heads=heads, dim=DIM, seq_len=SEQ_LEN, scale=SCALE)
    if name in ("exact", "adam"):
        rungs = ladder(setting.bound, 64 * setting.bound, 2**0.5)
        return Climb(name, setting, rungs, MapConfig(), _succeeds)
    rungs = ladder(32, 300_000, 2.0)
    return Climb("sculpt", setting, rungs, MapConfig(), _succeeds if name == "sculpt" else _is_near)


def _succeeds(record: Record) -> bool:
    return record["success"]


def _is_near(record: Record) -> bool:
    return record["theorem_error"] is not None and record["theorem_error"] <= NEAR


def measure(store: Store, quick: bool = False) -> Record:
    found: Record = {}
    for name, heads in (QUICK_HEADS if quick else HEADS).items():
        points = []
        for m in heads:
            climb = _climb(name, m)
            got = needed(climb, store)
            points.append(
                {
                    "heads": m,
                    "bound": climb.setting.bound,
                    "examples": got.examples,
                    "seconds": got.seconds,
                    "false_certificates": got.false_certificates,
                    "tried": climb.rungs[-1],
                }
            )
        found[name] = {"points": points, "growth": _growth(points)}
    return found


def _growth(points: list[Record]) -> Record | None:
    known = [p for p in points if p["examples"] is not None]
    if len(known) < 3:
        return None
    return fit_growth([p["heads"] for p in known], [p["examples"] for p in known])


def page(found: Record) -> str:
    lines = [
        [
            NAMES[name],
            str(p["heads"]),
            f"{p['bound']:.0f}",
            f"more than {p['tried']:,}" if p["examples"] is None else f"{p['examples']:,}",
            "-" if p["examples"] is None else f"{p['examples'] / p['bound']:,.3g}",
            seconds(p["seconds"]),
        ]
        for name, own in found.items()
        for p in own["points"]
    ]
    header = ["learner", "heads", "counting bound", "examples needed", "over the bound", "seconds"]
    text = (
        f"Generic layers, dim {DIM}, {SEQ_LEN} tokens, scale {SCALE:g}: the fewest examples on a "
        "ladder with which 2 of 3 layers are found (steps of 1.41 for exact and Adam, of 2 for the "
        f"six phases; alone these count as near with a function error of {NEAR}).\n\n"
    )
    growth = [f"- {NAMES[name]}: {_words(own['growth'])}" for name, own in found.items()]
    false = sum(p["false_certificates"] for own in found.values() for p in own["points"])
    told = "\n".join([*growth, "", f"False certificates: {false}."])
    return text + markdown(header, lines) + "\n\n" + told


def _words(growth: Record | None) -> str:
    if growth is None:
        return "too few points for a fit"
    better = "power" if growth["power_leaves"] <= growth["exponential_leaves"] else "exponential"
    return (
        f"m^{growth['exponent']:.2f} leaves {growth['power_leaves']:.2f} of log n, "
        f"{growth['factor']:.2f}^m leaves {growth['exponential_leaves']:.2f}: "
        f"the {better} describes it better"
    )


def draw(found: Record, stem: Path) -> list[Path]:
    return write_picture(
        stem, [lambda ax: _examples(found, ax), lambda ax: _seconds(found, ax)], "generic layers"
    )


def _examples(found: Record, ax: Axes) -> None:
    sizes = []
    for name, own in found.items():
        known = [p for p in own["points"] if p["examples"] is not None]
        label = NAMES[name]
        if own["growth"] is not None:
            label += f": m^{own['growth']['exponent']:.1f}, {own['growth']['factor']:.1f}^m"
        ax.plot(
            [p["heads"] for p in known],
            [p["examples"] for p in known],
            "o-",
            color=COLOURS[name],
            label=label,
            ms=3.5,
        )
        sizes += [p["examples"] for p in known]
    points = next(iter(found.values()))["points"]
    bounds = [p["bound"] for p in points]
    ax.plot([p["heads"] for p in points], bounds, "--", color=OTHER, label="counting bound")
    room = max([*sizes, *bounds]) * 3000  # for the legend
    scientific(ax, [*sizes, *bounds, room], "y")
    ax.set_xlabel("heads")
    ax.set_title("examples needed", fontsize=9)
    ax.legend(fontsize=6.5, loc="upper right")


def _seconds(found: Record, ax: Axes) -> None:
    spent = []
    for name, own in found.items():
        known = [p for p in own["points"] if p["seconds"]]
        times = [p["seconds"] for p in known]
        ax.plot([p["heads"] for p in known], times, "o-", color=COLOURS[name], ms=3.5)
        spent += times
    scientific(ax, spent, "y")
    ax.set_xlabel("heads")
    ax.set_title("seconds of one core, with so many examples", fontsize=9)
