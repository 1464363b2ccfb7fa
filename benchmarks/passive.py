"""`python -m benchmarks.passive`: the six layers of MiniLM from examples, beside PyTorch students.

Our learner is told the number of heads and their rank, as the students are. They train on the same
examples for as long as its fit took, by processor time, as machines that measure are shared; what
it spends on error bars and on the certificate afterwards is told apart. Errors are relative RMS
errors on fresh sequences of the same kind. With --text the tokens are those that real text gives
the layer, instead of Gaussian ones.

A layer takes the better part of an hour. What was measured stays in the results until --fresh, and
the table names the builds that its rows are of.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gradine
from benchmarks.clock import clock
from benchmarks.minibatch import train_adam, train_lbfgs
from benchmarks.minilm import LAYERS, minilm_layer
from benchmarks.sentences import hidden_states
from benchmarks.store import Store
from benchmarks.text import markdown, seconds, short
from gradine.exact.config import ExactConfig
from gradine.exact.deflate import DeflateConfig
from gradine.exact.finish import FinishConfig
from gradine.progress import Listener
from gradine.students.model import Shape

__all__ = ["main"]

Array = NDArray[np.float64]

HERE = Path(__file__).parent
MEASURED_BY = ("passive.py", "minibatch.py", "clock.py", "sentences.py", "minilm.py")
SEQ_LEN, HEADS, RANK = 8, 12, 32
EXAMPLES, FRESH = 8600, 400
ENOUGH = 1e-12  # squared residual at which our learner stops: students are given as long
TEXT_STEPS = (
    24  # of the last fit to tokens of text, where each takes as little away as the one before
)
PEERS = {"Adam": train_adam, "L-BFGS": train_lbfgs}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.passive", description=__doc__)
    parser.add_argument("--layers", default="0,1,2,3,4,5", help="which, by number")
    parser.add_argument("--minutes", type=float, help="for each student; default: our own time")
    parser.add_argument("--text", action="store_true", help="tokens of real text")
    parser.add_argument("--ours", action="store_true", help="leave the students out")
    parser.add_argument("--peers", default=",".join(PEERS), help="which students, by name")
    parser.add_argument("--keep", type=Path, help="folder for the layers that are found")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "passive.md")
    options = parser.parse_args(arguments)
    layers = [int(name) for name in options.layers.split(",")]
    if not all(0 <= layer < LAYERS for layer in layers):
        parser.error(f"--layers is {options.layers}; expected numbers from 0 to {LAYERS - 1}")
    if not set(options.peers.split(",")) <= set(PEERS):
        parser.error(f"--peers is {options.peers}; expected names of {', '.join(PEERS)}")
    path = options.out.with_suffix(".jsonl")
    store = Store(path, MEASURED_BY, fresh=options.fresh, any_build=True)
    for layer in layers:
        kind = "text" if options.text else "gaussian"
        ours = store.once(partial(_ours, layer, options.text, options.keep), kind, layer, "ours")
        print(f"{kind} layer {layer}: ours {_line(ours)}", flush=True)
        if options.ours:
            continue
        allowed = _allowed(ours, options.minutes)
        for name in options.peers.split(","):
            peer = _trained(store, kind, layer, name, allowed)
            if peer is None:
                peer = _peer(layer, options.text, name, allowed)
                store.put(peer, kind, layer, name)
            print(f"{kind} layer {layer}: {name} {_line(peer)}", flush=True)
    _write(store, options.out, options.minutes)


def examples(layer: int, text: bool) -> tuple[gradine.AttentionLayer, Array, Array]:
    """The layer, tokens and outputs; the last ``FRESH`` are fresh."""
    truth = minilm_layer(layer)
    if text:
        X = hidden_states(layer, EXAMPLES + FRESH, SEQ_LEN)
    else:
        rng = np.random.default_rng(layer)
        X = rng.standard_normal((EXAMPLES + FRESH, SEQ_LEN, truth.dim))
    return truth, X, np.asarray(truth(X))


def _allowed(ours: dict[str, Any], minutes: float | None) -> float:
    """Seconds of a student."""
    return 60.0 * minutes if minutes else round(ours["fit_seconds"], 1)


def _trained(
    store: Store, kind: str, layer: int, name: str, allowed: float
) -> dict[str, Any] | None:
    """The student that was trained for at least so long, if there is one."""
    peer = store.get(kind, layer, name)
    return peer if peer is not None and peer["allowed"] >= allowed else None


class _FitClock(Listener):
    """Processor time until the fit is at its end."""

    def __init__(self) -> None:
        self._began, self.seconds = clock(), 0.0

    def phase_ended(self, name: str, figures: dict[str, Any], recalled: bool) -> None:
        if name.startswith("fit"):
            self.seconds = clock() - self._began


def _error(layer: gradine.AttentionLayer, X: Array, Y: Array) -> float:
    """Relative RMS error on the fresh examples."""
    X, Y = X[EXAMPLES:], Y[EXAMPLES:]
    return float(np.sqrt(np.sum((layer(X) - Y) ** 2) / np.sum(Y**2)))


def _ours(layer: int, text: bool, keep: Path | None) -> dict[str, Any]:
    truth, X, Y = examples(layer, text)
    finish = FinishConfig(least_misfit=ENOUGH)
    if text:
        finish = replace(finish, last_steps=TEXT_STEPS)
    exact = ExactConfig(rank=RANK, deflate=DeflateConfig(finish=finish))
    config = gradine.LearnConfig(validation_examples=200, certify_examples=400, exact=exact)
    X_seen, Y_seen = X[:EXAMPLES], Y[:EXAMPLES]
    fitted, began, wall = _FitClock(), clock(), time.perf_counter()
    fit = gradine.learn(
        X_seen, Y_seen, heads=HEADS, method="exact", seed=0, config=config, listener=fitted
    )
    spent, wall = clock() - began, time.perf_counter() - wall
    found = fit.candidate
    assert found is not None
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        found.save(keep / f"{'text' if text else 'gaussian'}-{layer}.safetensors")
    match = gradine.compare(found, truth, examples=1, seq_len=SEQ_LEN)
    return {
        "error": _error(found, X, Y),
        "fit_seconds": fitted.seconds,
        "seconds": spent,
        "wall": wall,
        "status": fit.status.code,
        "theta_errors": match.theta_error.tolist(),
        "w_errors": match.w_error.tolist(),
        **_bars(fit, match.order),
        "load": os.getloadavg()[0],
    }


def _bars(fit: gradine.Fit, order: NDArray[np.intp]) -> dict[str, Any]:
    """Error bars of the heads in the order of the true ones, where there are any."""
    known = fit.phases.get("identify")
    if known is None or not known.determined or np.any(order < 0):
        return {}
    return {
        "theta_bars": known.theta_bars[order].tolist(),
        "w_bars": known.w_bars[order].tolist(),
    }


def _over_bars(ours: dict[str, Any]) -> str:
    """The largest error of a head over its bar."""
    if "theta_bars" not in ours:
        return "-"
    pairs = (zip(ours[f"{x}_errors"], ours[f"{x}_bars"], strict=True) for x in ("theta", "w"))
    return f"{max(error / bar for pair in pairs for error, bar in pair):.2g}"


def _peer(layer: int, text: bool, name: str, allowed: float) -> dict[str, Any]:
    truth, X, Y = examples(layer, text)
    shape = Shape(HEADS, truth.dim + 1, truth.out_dim, RANK)
    X = np.concatenate([X, np.ones((*X.shape[:2], 1))], axis=2)  # its biases
    began = clock()
    student, how = PEERS[name](X[:EXAMPLES], Y[:EXAMPLES], shape, allowed, layer)
    spent = clock() - began
    return {
        "error": _error(student, X, Y),
        "allowed": allowed,
        "seconds": spent,
        **how,
        "load": os.getloadavg()[0],
    }


def _line(record: dict[str, Any]) -> str:
    kept = {name: value for name, value in record.items() if name not in ("build", "key")}
    return json.dumps(kept, default=str)


def _write(store: Store, out: Path, minutes: float | None) -> None:
    """The table of all that is in the store, and the same as JSON."""
    lines, kept = [], []
    for kind in ("gaussian", "text"):
        for layer in range(LAYERS):
            ours = store.get(kind, layer, "ours")
            if ours is None:
                continue
            allowed = _allowed(ours, minutes)
            peers = {name: _trained(store, kind, layer, name, allowed) for name in PEERS}
            kept.append({"tokens": kind, "layer": layer, "ours": ours, **peers})
            errors = [peer["error"] for peer in peers.values() if peer]
            right = sum(error <= 1e-3 for error in ours["theta_errors"])
            lines.append(
                [
                    kind,
                    str(layer),
                    f"{ours['error']:.1e}",
                    f"{right} of {HEADS}",
                    _over_bars(ours),
                    f"{seconds(ours['fit_seconds'])} / {seconds(ours['seconds'])}",
                    *(f"{peer['error']:.2g}" if peer else "-" for peer in peers.values()),
                    short(min(errors) / ours["error"]) if errors else "-",
                    ours["status"],
                ]
            )
    header = [
        "tokens",
        "layer",
        "our error",
        "heads to 1e-3",
        "largest error of a head over its bar",
        "seconds of the fit / whole call",
        *PEERS,
    ]
    table = markdown([*header, "best peer over ours", "status"], lines)
    long = f"{minutes:g} minutes" if minutes else "as long as our fit took, or longer"
    text = (
        "# MiniLM's attention layers from examples\n\n"
        f"`python -m benchmarks.passive`; {EXAMPLES:,} sequences of {SEQ_LEN} tokens. Errors are\n"
        f"relative RMS errors on {FRESH} fresh sequences. Students have the factors of {HEADS}\n"
        f"heads of rank {RANK}, and train in single precision for {long}.\n"
        "Seconds are processor time of one thread.\n\n"
    )
    out.write_text(f"{text}{table}\n\nMeasured by {store.builds}.\n")
    out.with_suffix(".json").write_text(json.dumps(kept, indent=1) + "\n")
    print(table)


if __name__ == "__main__":
    main()
