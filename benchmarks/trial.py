"""One seed of one row: run the learner, and measure every phase against the truth."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import gradine
from benchmarks.control import polish_alone
from benchmarks.instances import Row, examples_of, truth_of
from benchmarks.peer import torch_student
from gradine.inputs import InputKind
from gradine.learn import Fit, learn_examples

__all__ = ["PHASES", "measure", "run_trial"]

PHASES: tuple[str, ...] = ("crude_sum", "sculpt", "proxy", "again", "span", "search", "polish")
SUCCESS = 1e-8  # theta_error of a layer that counts as found
OPPONENTS_SEE = 5000  # examples; each takes as many of them as it likes


def run_trial(
    row: Row, seed: int, kind: InputKind, *, control: bool = False, peer: Any = None
) -> dict[str, Any]:
    """Learn with the number of heads unknown; the control and the peer run right after.

    Where a row names several numbers of examples, the first that suffices is the answer: an exact
    layer, and a good answer of phase 6 already, as the polish may mend a poor one.
    """
    truth, tried, record = truth_of(row, seed), [], {}
    for n in row.examples:
        with tempfile.TemporaryDirectory() as folder:
            examples = examples_of(row, n, seed, kind, Path(folder))
            fit = learn_examples(examples, "auto", "sculpt", seed)
            record = measure(fit, truth, row.seq_len, kind)
            error = record["theorem_error"]
            tried.append({"examples": n, "success": record["success"], "theorem_error": error})
            enough = record["success"] and error <= row.enough
            if not enough and n != row.examples[-1]:
                continue
            X, Y = examples.block(0, min(OPPONENTS_SEE, n))
            if control:
                record["control"] = polish_alone(X, Y, truth, seed)
            if peer is not None:
                record["peer"] = torch_student(X, Y, truth, fit.seconds, seed, peer)
            break
    return {**record, "tried": tried, "load": os.getloadavg()[0]}


def measure(
    fit: Fit, truth: gradine.AttentionLayer, seq_len: int, kind: InputKind
) -> dict[str, Any]:
    """The figures of a run; None for what it did not get to."""
    phases, total = fit.phases, truth.w.sum(axis=0)

    def error_of_sum(estimate: np.ndarray) -> float:
        return float(np.linalg.norm(estimate - total) / np.linalg.norm(total))

    crude, span, search = phases.get("crude_sum"), phases.get("span"), phases.get("search")
    refined = [result for name, result in phases.items() if name.startswith("proxy")]
    theorem = answer = None
    if fit.theorem is not None:
        theorem = gradine.compare(fit.theorem, truth, seq_len=seq_len, kind=kind)
    if fit.candidate is not None:
        answer = gradine.compare(fit.candidate, truth, seq_len=seq_len, kind=kind)
    theta_error = None if answer is None else float(answer.theta_error.max())
    exact = theta_error is not None and theta_error <= SUCCESS and answer is not None
    return {
        "status": fit.status.code,
        "reason": fit.reason,
        "learned": fit.learned,
        "success": bool(fit.learned and exact and answer is not None and not answer.extra),
        "crude_paper": None if crude is None else error_of_sum(crude.paper),
        "crude_free": None if crude is None else error_of_sum(crude.own_token_free),
        "refined": error_of_sum(refined[-1].refined_sum) if refined else None,
        "theorem_error": None if theorem is None else theorem.function_error,
        "net_error": None if search is None else search.net_error,
        "theta_error": theta_error,
        "heads": None if span is None else span.heads,
        "spectrum": None if span is None else span.spectrum[: truth.n_heads + 2].tolist(),
        "chord_agreement": None if span is None else span.chord_agreement,
        "seconds": fit.seconds,
        "phase_seconds": _seconds_by_phase(fit),
        "examples": fit.examples_used,
    }


def _seconds_by_phase(fit: Fit) -> dict[str, float]:
    """All repetitions of carving and refining count as one phase, the paper's fourth."""
    spent = dict.fromkeys(PHASES, 0.0)
    for name, result in fit.phases.items():
        spent["again" if "again" in name else name] += result.seconds
    return spent
