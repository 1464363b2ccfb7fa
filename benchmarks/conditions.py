"""Which condition breaks which learner, as its dial turns: `python -m benchmarks.conditions`.

For each dial of `gradine.hard` the layers of 20 seeds are checked and learned at several turns. A
run that fails without a warning of the check is a silent failure, and there should be none.
Thresholds were chosen on the seeds of `--calibrate`; the table is of other seeds. Results are kept
run by run in results/scratch, so that a run that was stopped goes on; a change of the sources
starts over.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gradine
from benchmarks.store import Store
from benchmarks.text import markdown
from gradine.hard import DIALS, dial
from gradine.theory.judgement import Learner

__all__ = ["main", "run_dial", "trial"]

RESULTS = Path(__file__).parent / "results"
SCRATCH = RESULTS / "scratch"
MEASURED_BY = ("conditions.py",)
HEADS, DIM, SEQ_LEN = 2, 8, 3
EXAMPLES: dict[Learner, int] = {"sculpt": 10_000, "exact": 2_000}
DATA = 4_000  # examples that the check from data alone gets to see
SEEDS, CALIBRATION, CALIBRATING = 20, 1000, 6  # the seeds that set thresholds begin at 1000
SUCCESS = 1e-6  # theta_error of a layer that counts as found
MOST_FAILURES = 2  # of 20 on the good side

#: Turns of each dial beyond 0, where all dials give the same layer.
TURNS: dict[Learner, dict[str, tuple[float, ...]]] = {
    "sculpt": {
        "equal_theta": (0.5, 0.9, 1.0),
        "equal_w": (0.5, 0.9, 1.0),
        "low_rank": (0.3, 0.8, 1.0),
        "one_row": (0.4, 0.8, 1.0),
        "one_column": (0.4, 0.7, 1.0),
        "zero_sum": (0.4, 0.75, 1.0),
        "steep_sum": (0.2, 0.5, 1.0),
        "sharp": (0.1, 0.3, 1.0),
        "flat": (0.05, 0.1, 1.0),
        "few_outputs": (0.25, 0.5, 1.0),
        "few_coordinates": (0.25, 0.4, 1.0),
        "many_heads": (0.1, 0.2, 0.4),
    },
    "exact": {
        "equal_theta": (0.5, 0.9, 1.0),
        "sharp": (0.2, 1.0),
        "flat": (0.4, 0.8, 1.0),
        "many_heads": (0.2, 0.5, 0.9),
    },
}
HEADER = (
    "dial",
    "learner",
    "condition",
    "good side: learned",
    "good side: check holds",
    "learned at turns",
    "its condition warns at turns",
    "failed, in all",
    "of these, check warned",
    "where the check holds, learned",
)

Record = dict[str, Any]


def trial(name: str, turn: float, learner: Learner, seed: int) -> Record:
    """Check one layer and learn it; a learner that is refused its examples has failed."""
    layer = dial(name, turn, HEADS, DIM, seed)
    n = EXAMPLES[learner]
    X = gradine.sample_inputs(n, SEQ_LEN, layer.dim, seed=np.random.default_rng([seed, 1]))
    Y = layer(X)
    checked = gradine.check(layer, SEQ_LEN, examples=n, seed=seed)
    seen = gradine.check_examples(X[:DATA], Y[:DATA])
    record: Record = {
        "holds": checked.holds_for(learner),
        "failing": [condition.name for condition in checked.failing(learner)],
        "values": {condition.name: condition.value for condition in checked.conditions},
        "data_holds": seen.holds_for(learner),
        "data_failing": [condition.name for condition in seen.failing(learner)],
    }
    try:
        fit = gradine.learn(X, Y, method=learner, seed=seed)
    except ValueError as error:
        return record | {"learned": False, "status": f"refused: {error}", "seconds": 0.0}
    return record | {
        "learned": _found(fit, layer),
        "status": fit.status.code,
        "seconds": fit.seconds,
    }


def _found(fit: gradine.Fit, layer: gradine.AttentionLayer) -> bool:
    """Whether the run claims the heads, all of them, and is right.

    Heads that are equal are one head to a comparison; here they count as not told apart.
    """
    if fit.layer is None or fit.status is gradine.Status.LEARNED_FUNCTION:
        return False
    match = gradine.compare(fit.layer, layer, seq_len=SEQ_LEN)
    return fit.heads == layer.n_heads and float(np.max(match.theta_error)) <= SUCCESS


def run_dial(name: str, learner: Learner, seeds: Sequence[int], store: Store) -> Record:
    """One line of the table: a dial at all its turns, reusing what the store has."""
    turns = (0.0, *TURNS[learner][name])
    runs: dict[float, list[Record]] = {}
    for turn in turns:
        key = "good" if turn == 0.0 else name
        runs[turn] = []
        for seed in seeds:
            record = store.once(
                lambda turn=turn, seed=seed: trial(name, turn, learner, seed),
                key,
                learner,
                turn,
                seed,
            )
            ended = "" if record["learned"] else ", heads not found"
            said = f"{learner} {name} {turn:g} seed {seed}: {record['status']}{ended}"
            warned = ", ".join(record["failing"]) or "check holds"
            print(f"{said}; {warned}", file=sys.stderr, flush=True)
            runs[turn].append(record)
    return summarise(name, learner, runs)


def summarise(name: str, learner: Learner, runs: dict[float, list[Record]]) -> Record:
    every = [record for records in runs.values() for record in records]
    failed = [record for record in every if not record["learned"]]
    holding = [record for record in every if record["holds"]]
    return {
        "dial": name,
        "learner": learner,
        "condition": DIALS[name].breaks,
        "seeds": len(runs[0.0]),
        "turns": [
            {
                "turn": turn,
                "learned": sum(record["learned"] for record in records),
                "holds": sum(record["holds"] for record in records),
                "own_warns": sum(DIALS[name].breaks in record["failing"] for record in records),
                "data_holds": sum(record["data_holds"] for record in records),
                "statuses": sorted({record["status"] for record in records}),
            }
            for turn, records in runs.items()
        ],
        "failed": len(failed),
        "warned": sum(not record["holds"] for record in failed),
        "data_warned": sum(not record["data_holds"] for record in failed),
        "holding": len(holding),
        "holding_learned": sum(record["learned"] for record in holding),
    }


def missed(summary: Record) -> list[str]:
    """Aims that do not hold."""
    good, allowed = summary["turns"][0], summary["seeds"] * MOST_FAILURES / SEEDS
    found = []
    if summary["seeds"] - good["learned"] > allowed:
        found.append(f"good side learned {good['learned']} of {summary['seeds']}")
    if summary["seeds"] - good["holds"] > allowed:
        found.append(f"check holds on {good['holds']} of {summary['seeds']} of the good side")
    if summary["warned"] < summary["failed"]:
        found.append(f"{summary['failed'] - summary['warned']} silent failures")
    return found


def cells_of(summary: Record) -> list[str]:
    """One line of the table, in the order of `HEADER`."""
    good, *others = summary["turns"]
    seeds = summary["seeds"]

    def along(key: str) -> str:
        return ", ".join(f"{at['turn']:g}: {at[key]}" for at in others)

    return [
        summary["dial"],
        summary["learner"],
        summary["condition"],
        f"{good['learned']} of {seeds}",
        f"{good['holds']} of {seeds}",
        along("learned"),
        along("own_warns"),
        str(summary["failed"]),
        str(summary["warned"]),
        f"{summary['holding_learned']} of {summary['holding']}",
    ]


def page(summaries: list[Record], build: str, seeds: Sequence[int]) -> str:
    failed, data_warned = (sum(s[key] for s in summaries) for key in ("failed", "data_warned"))
    notes = [
        f"Layers of {HEADS} heads in {DIM} coordinates, {SEQ_LEN} +-1 tokens, "
        f"{EXAMPLES['sculpt']:,} examples for sculpt and {EXAMPLES['exact']:,} for exact; seeds "
        f"{seeds[0]} to {seeds[-1]}, thresholds chosen on seeds from {CALIBRATION}. The good side "
        "is turn 0, the same layers for every dial. Numbers at turns are of "
        f"{len(seeds)} runs. Learned: the run says so, has as many heads as the layer, and every "
        f"attention matrix is within {SUCCESS:g} of the truth.",
        f"The check of at most {DATA:,} examples, without the layer, warned in {data_warned} of "
        f"these {failed} failures.",
        f"Build {build}.",
    ]
    listed = [f"{s['dial']}, {s['learner']}: {text}" for s in summaries for text in missed(s)]
    ended = "\n".join(
        f"- {s['dial']}, {s['learner']}, {at['turn']:g}: {', '.join(at['statuses'])}"
        for s in summaries
        for at in s["turns"][1:]
    )
    aims = "\n".join(f"- {line}" for line in listed) or "None."
    return (
        f"# Every condition's dial\n\n{markdown(HEADER, map(cells_of, summaries))}\n\n"
        + "\n\n".join(notes)
        + f"\n\n## Aims that were missed\n\n{aims}\n\n## How runs ended\n\n{ended}\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks.conditions", description=(__doc__ or "").strip())
    names = list(TURNS["sculpt"])
    parser.add_argument("--quick", action="store_true", help="2 seeds of two dials")
    parser.add_argument("--calibrate", action="store_true", help="the seeds that set thresholds")
    parser.add_argument("--seeds", type=int, help="at most so many seeds")
    parser.add_argument("--dials", nargs="+", choices=names, default=names)
    parser.add_argument("--learners", nargs="+", choices=list(TURNS), default=list(TURNS))
    parser.add_argument("--out", type=Path, help="JSON file; the table goes beside it as .md")
    parser.add_argument("--fresh", action="store_true", help="forget results of earlier runs")
    options = parser.parse_args(arguments)
    part = options.quick or options.calibrate or options.seeds is not None
    part = part or options.dials != names or options.learners != list(TURNS)
    if options.quick:
        options.seeds, options.dials, options.learners = 2, ["zero_sum", "flat"], ["sculpt"]
    first = CALIBRATION if options.calibrate else 0
    count = options.seeds or (CALIBRATING if options.calibrate else SEEDS)
    seeds = range(first, first + count)
    store = Store(SCRATCH / "conditions.jsonl", MEASURED_BY, fresh=options.fresh)
    summaries = [
        run_dial(name, learner, seeds, store)
        for learner in TURNS
        for name in options.dials
        if learner in options.learners and name in TURNS[learner]
    ]
    text = page(summaries, store.build, seeds)
    print(text)
    # The kept table is that of a whole run; a part of it goes where nobody takes it for one.
    out = options.out or (SCRATCH if part else RESULTS) / "conditions.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.with_suffix(".md").write_text(text)
    out.write_text(json.dumps({"build": store.build, "dials": summaries}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
