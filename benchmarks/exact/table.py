"""The table: success and time, ours against the peers'."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.exact.instances import ROWS, Row
from benchmarks.exact.race import MEASURED_BY, PEER_SECONDS, Contest, races
from benchmarks.exact.rivals import RIVALS, Rivals
from benchmarks.exact.scope import Scope, tell
from benchmarks.text import markdown, median, seconds, short

__all__ = ["measure", "page", "summarise"]

Record = dict[str, Any]

QUICK_ROWS = (1, 4)
HEADER = (
    "heads, tokens, dim, scale, rank",
    "examples / bound",
    "examples fitted",
    "success",
    "theta_error, worst learned",
    "ours to 1e-6, s",
    "whole call, s",
    "of it survey, error bars and certificate",
    *(
        part
        for name in ("Adam", "L-BFGS", "expand and cluster")
        for part in (f"{name}, s", "solved", "all starts, s")
    ),
    "Adam's rate",
    "faster peer / ours, both to 1e-6",
    "faster peer / our whole call",
    "targets",
)


def measure(scope: Scope) -> Record:
    store = scope.store("table", MEASURED_BY)
    numbers = scope.rows or (QUICK_ROWS if scope.quick else range(1, len(ROWS) + 1))
    rows = []
    for row in (ROWS[number - 1] for number in numbers):
        rivals = Rivals(starts=row.starts, patience=row.patience, expand=row.expand)
        contest = Contest(
            "table",
            row.instance,
            row.ratio,
            scope.repeats(row.seeds, 2),
            min(row.peer_seeds, 1) if scope.quick else row.peer_seeds,
            rivals if scope.peers else None,
        )
        rows.append(summarise(row, races(store, contest, tell)))
    return {"build": store.build, "rows": rows}


def summarise(row: Row, records: list[Record]) -> Record:
    """Medians over seeds; a ratio of times is taken seed by seed."""
    found = [record["ours"] for record in records]
    opposed = [record for record in records if "rivals" in record]
    instance = row.instance
    summary = {
        "heads": instance.heads,
        "seq_len": instance.seq_len,
        "dim": instance.dim,
        "scale": instance.scale,
        "rank": instance.rank,
        "ratio": row.ratio,
        "examples": records[0]["examples"],
        "seeds": len(records),
        "successes": sum(ours["success"] for ours in found),
        "theta_error_worst": max((o["theta_error"] for o in found if o["success"]), default=None),
        "solved_seconds": median(o["solved_seconds"] for o in found if o["success"]),
        "seconds": median(ours["seconds"] for ours in found),
        "outside_share": median(ours["outside_share"] for ours in found),
        "peer_seeds": len(opposed),
        "patience": row.patience,
        "starts": row.starts,
        "rate": opposed[0]["rivals"]["rate"] if opposed else None,
        "rivals": {
            name: _rival([r["rivals"][name] for r in opposed if name in r["rivals"]])
            for name in RIVALS
        },
        "faster": _faster(opposed, "solved_seconds"),
        "faster_whole": _faster(opposed, "seconds"),
        "load": statistics.median(record["load"] for record in records),
        "failures": [
            {"seed": seed, "status": ours["status"], "theta_error": ours["theta_error"]}
            for seed, ours in enumerate(found)
            if not ours["success"]
        ],
    }
    return {**summary, "missed": _missed(row, summary)}


def _rival(found: list[Record]) -> Record:
    return {
        "seeds": len(found),
        "solved": sum(rival["solved"] for rival in found),
        "seconds": median(rival["seconds"] for rival in found if rival["solved"]),
        "total": median(rival["total"] for rival in found),
    }


def _faster(opposed: list[Record], clock: str) -> Record | None:
    """Median over seeds of the faster peer's time over ours, by one of our two clocks.

    Where no peer got there, all that is known is that the ratio is above what they were allowed.
    Where we did not, it is zero.
    """
    ratios = []
    for record in opposed:
        ours, rivals = record["ours"], record["rivals"]
        times = [
            rivals[name]["seconds"] for name in RIVALS if name in rivals and rivals[name]["solved"]
        ]
        reached = min(times, default=rivals["allowed"])
        ratios.append((reached / ours[clock] if ours["success"] else 0.0, not times))
    if not ratios:
        return None
    ratio, open_ended = sorted(ratios)[(len(ratios) - 1) // 2]
    return {"ratio": ratio, "at_least": open_ended}


def _missed(row: Row, summary: Record) -> list[str] | None:
    if row.successes is None:
        return None
    missed, faster = [], summary["faster"]
    if summary["successes"] < row.successes * summary["seeds"] / row.seeds:
        missed.append(f"successes below {row.successes} of {row.seeds}")
    # What the peers were allowed is the longest ratio that can be seen, of the whole call at least.
    if faster is not None and row.faster is not None and faster["ratio"] < 0.999 * row.faster:
        missed.append(f"{short(faster['ratio'])} times as fast, not {row.faster:g}")
    return missed


def cells_of(summary: Record) -> list[str]:
    """One line, in the order of `HEADER`."""
    faster, missed = summary["faster"], summary["missed"]
    rivals = [summary["rivals"][name] for name in RIVALS]
    hold = "all hold" if faster is not None else "success holds, time has no peer yet"
    return [
        f"{summary['heads']}, {summary['seq_len']}, {summary['dim']}, {summary['scale']:g}, "
        f"{summary['rank'] or 'full'}",
        f"{summary['ratio']:g}",
        f"{summary['examples']:,}",
        f"{summary['successes']} of {summary['seeds']}",
        short(summary["theta_error_worst"]),
        seconds(summary["solved_seconds"]),
        seconds(summary["seconds"]),
        f"{summary['outside_share']:.0%}",
        *(
            cell
            for rival in rivals
            for cell in (
                seconds(rival["seconds"]),
                f"{rival['solved']} of {rival['seeds']}" if rival["seeds"] else "-",
                seconds(rival["total"]),
            )
        ),
        "-" if summary["rate"] is None else f"{summary['rate']:g}",
        _times(faster),
        _times(summary["faster_whole"]),
        "none set" if missed is None else "; ".join(missed) or hold,
    ]


def _times(faster: Record | None) -> str:
    if faster is None:
        return "-"
    return f"{'> ' if faster['at_least'] else ''}{short(faster['ratio'])}"


def page(summary: Record) -> str:
    rows, config = summary["rows"], Rivals()
    failures = [
        f"- {row['heads']} heads, {row['seq_len']} tokens, dim {row['dim']}, scale "
        f"{row['scale']:g}, ratio {row['ratio']:g}, seed {failure['seed']}: {failure['status']}, "
        f"theta_error {short(failure['theta_error'])}"
        for row in rows
        for failure in row["failures"]
    ]
    rates = ", ".join(f"{rate:g}" for rate in config.rates)
    lines = [
        markdown(HEADER, (cells_of(row) for row in rows)),
        "Success: the run says that it learned, and every attention matrix is within 1e-6 of the "
        "truth. Targets are for the same end on both sides, theta_error 1e-6, which only a "
        "benchmark can see; looking is on no clock. Our whole call goes on to rounding, error bars "
        "and a certificate, and its time is beside it. "
        "Times are processor times, which with one thread are wall times on a machine that does "
        "nothing else. The examples "
        "of the table are fitted; 240 more choose and certify, and peers need none of these.",
        "Peers run right after us on the same fitted examples. They are told the heads and the "
        "rank. They get the first seeds of a row, until they have used "
        f"{PEER_SECONDS / 60:g} minutes. A start is given up after {config.patience:g} times the "
        f"time of our whole call (last row of the whole table: {ROWS[-1].patience:g} times, and "
        "one start only, so that the table fits in an hour). The time of a peer "
        "is that of the fastest of its starts that got there, medians over the seeds that it "
        "solved; all starts is what the whole search took, those stopped because they could not "
        "be fastest included. Adam's "
        f"rate is the best of {rates} on the first seed (each gets a quarter of the time); it is "
        "halved where the loss does not fall. Steps are in float32 until the relative squared "
        f"loss is {config.train.single_until:g}, then in float64. L-BFGS: strong Wolfe, history "
        f"{config.train.history}. Starts have standard deviation {config.std:g}. Expand and "
        "cluster: twice the heads by the better of the two, merged after half of the time.",
        "Faster peer / ours: seed by seed, then the median; > where no peer got there at all. A "
        "seed that we do not learn counts as 0.",
        "Seeds that did not succeed:\n\n" + ("\n".join(failures) or "None."),
    ]
    return "\n\n".join(lines)
