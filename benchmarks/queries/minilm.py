"""The six attention layers of a trained transformer, by asking, the number of heads not told."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import gradine
from benchmarks.minilm import LAYERS, minilm_layer
from benchmarks.queries.planted import figures
from benchmarks.store import Store
from benchmarks.text import markdown, seconds, short
from gradine.exact.heads import unknowns

__all__ = ["MEASURED_BY", "TITLE", "measure", "page"]

Record = dict[str, Any]

TITLE = "all-MiniLM-L6-v2: 12 heads of rank 32 in 384 coordinates, biases"
MEASURED_BY = ("queries/planted.py", "queries/minilm.py", "minilm.py")
HEADS, RANK, DIM = 12, 32, 384
BOUND = unknowns(HEADS, DIM + 1, DIM, DIM, RANK) / DIM  # rows
MOST_QUERIES = 20_000

#: What stands before the layer, for the layers that are asked through it.
ORACLES: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "float64": ({}, tuple(range(LAYERS))),
    "float32": ({"dtype": "float32"}, tuple(range(LAYERS))),
    "float16": ({"dtype": "float16"}, (3,)),
    "3 decimals": ({"decimals": 3}, (3,)),
}


def trial(name: str, layer: int) -> Record:
    truth = minilm_layer(layer)
    rounding = ORACLES[name][0]
    source = gradine.Rounded(truth, **rounding) if rounding else truth
    oracle = gradine.as_oracle(source, DIM, config=gradine.OracleConfig(max_queries=MOST_QUERIES))
    return figures(gradine.learn_by_queries(oracle, seed=layer), truth, BOUND)


def measure(store: Store, quick: bool) -> Record:
    records = []
    for name, (_, layers) in ORACLES.items():
        for layer in layers[:1] if quick else layers:
            record = store.once(partial(trial, name, layer), name, layer)
            kept = {key: record[key] for key in record if key not in ("build", "key")}
            records.append({"oracle": name, "layer": layer} | kept)
            print(
                f"minilm {name} layer {layer}: {record['status']}, {record['heads']} heads, "
                f"function {short(record['function_error'])}, {record['seconds']:.0f} s",
                file=sys.stderr,
                flush=True,
            )
    return {"rows": records, "bound": BOUND}


def page(content: Record) -> str:
    header = (
        "answers",
        "layer",
        "status",
        "heads found",
        "theta error",
        "W error",
        "function error",
        "rounding of the answers",
        "queries",
        "rows",
        "seconds",
        "of these answering",
        "ratio",
    )
    lines = [
        [
            row["oracle"],
            str(row["layer"]),
            row["status"],
            short(row["heads"]),
            short(row["theta_error"]),
            short(row["w_error"]),
            short(row["function_error"]),
            short(row["noise"]),
            short(row["queries"]),
            short(row["rows"]),
            seconds(row["seconds"]),
            seconds(row["answering"]),
            f"{row['seconds'] / row['answering']:.1f}",
        ]
        for row in content["rows"]
    ]
    return (
        f"{markdown(header, lines)}\n\n"
        "Largest errors over the heads, relative; the function's on fresh Gaussian sequences. The "
        f"counting bound is {content['bound']:.0f} rows at rank {RANK}, which was not told either. "
        f"Queries are those to learn, out of {MOST_QUERIES} allowed."
    )
