"""False certificates: is anything called learned that is not?

A certificate is false if fresh examples, drawn as the given ones were, contradict its statement,
or if the heads are not the truth's: further from it than 1e-6 and five of the run's error bars.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any

import gradine
from benchmarks.exact.cases import CATEGORIES, Case, make_case
from benchmarks.exact.ours import SOLVED, Answer, error_of, ours
from benchmarks.exact.scope import Scope, tell
from benchmarks.text import markdown
from gradine.certificate import clopper_pearson, relative_errors

__all__ = ["contradicted", "measure", "page", "wrong_heads"]

Record = dict[str, Any]

MEASURED_BY = tuple(f"exact/{name}.py" for name in ("instances", "ours", "cases", "certificates"))
RUNS, QUICK_RUNS = 100, 6  # of each category
FRESH = 2000
BARS = 5.0
SURE = 1e-6  # chance that fresh examples contradict a statement that is true


def trial(category: str, number: int) -> Record:
    case = make_case(category, number)
    X = case.instance.inputs(case.examples, number)
    record: Record = {"kind": case.kind, "learned": False, "theta_error": None}
    began = time.perf_counter()
    try:
        answer = ours(X, case.label(X, number), case.heads, number)
    except ValueError as error:  # refused at the door: nothing is claimed
        spent = time.perf_counter() - began
        return {**record, "status": "refused", "reason": str(error), "seconds": spent}
    record |= {"status": answer.status, "seconds": answer.seconds, "learned": answer.learned}
    if answer.learned:
        record["contradicted"] = contradicted(answer, case, number)
        record["wrong_heads"] = case.truth is not None and wrong_heads(answer, case.truth)
    if case.truth is not None:
        record["theta_error"] = error_of(answer.layer, case.truth)
    return {**record, "error_bar": answer.error_bar, "load": os.getloadavg()[0]}


def contradicted(answer: Answer, case: Case, number: int) -> bool:
    """Whether fresh examples speak against any point of the certificate's curve.

    The curve bounds a probability; the examples give a share. It counts where the share is so
    large that the bound is wrong beyond doubt.
    """
    assert answer.layer is not None
    if answer.certificate is None:
        return True  # learned without a statement is a false one
    X = case.instance.inputs(FRESH, number + 10**6)
    errors = relative_errors(answer.layer(X), case.label(X, number + 10**6))
    curve = zip(answer.certificate.eps, answer.certificate.p, strict=True)
    within = ((int((errors <= eps).sum()), p) for eps, p in curve)
    return any(1.0 - clopper_pearson(good, FRESH, SURE) > p for good, p in within)


def wrong_heads(answer: Answer, truth: gradine.AttentionLayer) -> bool:
    error = error_of(answer.layer, truth)
    return error is None or error > max(BARS * answer.error_bar, SOLVED)


def measure(scope: Scope) -> Record:
    store = scope.store("certificates", MEASURED_BY)
    categories = []
    for category in CATEGORIES:
        records = []
        for number in range(scope.repeats(RUNS, QUICK_RUNS)):
            record = store.once(partial(trial, category, number), category, number)
            tell(f"{category} {number}, {record['kind']}", record)
            records.append(record)
        categories.append(_summarise(category, records))
    return {"build": store.build, "categories": categories}


def _summarise(category: str, records: list[Record]) -> Record:
    learned = [record for record in records if record["learned"]]
    kinds = sorted({record["kind"] for record in records})
    false = [r for r in learned if r["contradicted"] or r["wrong_heads"]]
    return {
        "category": category,
        "runs": len(records),
        "learned": len(learned),
        "learned_by_kind": {k: sum(r["kind"] == k for r in learned) for k in kinds},
        "contradicted": sum(record["contradicted"] for record in learned),
        "wrong_heads": sum(record["wrong_heads"] for record in learned),
        "false": len(false),
        "false_cases": [
            {"number": r["key"][-1], **{n: r[n] for n in ("kind", "theta_error", "error_bar")}}
            for r in false
        ],
        "seconds": sum(record["seconds"] for record in records),
    }


def page(summary: Record) -> str:
    rows = summary["categories"]
    names = ("runs", "learned", "contradicted", "wrong_heads", "false")
    lines = [
        [
            row["category"],
            *(str(row[name]) for name in names),
            ", ".join(f"{kind} {count}" for kind, count in row["learned_by_kind"].items()),
        ]
        for row in rows
    ]
    lines.append(["all", *(str(sum(row[name] for row in rows)) for name in names), ""])
    header = ("category", *(name.replace("_", " ") for name in names), "learned, by kind")
    said = (
        f"Target: no false certificate. Contradicted: {FRESH:,} fresh examples (drawn like those "
        "that were given, noise included) exceed some point of the certificate's curve beyond "
        f"doubt ({SURE:g}). Wrong heads: further from the truth than 1e-6 and {BARS:g} error bars "
        "of the run; where the labels come from no layer there are none to compare with."
    )
    false = [
        f"- {row['category']} {case['number']}, {case['kind']}: theta_error {case['theta_error']}"
        for row in rows
        for case in row["false_cases"]
    ]
    return "\n\n".join([markdown(header, lines), said, *(["\n".join(false)] if false else [])])
