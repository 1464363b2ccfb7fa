"""One seed of one row: run the learner, and measure every phase against the truth."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import gradine
from benchmarks.instances import Row, examples_of, truth_of
from gradine.examples import Examples
from gradine.inputs import InputKind
from gradine.learn import Fit, learn_examples

__all__ = ["PHASES", "measure", "run_trial"]

PHASES = ("crude_sum", "sculpt", "proxy", "again", "span", "search", "polish")
SUCCESS = 1e-8  # theta_error of a layer that counts as found


def run_trial(row: Row, seed: int, kind: InputKind, peer_config: Any = None) -> dict[str, Any]:
    """Learn with the number of heads unknown; with a ``peer_config`` the peer runs right after.

    Where a row names several numbers of examples, the first that succeeds is the answer.
    """
    truth, tried, record = truth_of(row, seed), [], {}
    for n in row.examples:
        with tempfile.TemporaryDirectory() as folder:
            examples = examples_of(row, n, seed, kind, Path(folder))
            fit = learn_examples(examples, "auto", "sculpt", seed)
            record = measure(fit, truth, row.seq_len, kind)
            tried.append({"examples": n, "success": record["success"], "reason": fit.reason})
            last = record["success"] or n == row.examples[-1]
            if last and peer_config is not None:
                record["peer"] = run_peer(examples, truth, fit.seconds, seed, peer_config)
        if record["success"]:
            break
    return {**record, "tried": tried, "load": os.getloadavg()[0]}


def run_peer(
    examples: Examples, truth: gradine.AttentionLayer, ours: float, seed: int, config: Any
) -> dict[str, Any]:
    from benchmarks.peer import torch_student

    X, Y = examples.block(0, min(config.examples, examples.n))
    return torch_student(X, Y, truth, ours, seed, config)


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
