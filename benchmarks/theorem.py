"""What the six phases reach and what they cost, over seeds: `python -m benchmarks.theorem`.

A PyTorch student, and the learner's own polish from a random start, run on the same data right
after the learner. Results are kept seed by seed in results/scratch, so that a run that was stopped
goes on; a change of the sources starts over.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.instances import ROWS, Row, seeds_of
from benchmarks.peer import PeerConfig
from benchmarks.store import Store
from benchmarks.table import HEADER, cells_of, summarise
from benchmarks.text import markdown
from benchmarks.trial import run_trial
from gradine.inputs import INPUT_KINDS, InputKind

__all__ = ["main", "run_row"]

RESULTS = Path(__file__).parent / "results"
SCRATCH = RESULTS / "scratch"
#: Files whose change makes earlier results stale; the rest only shows them.
MEASURED_BY = ("control.py", "instances.py", "peer.py", "train.py", "trial.py")
QUICK = {"rows": [1, 2], "seeds": 2, "inputs": ["boolean"]}


def run_row(
    row: Row,
    kind: InputKind,
    seeds: Sequence[int],
    store: Store,
    peer: PeerConfig | None = None,
    peer_seeds: int = 0,
) -> dict[str, Any]:
    """Measure a row over seeds, reusing what the store has; the first seeds get opponents too."""
    records = []
    for seed in seeds:
        opposed = seed < peer_seeds
        opponent = peer if opposed else None
        needs = [*(["control"] if opposed else []), *(["peer"] if opponent else [])]
        trial = partial(run_trial, row, seed, kind, control=opposed, peer=opponent)
        record = store.once(trial, row.name, kind, seed, needs=needs)
        _tell(row, kind, seed, record)
        records.append(record)
    return summarise(row, kind, records)


def _tell(row: Row, kind: str, seed: int, record: dict[str, Any]) -> None:
    """A line for whoever waits; the table is all that standard output gets."""
    theorem, peer = record["theorem_error"], record.get("peer")
    said = [
        f"{row.name} {kind} seed {seed}: {record['status']}",
        "" if theorem is None else f"theorem {theorem:.2g}",
        "" if record["theta_error"] is None else f"theta_error {record['theta_error']:.1e}",
        f"{record['seconds']:.1f} s",
        "" if peer is None else f"peer {peer['seconds']:.1f} s, solved: {peer['solved']}",
        "" if record["success"] else record["reason"],
    ]
    print(", ".join(part for part in said if part), file=sys.stderr, flush=True)


def notes(summaries: list[dict[str, Any]], peer: PeerConfig, build: str) -> str:
    """What a reader has to know to read the table right."""
    load = max(summary["load"] for summary in summaries)
    threads = os.environ.get("OMP_NUM_THREADS", "as many as cores")
    total = {
        name: sum(summary[name] for summary in summaries)
        for name in ("peers", "peers_solved", "peers_first_start", "controls", "controls_solved")
    }
    lines = [
        "Theta is Gaussian with the given Frobenius norm, entries of W have variance 1/dim. The "
        "learner is not told the number of heads. Times are medians over seeds, on 2 cores.",
        "Learned exactly: the run says that it learned, and every attention matrix is within "
        "1e-8 of the truth. theta_error is the worst over all runs that say so.",
        "Targets are asked of the worst seed: refined sum at least 20 times nearer than either "
        "crude sum, the theorem's own answer within 0.05, 0.1, 0.1, 0.3 (rows in order) before "
        "any polish, theta_error at most 1e-8, successes 20/20, 19/20, 19/20, 9/10.",
        f"PyTorch: a student of the same architecture on the first {peer.examples:,} examples of "
        "the same data, in the same run, float64, all parameters by L-BFGS (history "
        f"{peer.history}, strong-Wolfe), random start of standard deviation {peer.std:g}, up to "
        f"{peer.starts} starts of at most {peer.patience:g} times our time each, until theta_error "
        f"is {peer.solved:g} (which only a benchmark can see). It is told the number of heads. "
        f"It is a fair opponent, and it does solve small random instances: {total['peers_solved']} "
        f"of {total['peers']} here, {total['peers_first_start']} at the first start, from far "
        "fewer examples than the theorem's way needs. What it does not give is a theorem, the "
        "number of heads, or a reason when it fails.",
        "Control: the polish that ends a run, without the six phases, from a random start of the "
        f"right number of heads. It finds the heads in {total['controls_solved']} of "
        f"{total['controls']} cases. Where it does, exact answers are no evidence for the six "
        "phases; what those reach is the refined sum, the count of heads, the agreement of "
        "chords and spectrum, and the theorem's own error.",
        f"Build {build}. Threads for linear algebra, ours and PyTorch's: {threads}. The busiest "
        f"row ran at a load of {load:.1f} on the 2 cores"
        + (": other work was running, and times are too long." if load > 3 else "."),
    ]
    failures = [
        f"{s['heads']} heads, {s['seq_len']} tokens, {s['inputs']}, seed {f['seed']}: {f['reason']}"
        for s in summaries
        for f in s["failures"]
    ]
    listed = "\n".join(f"- {line}" for line in failures) or "None."
    return "\n\n".join(lines) + f"\n\n## Seeds that did not succeed\n\n{listed}"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    store = Store(SCRATCH / "theorem.jsonl", MEASURED_BY, fresh=options.fresh)
    peer, torch = PeerConfig(), importlib.util.find_spec("torch") is not None
    if not torch and not options.no_peer:
        print("torch is not installed: the peer is left out", file=sys.stderr)
    peer_seeds = 0 if options.no_peer else options.peer_seeds
    summaries = []
    for kind in options.inputs:
        for row in (ROWS[number - 1] for number in options.rows):
            if kind == "boolean" or row.gaussian:
                seeds = seeds_of(row, options.seeds)
                opponent = peer if torch else None
                summaries.append(run_row(row, kind, seeds, store, opponent, peer_seeds))
    text = "# The six phases, measured\n\n"
    text += markdown(HEADER, (cells_of(summary) for summary in summaries))
    text += "\n\n" + notes(summaries, peer, store.build) + "\n"
    print(text)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.with_suffix(".md").write_text(text)
    content = {"build": store.build, "peer": asdict(peer), "rows": summaries}
    options.out.write_text(json.dumps(content, indent=1) + "\n")
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("benchmarks.theorem", description=(__doc__ or "").strip())
    every = ",".join(str(number + 1) for number in range(len(ROWS)))
    parser.add_argument("--quick", action="store_true", help="2 seeds of the first two rows")
    parser.add_argument("--seeds", type=int, help="at most so many seeds a row")
    parser.add_argument("--rows", help=f"numbers of rows, such as 1,3 (default {every})")
    parser.add_argument("--inputs", help=f"of {','.join(INPUT_KINDS)} (default: both)")
    parser.add_argument("--out", type=Path, help="JSON file; the table goes beside it as .md")
    parser.add_argument("--no-peer", action="store_true", help="without student and control")
    parser.add_argument("--peer-seeds", type=int, default=5, help="seeds that get both")
    parser.add_argument("--fresh", action="store_true", help="forget results of earlier runs")
    options = parser.parse_args(arguments)
    part = options.quick or options.seeds or options.rows or options.inputs or options.no_peer
    rows, inputs = options.rows or every, options.inputs or ",".join(INPUT_KINDS)
    options.rows = [int(text) for text in rows.split(",")]
    options.inputs = inputs.split(",")
    if not set(options.inputs) <= set(INPUT_KINDS):
        parser.error(f"--inputs is {inputs}; expected some of {', '.join(INPUT_KINDS)}")
    if not set(options.rows) <= set(range(1, len(ROWS) + 1)):
        parser.error(f"--rows is {rows}; expected some of {every}")
    if options.quick:
        for name, value in QUICK.items():
            setattr(options, name, value)
    # The kept table is that of a whole run; a part of it goes where nobody takes it for one.
    options.out = options.out or (SCRATCH if part else RESULTS) / "theorem.json"
    return options


if __name__ == "__main__":
    sys.exit(main())
