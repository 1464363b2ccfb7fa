r"""The wall: examples and time against the bits of a hidden parity.

Layers that hide a parity of t of d bits, with the same output column, are indexed by the coordinate
a that is read and by the secret set S: D = d C(d - 1, t) functions, any two of them orthogonal.
A learner that asks q correlational queries of tolerance tau needs q >= (D tau^2 - 1) / 2; with
tau = n^(-1/2), as from n examples, n q >= (D - n) / 2. The prediction is one of growth: it is drawn
through the first point.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.store import Store
from benchmarks.text import markdown, seconds, short
from benchmarks.walls.needed import Climb, ladder, needed, trials
from gradine.atlas import MapConfig, Setting
from gradine.report.draw import FOUND, OTHER, THIRD, scientific, write_picture
from gradine.students.config import StudentConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw", "measure", "orthogonal_functions", "page"]

Record = dict[str, Any]

DIM = 8
BITS = {"adam": (1, 2, 3, 4), "exact": (1, 2, 3)}
QUICK_BITS = {"adam": (1,), "exact": (1,)}
MOST = {"adam": 300_000, "exact": 8_000}  # examples that are tried
NEAR = 0.1  # function error of a parity that counts as learned
#: One start, larger than for generic layers: from small ones no gradient shows the parity.
STUDENT = StudentConfig(steps=8000, starts=1, std=0.3)
#: Where Adam first fails with all examples: would more steps have done it?
LONGER = 8
COLOURS = {"adam": THIRD, "exact": FOUND}
NAMES = {"adam": "Adam", "exact": "exact"}


def orthogonal_functions(dim: int, t: int) -> int:
    """D = d C(d - 1, t).

    >>> [orthogonal_functions(8, t) for t in (1, 2, 3)]
    [56, 168, 280]
    """
    return dim * math.comb(dim - 1, t)


def _near(record: Record) -> bool:
    """By the function alone: it does not determine the heads."""
    return record["function_error"] is not None and record["function_error"] <= NEAR


def measure(store: Store, quick: bool = False) -> Record:
    found: Record = {}
    for name, bits in (QUICK_BITS if quick else BITS).items():
        points = []
        for t in bits:
            rungs = ladder(64, MOST[name], 2.0)
            climb = Climb(name, Setting(dim=DIM, t=t), rungs, MapConfig(NEAR, STUDENT), _near)
            got = needed(climb, store)
            points.append(
                {
                    "t": t,
                    "functions": orthogonal_functions(DIM, t),
                    "examples": got.examples,
                    "seconds": got.seconds,
                    "false_certificates": got.false_certificates,
                    "tried": rungs[-1],
                }
            )
        found[name] = points
    lost = [point for point in found["adam"] if point["examples"] is None]
    return found | ({"longer": _longer(lost[0], store)} if lost else {})


def _longer(lost: Record, store: Store) -> Record:
    """The same with more steps, on the most examples: errors of the layers that are tried."""
    student = replace(STUDENT, steps=LONGER * STUDENT.steps)
    setting = Setting(dim=DIM, t=lost["t"], examples=lost["tried"])
    climb = Climb("adam", setting, (lost["tried"],), MapConfig(NEAR, student), _near)
    records = trials(climb, lost["tried"], store)
    return {"t": lost["t"], "errors": [record["function_error"] for record in records]}


def page(found: Record) -> str:
    curves = _curves(found)
    lines = [
        [
            NAMES[name],
            str(p["t"]),
            str(p["functions"]),
            f"not with {p['tried']:,}" if p["examples"] is None else f"{p['examples']:,}",
            seconds(p["seconds"]),
        ]
        for name, points in curves.items()
        for p in points
    ]
    header = ["learner", "t", "D", "examples needed", "seconds"]
    text = (
        f"Layers that hide a parity of t of {DIM} bits (two tokens): the fewest examples, in steps "
        f"of 2, with which 2 of 3 are learned to a function error of {NEAR}; Adam takes "
        f"{STUDENT.steps:,} steps of {STUDENT.batch} examples. D = d C(d - 1, t) orthogonal "
        "functions are to be told apart.\n\n"
    )
    false = sum(p["false_certificates"] for points in curves.values() for p in points)
    said = f"False certificates: {false}."
    if "longer" in found:
        errors = ", ".join(short(error) for error in found["longer"]["errors"])
        said = (
            f"With {LONGER} times as many steps on as many examples, t = {found['longer']['t']}: "
            f"function errors {errors}. {said}"
        )
    return f"{text}{markdown(header, lines)}\n\n{said}"


def _curves(found: Record) -> Record:
    return {name: found[name] for name in NAMES}


def draw(found: Record, stem: Path) -> list[Path]:
    panels = [
        lambda ax: _panel(found, "examples", "examples needed", ax),
        lambda ax: _panel(found, "seconds", "seconds of one core", ax),
    ]
    return write_picture(stem, panels, f"parities of t of {DIM} bits")


def _panel(found: Record, key: str, title: str, ax: Axes) -> None:
    values = []
    for name, points in _curves(found).items():
        known = [p for p in points if p[key]]
        heights = [p[key] for p in known]
        ax.plot(
            [p["t"] for p in known], heights, "o-", color=COLOURS[name], label=NAMES[name], ms=4
        )
        values += heights
        lost = [p for p in points if p["examples"] is None]
        if key == "examples" and lost:
            tried = [p["tried"] for p in lost]
            label = f"{NAMES[name]}: not with so many"
            ax.plot(
                [p["t"] for p in lost], tried, "^", mfc="none", color=COLOURS[name], label=label
            )
            values += tried
    first, all_points = found["adam"][0], found["adam"]
    if first[key]:
        drawn = [first[key] * p["functions"] / first["functions"] for p in all_points]
        label = "growth of D = d C(d-1, t)"
        ax.plot([p["t"] for p in all_points], drawn, "--", color=OTHER, label=label)
        values += drawn
    scientific(ax, [*values, 4 * max(values)], "y")
    ax.set_xticks([p["t"] for p in all_points])
    ax.set_xlabel("t, bits of the parity")
    ax.set_title(title, fontsize=9)
    ax.legend(fontsize=6.5, loc="upper left")
