"""Success against the number of examples, with all learners on one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.exact.instances import CURVE
from benchmarks.exact.race import MEASURED_BY, Contest, races
from benchmarks.exact.rivals import RIVALS, Rivals
from benchmarks.exact.scope import Scope, tell
from benchmarks.text import markdown

__all__ = ["draw", "measure", "page"]

Record = dict[str, Any]

RATIOS = (1, 1.25, 1.5, 2, 3, 4, 6, 8)
QUICK_RATIOS = (1.5, 4)
SEEDS, PEER_SEEDS = 10, 4
WANTED, AIM = 0.9, 1.5  # share of the seeds; ratio at which it should be reached
LEAST = 5.0  # seconds that a start of a peer gets, however fast we are
#: Name, colour, marker, its size and the line. Where curves meet, smaller markers lie on larger.
LEARNERS = {
    "ours": ("Gradine", "#137a56", "o", 5, "-"),
    "adam": ("PyTorch, Adam", "#d9822b", "s", 8, "--"),
    "lbfgs": ("PyTorch, L-BFGS", "#3b5ba5", "^", 12, "-."),
    "expand": ("expand and cluster", "#b79ad0", "D", 14, ":"),
}


def measure(scope: Scope) -> Record:
    store = scope.store("curve", MEASURED_BY)
    points = []
    for ratio in QUICK_RATIOS if scope.quick else RATIOS:
        contest = Contest(
            "curve",
            CURVE,
            ratio,
            scope.repeats(SEEDS, 2),
            0 if scope.quick else PEER_SEEDS,
            Rivals(least=LEAST) if scope.peers else None,
        )
        points.append(_point(ratio, races(store, contest, tell)))
    reached = [point["ratio"] for point in points if _share(point["ours"]) >= WANTED]
    return {"build": store.build, "points": points, "smallest": min(reached, default=None)}


def _point(ratio: float, records: list[Record]) -> Record:
    def tally(found: list[bool]) -> Record:
        return {"seeds": len(found), "solved": sum(found)}

    rivals = [record["rivals"] for record in records if "rivals" in record]
    return {
        "ratio": ratio,
        "examples": records[0]["examples"],
        "ours": tally([record["ours"]["success"] for record in records]),
        **{name: tally([r[name]["solved"] for r in rivals if name in r]) for name in RIVALS},
    }


def _share(tally: Record) -> float:
    return tally["solved"] / tally["seeds"] if tally["seeds"] else 0.0


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


def page(summary: Record) -> str:
    smallest = summary["smallest"]
    header = ["examples / bound", "examples", *(name for name, *_ in LEARNERS.values())]
    lines = [
        [
            f"{point['ratio']:g}",
            f"{point['examples']:,}",
            *(
                f"{point[key]['solved']} of {point[key]['seeds']}" if point[key]["seeds"] else "-"
                for key in LEARNERS
            ),
        ]
        for point in summary["points"]
    ]
    said = (
        f"Smallest ratio at which ours succeeds {WANTED:.0%} of the time: "
        f"{'none' if smallest is None else f'{smallest:g}'} (aim: {AIM:g}). "
        f"{CURVE.heads} heads, {CURVE.seq_len} tokens, dim {CURVE.dim}, scale {CURVE.scale:g}. "
        f"Each of up to 3 starts of a peer gets 10 times our time, {LEAST:g} s at least; the rest "
        "as in the table."
    )
    return f"{markdown(header, lines)}\n\n{said}"


def draw(summary: Record, path: Path) -> None:
    """The curve as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.0, 4.0), layout="constrained")
    for key, (name, colour, marker, size, line) in reversed(LEARNERS.items()):
        points = [point for point in summary["points"] if point[key]["seeds"]]
        if points:
            axes.plot(
                [point["ratio"] for point in points],
                [_share(point[key]) for point in points],
                label=f"{name}, {_seeds(max(point[key]['seeds'] for point in points))}",
                color=colour,
                marker=marker,
                markersize=size,
                linestyle=line,
                linewidth=2,
                clip_on=False,
            )
    ratios = [point["ratio"] for point in summary["points"]]
    axes.set_xscale("log")
    axes.set_xticks(ratios, [f"{ratio:g}" for ratio in ratios])
    axes.minorticks_off()
    axes.tick_params(axis="x", pad=9)  # markers at zero reach below the axis
    axes.set(xlabel="examples / counting bound", ylabel="share of seeds solved", ylim=(0, 1))
    axes.set_title(
        f"{CURVE.heads} heads, {CURVE.seq_len} tokens, dim {CURVE.dim}, scale {CURVE.scale:g}",
        pad=12,
    )
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(reverse=True, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
