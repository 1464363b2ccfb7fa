"""Do other attention functions learn as well? `python -m benchmarks.attention [--quick]`.

Planted layers of every attention function, over sizes of the logits and numbers of heads, learned
by the exact learner: told the number of heads, from few examples; and counting them, from many.
Results are kept run by run in results/scratch, so that a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import gradine
from benchmarks.exact.ours import HELD_OUT, SOLVED, figures, ours
from benchmarks.store import Store, add_workers
from benchmarks.text import markdown, median, seconds
from gradine.attention_functions import FUNCTIONS

__all__ = ["main", "measure", "page"]

RESULTS = Path(__file__).parent / "results"
SCRATCH = RESULTS / "scratch"
MEASURED_BY = ("attention.py", "exact/ours.py", "clock.py")
DIM, SEQ_LEN = 12, 4
RATIO = 3.0  # examples that are fitted, over the counting bound, where the heads are told
MANY = 5000  # examples where they are counted
INPUT_SEED = 5000  # inputs are drawn from another stream than the layer they are fed to


class Grid(NamedTuple):
    """What is measured."""

    heads: tuple[int, ...] = (2, 3, 4)
    scales: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0)
    seeds: int = 4


QUICK = Grid(heads=(2,), scales=(1.0, 4.0), seeds=1)
Record = dict[str, Any]


def measure(grid: Grid, store: Store) -> list[Record]:
    """One record for each function, number of heads, scale, way and seed."""
    keys = list(product(FUNCTIONS, grid.heads, grid.scales, ("told", "counted"), range(grid.seeds)))
    store.ahead((partial(_run, *key), key) for key in keys)
    records = []
    for key in keys:
        record = store.once(partial(_run, *key), *key)
        print(*key, f"{record['status']}, {record['seconds']:.2f} s", file=sys.stderr, flush=True)
        about = dict(zip(("name", "heads_true", "scale", "way", "seed"), key, strict=True))
        records.append(record | about)
    return records


def _run(name: str, heads: int, scale: float, way: str, seed: int) -> Record:
    truth = gradine.plant(heads, DIM, scale, seed=seed, attention=name)
    told = way == "told"
    bound = truth.n_parameters / (SEQ_LEN * truth.out_dim)
    n = math.ceil(RATIO * bound) + HELD_OUT if told else MANY
    X = gradine.sample_inputs(n, SEQ_LEN, DIM, seed=seed + INPUT_SEED)
    asked = heads if told else "auto"
    answer = ours(X, truth(X), asked, seed, attention=name, few=told)
    return figures(answer, truth)


def page(records: list[Record], grid: Grid, build: str) -> str:
    """Both tables, the time, and what did not succeed."""
    told = f"{RATIO:g} times as many examples as the counting bound"
    parts = [
        "# Attention functions, learned exactly",
        f"`python -m benchmarks.attention`. {grid.seeds} planted layers in each place, {SEQ_LEN} "
        f"tokens of {DIM} coordinates, uniform on +-1; Theta is Gaussian of Frobenius norm `scale` "
        f"(relu has no scale: the same layer, with another W). A run succeeds if it says that it "
        f"learned the heads, and every Theta is right to {SOLVED:g}.",
        f"## Told the number of heads, {told}",
        _table(records, grid, "told"),
        f"## Counting the heads, {MANY:,} examples",
        _table(records, grid, "counted"),
        "## Time",
        _times(records),
        "## What did not succeed",
        _failures(records),
        f"Build {build}.",
    ]
    return "\n\n".join(parts) + "\n"


def _table(records: list[Record], grid: Grid, way: str) -> str:
    header = ["attention", "heads", *(f"scale {scale:g}" for scale in grid.scales)]
    lines = []
    for name in FUNCTIONS:
        for heads in grid.heads:
            line = [name, str(heads)]
            for scale in grid.scales:
                place = (name, heads, scale, way)
                here = [record["success"] for record in records if _place(record) == place]
                line.append(f"{sum(here)} of {len(here)}")
            lines.append(line)
    return markdown(header, lines)


def _times(records: list[Record]) -> str:
    """Medians over all places, processor time."""
    lines = [
        [
            name,
            *(
                seconds(median(r["seconds"] for r in records if (r["name"], r["way"]) == at))
                for at in ((name, "told"), (name, "counted"))
            ),
        ]
        for name in FUNCTIONS
    ]
    return markdown(["attention", "told, median s", "counting, median s"], lines)


def _failures(records: list[Record]) -> str:
    lines = [
        f"- {r['name']}, {r['heads_true']} heads, scale {r['scale']:g}, {r['way']}, seed "
        f"{r['seed']}: {r['status']}, {r['heads']} heads"
        for r in records
        if not r["success"]
    ]
    return "\n".join(lines) or "None."


def _place(record: Record) -> tuple[Any, ...]:
    return record["name"], record["heads_true"], record["scale"], record["way"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks.attention", description=(__doc__ or "").strip())
    parser.add_argument("--quick", action="store_true", help="two scales, two heads, one seed")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--out", type=Path, help="markdown file")
    add_workers(parser)
    options = parser.parse_args(arguments)
    grid = QUICK if options.quick else Grid()
    path = SCRATCH / "attention.jsonl"
    store = Store(path, MEASURED_BY, fresh=options.fresh, workers=options.workers)
    text = page(measure(grid, store), grid, store.build)
    print(text)
    out = options.out or (SCRATCH if options.quick else RESULTS) / "attention.md"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
