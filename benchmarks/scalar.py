"""Heads from one visible number, ours and the published way: `python -m benchmarks.scalar`.

Both ask the same planted layers, in double precision: one coordinate of the row of the last token.
Ours is not told the number of heads. Results are kept seed by seed in results/scratch, so that a
run that was stopped goes on; a change of the sources starts over.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gradine
from benchmarks.poles import learn_by_poles
from benchmarks.store import Store, add_workers
from benchmarks.text import markdown, median, seconds, short
from gradine.queries import Oracle, as_oracle, probe_precision
from gradine.queries.scalar.learn import learn_scalar
from gradine.queries.scalar.pairs import published_count
from gradine.status import NotLearned

__all__ = ["main", "run_row", "trial"]

RESULTS = Path(__file__).parent / "results"
SCRATCH = RESULTS / "scratch"
MEASURED_BY = ("poles.py", "scalar.py")
DIMS, HEADS, SEEDS = (8, 16), range(1, 9), 20
SCALE = 2.0  # of Theta, as a Frobenius norm
TARGET = 1e-8  # theta_error of a layer that counts as found
HEADER = (
    "heads m, dim d",
    "queries, most",
    "published, 4md²-2m+1",
    "ours / published",
    "ours / counting bound md(d+1)",
    "heads counted right",
    "found (1e-8)",
    "theta_error, worst",
    "v error, worst",
    "seconds",
    "published: found",
    "theta_error, median",
    "v error, median",
)

Record = dict[str, Any]


def trial(heads: int, dim: int, seed: int) -> Record:
    """One layer, both ways."""
    layer = gradine.plant(heads, dim, SCALE, seed=seed)
    truth = gradine.AttentionLayer(layer.theta, layer.w[:, :, :1])
    ours, poles = _oracle(layer), _oracle(layer)
    began = time.perf_counter()
    try:
        precision = probe_precision(ours, seed=seed)
        answer, reason = learn_scalar(ours, None, precision, seed, lambda _, __, work: work()), ""
    except NotLearned as stopped:
        answer, reason = None, f"{stopped.status.code}: {stopped.detail}"
    record = {"seconds": time.perf_counter() - began, "reason": reason}
    record["queries"], record["heads"] = ours.queries_used, answer.n_heads if answer else None
    record |= _errors("", answer, truth)
    record |= _errors("poles_", learn_by_poles(poles, heads, seed), truth)
    return record | {"poles_queries": poles.queries_used}


def _oracle(layer: gradine.AttentionLayer) -> Oracle:
    return as_oracle(layer, rows="last", output=0)


def _errors(
    name: str, answer: gradine.AttentionLayer | None, truth: gradine.AttentionLayer
) -> Record:
    """A layer that was not learned counts as wrong throughout."""
    if answer is None:
        return {f"{name}theta_error": 1.0, f"{name}v_error": 1.0, f"{name}found": False}
    match = gradine.compare(answer, truth)
    theta, v = float(match.theta_error.max()), float(match.w_error.max())
    found = theta <= TARGET and match.missing == match.extra == 0
    return {f"{name}theta_error": theta, f"{name}v_error": v, f"{name}found": found}


def run_row(heads: int, dim: int, seeds: Sequence[int], store: Store) -> list[str]:
    """One line of the table, reusing what the store has."""
    records = []
    store.ahead((partial(trial, heads, dim, seed), (heads, dim, seed)) for seed in seeds)
    for seed in seeds:
        record = store.once(partial(trial, heads, dim, seed), heads, dim, seed)
        said = f"m={heads} d={dim} seed {seed}: {record['theta_error']:.1e}"
        print(f"{said}, poles {record['poles_theta_error']:.1e}", file=sys.stderr, flush=True)
        records.append(record)
    most, published = max(r["queries"] for r in records), published_count(heads, dim)
    assert all(record["poles_queries"] == published for record in records)

    def count(test: Any) -> str:
        return f"{sum(bool(test(record)) for record in records)} of {len(records)}"

    return [
        f"{heads}, {dim}",
        f"{most:,}",
        f"{published:,}",
        f"{most / published:.2f}",
        f"{most / (heads * dim * (dim + 1)):.2f}",
        count(lambda record: record["heads"] == heads),
        count(lambda record: record["found"]),
        short(max(record["theta_error"] for record in records)),
        short(max(record["v_error"] for record in records)),
        seconds(median(record["seconds"] for record in records)),
        count(lambda record: record["poles_found"]),
        short(median(record["poles_theta_error"] for record in records)),
        short(median(record["poles_v_error"] for record in records)),
    ]


def page(lines: list[list[str]], build: str, failures: list[str]) -> str:
    notes = [
        f"Theta is Gaussian with Frobenius norm {SCALE:g}, entries of W have variance 1/d; {SEEDS} "
        "seeds each in a full run. Queries are all that a run asks before its answer is verified: "
        "those for the precision too, the most of any seed. Errors are relative, of the worst "
        "head of a layer.",
        "Published: the algebra of rational functions in the number of copies, in double "
        "precision, told the number of heads (`benchmarks/poles.py`). It asks exactly the "
        "published number.",
        f"Build {build}.",
    ]
    listed = "\n".join(f"- {line}" for line in failures) or "None."
    table = markdown(HEADER, lines)
    return (
        f"# One visible number\n\n{table}\n\n" + "\n\n".join(notes) + "\n\n"
        f"## Seeds on which ours did not succeed\n\n{listed}\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks.scalar", description=(__doc__ or "").strip())
    parser.add_argument("--seeds", type=int, default=SEEDS, help="seeds of each line")
    parser.add_argument("--dims", type=int, nargs="+", default=list(DIMS))
    parser.add_argument("--heads", type=int, nargs="+", default=list(HEADS))
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--out", type=Path, help="markdown file")
    add_workers(parser)
    options = parser.parse_args(arguments)
    path = SCRATCH / "scalar.jsonl"
    store = Store(path, MEASURED_BY, fresh=options.fresh, workers=options.workers)
    rows = [(m, d) for d in options.dims for m in options.heads]
    lines = [run_row(m, d, range(options.seeds), store) for m, d in rows]
    failures = [
        f"m = {m}, d = {d}, seed {seed}: theta_error {record['theta_error']:.1e} {record['reason']}"
        for m, d in rows
        for seed in range(options.seeds)
        if (record := store.get(m, d, seed)) is not None and not record["found"]
    ]
    text = page(lines, store.build, failures)
    print(text)
    whole = (options.seeds, tuple(options.dims), tuple(options.heads)) == (SEEDS, DIMS, (*HEADS,))
    out = options.out or (RESULTS if whole else SCRATCH) / "scalar.md"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
