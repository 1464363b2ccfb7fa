"""False certificates: is anything claimed that is not so?

A run may claim the heads, or the function alone. Either claim is false if fresh examples, drawn as
the given ones were, contradict its statement. A claim of heads is false too if any head is not the
truth's by its own error bars, if a bar is not known, if the number of heads is wrong, or if there
are no true heads at all.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from functools import partial
from typing import Any

import numpy as np

import gradine
from benchmarks.exact.cases import CATEGORIES, Case, make_case
from benchmarks.exact.ours import CLAIMS_FUNCTION, SOLVED, Answer, error_of, ours
from benchmarks.exact.scope import Scope, tell
from benchmarks.text import markdown
from gradine.atlas import claims
from gradine.atlas.claims import BARS, SURE
from gradine.certificate import HeadBars

__all__ = ["contradicted", "measure", "page", "wrong_heads"]

Record = dict[str, Any]

FILES = ("instances", "ours", "case", "degenerate", "cases", "certificates")
MEASURED_BY = tuple(f"exact/{name}.py" for name in FILES)
RUNS, QUICK_RUNS = 100, 6  # of each category
FRESH = 2000


def trial(category: str, number: int) -> Record:
    case = make_case(category, number)
    X = case.draw(case.examples, number)
    record: Record = {
        "kind": case.kind,
        "asked": case.heads,
        "tokens": case.instance.tokens,
        "claims": None,
        "contradicted": False,
        "wrong_heads": "",
        "theta_error": None,
    }
    began = time.perf_counter()
    try:
        answer = ours(X, case.label(X, number), case.heads, number)
    except ValueError as error:  # nothing is claimed
        # Refused at the door; but a solver that broke down is no refusal.
        status = "crashed" if isinstance(error, np.linalg.LinAlgError) else "refused"
        spent = time.perf_counter() - began
        return {**record, "status": status, "reason": str(error), "seconds": spent}
    record |= {"status": answer.status, "reason": answer.reason, "seconds": answer.seconds}
    record["claims"] = claim_of(answer)
    if record["claims"] is not None:
        record["contradicted"] = contradicted(answer, case, number)
    if record["claims"] == "heads":
        record["wrong_heads"] = wrong_heads(answer, case.truth)
    if case.truth is not None:
        record["theta_error"] = error_of(answer.layer, case.truth)
    return {**record, "load": os.getloadavg()[0]}


def claim_of(answer: Answer) -> str | None:
    """What a run says of its answer, told by the name of its ending."""
    if answer.learned:
        return "heads"
    return "function" if answer.status == CLAIMS_FUNCTION else None


def contradicted(answer: Answer, case: Case, number: int) -> bool:
    """Whether fresh examples speak against any point of the certificate's curve."""
    if answer.certificate is None or answer.layer is None:
        return True  # a claim without a statement is a false one
    X = case.draw(FRESH, number + 10**6)
    return claims.contradicted(answer.certificate, answer.layer(X), case.label(X, number + 10**6))


def wrong_heads(answer: Answer, truth: gradine.AttentionLayer | None) -> str:
    """Why a claim of these heads is false; empty if every head is right by its own bars.

    Bars come in the order of the heads of the answer, which is in canonical form.
    """
    if truth is None:
        return "no layer made the labels"
    if answer.layer is None:
        return "no layer is given"
    bars = None if answer.certificate is None else answer.certificate.bars
    known = bars is not None and _known(bars, answer.layer.n_heads)
    wrong = claims.wrong_heads(answer.layer, truth, bars if known else None, SOLVED)
    return wrong if known or "missing" in wrong else "an error bar is infinite or missing"


def _known(bars: HeadBars, heads: int) -> bool:
    return all(
        len(values) == heads and bool(np.isfinite(values).all()) for values in (bars.theta, bars.w)
    )


def measure(scope: Scope) -> Record:
    store = scope.store("certificates", MEASURED_BY)
    categories = []
    for category in CATEGORIES:
        records = []
        numbers = range(scope.repeats(RUNS, QUICK_RUNS))
        store.ahead((partial(trial, category, number), (category, number)) for number in numbers)
        for number in numbers:
            record = store.once(partial(trial, category, number), category, number)
            false = " FALSE" if _is_false(record) else ""
            tell(f"{category} {number}, {record['kind']}{false}", record)
            records.append(record)
        categories.append(_summarise(category, records))
    return {"build": store.build, "categories": categories}


def _is_false(record: Record) -> bool:
    return bool(record["contradicted"] or record["wrong_heads"])


def _summarise(category: str, records: list[Record]) -> Record:
    kinds = sorted({record["kind"] for record in records})
    claims = Counter((record["kind"], record["claims"]) for record in records)
    kept = ("kind", "asked", "tokens", "status", "claims", "contradicted", "wrong_heads")
    return {
        "category": category,
        "runs": len(records),
        "heads_claimed": sum(record["claims"] == "heads" for record in records),
        "function_claimed": sum(record["claims"] == "function" for record in records),
        "refused": sum(record["status"] == "refused" for record in records),
        "crashed": sum(record["status"] == "crashed" for record in records),
        "contradicted": sum(record["contradicted"] for record in records),
        "wrong_heads": sum(bool(record["wrong_heads"]) for record in records),
        "false": sum(_is_false(record) for record in records),
        "by_kind": {
            kind: {
                "runs": sum(record["kind"] == kind for record in records),
                "heads": claims[kind, "heads"],
                "function": claims[kind, "function"],
            }
            for kind in kinds
        },
        "false_cases": [
            {"number": record["key"][-1], **{name: record[name] for name in kept}}
            for record in records
            if _is_false(record)
        ],
        "crashes": [
            {"number": record["key"][-1], "kind": record["kind"], "reason": record["reason"]}
            for record in records
            if record["status"] == "crashed"
        ],
        "seconds": sum(record["seconds"] for record in records),
    }


COLUMNS = (
    "runs",
    "heads_claimed",
    "function_claimed",
    "refused",
    "crashed",
    "contradicted",
    "wrong_heads",
    "false",
)


def page(summary: Record) -> str:
    rows = summary["categories"]
    lines = [[row["category"], *(str(row[name]) for name in COLUMNS)] for row in rows]
    lines.append(["all", *(str(sum(row[name] for row in rows)) for name in COLUMNS)])
    header = ("category", *(name.replace("_", " ") for name in COLUMNS))
    kinds = [
        [row["category"], kind, *(str(found[name]) for name in ("runs", "heads", "function"))]
        for row in rows
        for kind, found in row["by_kind"].items()
    ]
    said = (
        "Target: no false certificate. A run that ends as learned, or learned up to noise, claims "
        "the heads and the function. One that ends as learned_function claims the function alone. "
        "All others claim nothing; refused ones were turned away at the door, crashed ones broke "
        "down. Either claim is false if it is contradicted: "
        f"{FRESH:,} fresh examples (drawn like those that were given, noise included) exceed some "
        f"point of the certificate's curve beyond doubt ({SURE:g}), or there is no certificate. A "
        "claim of heads is false, too, with wrong heads: one too many or too few; any Theta or W "
        "further from that of the true head, relative to it, than "
        f"{BARS:g} times that head's own error bar and than {SOLVED:g}; an error bar that is "
        "infinite or missing, whatever the heads; or any claim of heads where no layer made the "
        "labels. Of each kind every third run counts the heads itself (but where fewer are asked "
        "for than there are), and every fourth has Gaussian tokens where the kind leaves that "
        "open."
    )
    return "\n\n".join(
        [
            markdown(header, lines),
            said,
            "False ones:\n\n" + ("\n".join(_false_lines(rows)) or "None."),
            markdown(("category", "kind", "runs", "heads claimed", "function claimed"), kinds),
        ]
    )


def _false_lines(rows: list[Record]) -> list[str]:
    lines = []
    for row in rows:
        for case in row["false_cases"]:
            why = [case["wrong_heads"]] if case["wrong_heads"] else []
            why += ["contradicted by fresh examples"] if case["contradicted"] else []
            lines.append(
                f"- {row['category']} {case['number']}, {case['kind']} (heads {case['asked']}, "
                f"{case['tokens']}), {case['status']}: {'; '.join(why)}"
            )
        for crash in row["crashes"]:
            where = f"{row['category']} {crash['number']}, {crash['kind']}"
            lines.append(f"- not false, but crashed: {where}: {crash['reason']}")
    return lines
