"""From the records of many seeds to one line of the table."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

from benchmarks.instances import Row
from benchmarks.text import median, seconds, short
from benchmarks.trial import PHASES

__all__ = ["HEADER", "cells_of", "summarise"]

Record = dict[str, Any]

HEADER = (
    "heads, tokens, dim, scale",
    "inputs",
    "examples",
    "refined sum: nearer than the paper's crude sum by (worst seed)",
    "nearer than the own-token-free one by (worst)",
    "theorem: function error before polish (worst)",
    "theta_error after polish, worst",
    "learned exactly",
    "heads counted right",
    "chords against spectrum, worst cosine",
    *(f"{name.replace('_', ' ')}, s" for name in PHASES),
    "total, s",
    "PyTorch L-BFGS, s",
    "PyTorch solved",
    "ours / PyTorch, time",
    "control: polish alone, s",
    "control solved",
    "targets",
)


def summarise(row: Row, inputs: str, records: list[Record]) -> Record:
    """Medians and worst seeds. A seed that did not get to a figure counts as infinitely bad."""
    ratios = {
        name: _spread(
            [_ratio(record[f"crude_{name}"], record["refined"]) for record in records], worst=min
        )
        for name in ("paper", "free")
    }
    learned = [record for record in records if record["learned"]]
    controls = [record["control"] for record in records if record.get("control")]
    peers = [(record, record["peer"]) for record in records if record.get("peer")]
    solved = [(record, peer) for record, peer in peers if peer["solved"]]
    summary = {
        "heads": row.heads,
        "seq_len": row.seq_len,
        "dim": row.dim,
        "scale": row.scale,
        "inputs": inputs,
        "seeds": len(records),
        "examples": sorted(record["examples"] for record in records),
        "refined_to_paper": ratios["paper"],
        "refined_to_free": ratios["free"],
        "theorem_error": _spread(_or_inf(r["theorem_error"] for r in records), worst=max),
        "theta_error_worst": max((r["theta_error"] for r in learned), default=None),
        "successes": sum(record["success"] for record in records),
        "counted_right": sum(record["heads"] == row.heads for record in records),
        "chord_worst": min(
            (r["chord_agreement"] for r in records if r["chord_agreement"] is not None),
            default=None,
        ),
        "phase_seconds": {
            name: statistics.median(record["phase_seconds"][name] for record in records)
            for name in PHASES
        },
        "seconds": statistics.median(record["seconds"] for record in records),
        "peers": len(peers),
        "peers_solved": len(solved),
        "peers_first_start": sum(peer["starts"] == 1 for _, peer in solved),
        "peer_seconds": median(peer["seconds"] for _, peer in solved),
        "peer_ratio": median(r["seconds"] / peer["seconds"] for r, peer in solved),
        "controls": len(controls),
        "controls_solved": sum(control["solved"] for control in controls),
        "control_seconds": median(control["seconds"] for control in controls),
        "load": statistics.median(record["load"] for record in records),
        "failures": [
            {"seed": record["key"][-1], "reason": record["reason"]}
            for record in records
            if not record["success"]
        ],
    }
    return {**summary, "missed": None if row.targets is None else _missed(row, summary)}


def _missed(row: Row, summary: Record) -> list[str]:
    """Targets that do not hold. All are asked of the worst seed but the share of successes."""
    targets, missed = row.targets, []
    assert targets is not None
    for name in ("refined_to_paper", "refined_to_free"):
        if not (summary[name]["worst"] or 0.0) >= targets.refined:
            missed.append(f"refined sum x{short(summary[name]['worst'])} < {targets.refined:g}")
    for name, reached, allowed in (
        ("theorem", summary["theorem_error"]["worst"], targets.theorem),
        ("theta_error", summary["theta_error_worst"], targets.theta),
    ):
        if reached is None or reached > allowed:
            missed.append(f"{name} {short(reached)} > {allowed:g}")
    if summary["successes"] < targets.successes * summary["seeds"]:
        missed.append(f"successes below {targets.successes:.0%}")
    return missed


def cells_of(summary: Record) -> list[str]:
    """One line of the table, in the order of `HEADER`."""
    counts = sorted(set(summary["examples"]))
    missed = summary["missed"]
    verdict = "none set" if missed is None else "; ".join(missed) or "all hold"
    seeds = summary["seeds"]

    def solved(name: str) -> str:
        return f"{summary[name + '_solved']} of {summary[name]}" if summary[name] else "-"

    return [
        f"{summary['heads']}, {summary['seq_len']}, {summary['dim']}, {summary['scale']:g}",
        "+-1" if summary["inputs"] == "boolean" else summary["inputs"],
        " or ".join(f"{count:,}" for count in counts),
        _with_worst(summary["refined_to_paper"], "x"),
        _with_worst(summary["refined_to_free"], "x"),
        _with_worst(summary["theorem_error"]),
        short(summary["theta_error_worst"]),
        f"{summary['successes']} of {seeds}",
        f"{summary['counted_right']} of {seeds}",
        "-" if summary["chord_worst"] is None else f"{summary['chord_worst']:.3f}",
        *(seconds(summary["phase_seconds"][name]) for name in PHASES),
        seconds(summary["seconds"]),
        seconds(summary["peer_seconds"]),
        solved("peers"),
        "-" if summary["peer_ratio"] is None else f"x{short(summary['peer_ratio'])}",
        seconds(summary["control_seconds"]),
        solved("controls"),
        verdict,
    ]


def _spread(values: list[float], worst: Any) -> dict[str, float | None]:
    """None stands for a figure that was not reached: JSON has no infinity."""
    spread = {"median": statistics.median(values), "worst": worst(values)}
    return {name: None if value == float("inf") else value for name, value in spread.items()}


def _ratio(crude: float | None, refined: float | None) -> float:
    return 0.0 if crude is None or refined is None else crude / max(refined, 1e-300)


def _or_inf(values: Iterable[float | None]) -> list[float]:
    return [float("inf") if value is None else value for value in values]


def _with_worst(spread: dict[str, float | None], sign: str = "") -> str:
    return f"{sign}{short(spread['median'])} ({sign}{short(spread['worst'])})"
