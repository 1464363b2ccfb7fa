"""The same map by one worker and by two, one right after the other."""

from __future__ import annotations

import os
import tempfile
import time
from typing import Any

from gradine.atlas import sweep

__all__ = ["measure", "page"]

GOAL = 1.7
#: Seconds of work in trials of tenths of a second, so that neither the start of the workers nor
#: the last trial counts.
GRID: dict[str, Any] = {
    "x": "scale:1,2,3,4",
    "y": "ratio:2,4,8",
    "fixed": {"heads": 4, "dim": 16, "seq_len": 4},
}
TRIALS, QUICK_TRIALS = 16, 1


def measure(quick: bool = False) -> dict[str, Any]:
    trials = QUICK_TRIALS if quick else TRIALS
    seconds, answers = {}, {}
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            made = sweep(**GRID, trials=trials, workers=workers, folder=folder)
            seconds[workers] = time.perf_counter() - began
            answers[workers] = made.success("exact").tolist()
    return {
        "seconds": seconds,
        "ratio": seconds[1] / seconds[2],
        "same": answers[1] == answers[2],
        "trials": trials * 12,
        "load": os.getloadavg()[0],
        "cores": os.cpu_count(),
    }


def page(found: dict[str, Any]) -> str:
    verdict = "holds" if found["ratio"] >= GOAL else "MISSED"
    same = "the same" if found["same"] else "DIFFERENT"
    return (
        f"{found['trials']} trials of the exact learner: {found['seconds'][1]:.1f} s by one "
        f"worker, {found['seconds'][2]:.1f} s by two, {found['ratio']:.2f} times as "
        f"fast (at least {GOAL}: {verdict}); {same} answers. "
        f"{found['cores']} cores, load {found['load']:.1f}."
    )
