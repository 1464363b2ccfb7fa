"""Faults at random moments: every answer must be the same, and next to nothing done twice."""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import gradine
from benchmarks import striking
from gradine.engine import bookmark, open_engine
from gradine.engine.crew import IN_FLIGHT
from gradine.examples import ArrayExamples, Examples
from gradine.fit import LearnConfig
from gradine.learn import learn_examples

__all__ = ["FAULTS", "inject", "summary"]

FAULTS = ("worker", "run", "block")
WORKERS = 2
TRIES = 20  # moments that are drawn before a run counts as too short
SEED = 5


class Watched(Examples):
    """Examples that write down who reads them, and fail once where they are told to."""

    def __init__(self, examples: Examples, folder: Path, size: int, bad: int) -> None:
        self._all, self._folder, self._size, self._bad = examples, folder, size, bad
        self.name, self.n, self.seq_len = examples.name, examples.n, examples.seq_len
        self.dim, self.out_dim = examples.dim, examples.out_dim

    def block(self, start: int, stop: int) -> tuple[Any, Any]:
        if start % self._size == 0 and stop == min(start + self._size, self.n):  # of a pass
            with (self._folder / "log").open("a") as log:
                log.write(f"{start} {os.getpid()} {time.monotonic()}\n")
            mark = self._folder / "failed"
            if start == self._bad and not mark.exists():
                mark.touch()
                raise OSError("a failure on purpose")
        return self._all.block(start, stop)


def inject(fault: str | None, seed: int, examples: int, block: int, within: float = 0.0) -> dict:
    """One run with a fault at a random moment of its first seconds; resumed until it ends.

    ``within`` are the seconds that a run without a fault takes, from its first block on.

    A run that ended before its fault is none: another moment is drawn.
    """
    chance = random.Random(seed)
    for _ in range(TRIES):
        found = _attempt(fault, chance, examples, block, within)
        if found["struck"]:
            return {"fault": fault, "seed": seed, **found}
    raise RuntimeError(f"fault {fault!r} of seed {seed} came too late {TRIES} times")


def _attempt(
    fault: str | None, chance: random.Random, examples: int, block: int, within: float
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bad = block * chance.randrange(examples // block) if fault == "block" else -1
        command = [sys.executable, "-m", "benchmarks.scale.faults", name]
        command += [str(examples), str(block), str(bad)]
        runs, wait, struck = 0, chance.uniform(0.0, within), fault in (None, "block")
        came = fault is None
        while True:
            runs += 1
            process = subprocess.Popen(command, cwd=Path(__file__).parent.parent.parent)
            if not struck:
                struck = came = striking.struck(
                    process,
                    lambda process: _strike(fault, process, folder, chance),
                    wait,
                    lambda: _begun(folder),
                )
            if process.wait() == 0:
                break
            if runs > 3:
                raise RuntimeError(f"a run with fault {fault!r} did not end")
        log = [line.split() for line in (folder / "log").read_text().splitlines()]
        reads = Counter(start for start, _, _ in log)
        moments = [float(moment) for _, _, moment in log]
        answer = (folder / "answer").read_text()
        came = came or (fault == "block" and (folder / "failed").exists())
    return {
        "runs": runs,
        "answer": answer,
        "reads": sum(reads.values()),
        "struck": came,
        "seconds": max(moments) - min(moments),
    }


def _begun(folder: Path) -> bool:
    return (folder / "log").exists()


def _strike(fault: str | None, process: Any, folder: Path, chance: random.Random) -> bool:
    """Kill the run, or one of its workers; whether there was one to kill."""
    if fault == "run":
        return striking.killed(process)
    pids = [int(line.split()[1]) for line in (folder / "log").read_text().splitlines()]
    workers = sorted({pid for pid in pids if pid != process.pid})
    if not workers:
        return False
    try:
        os.kill(chance.choice(workers[-WORKERS:]), signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """``found[0]`` is the run without a fault."""
    calm, *others = found
    twice = [run["reads"] - calm["reads"] for run in others]
    return {
        "faults": len(others),
        "kinds": {kind: sum(run["fault"] == kind for run in others) for kind in FAULTS},
        "identical": sum(run["answer"] == calm["answer"] for run in others),
        "blocks": calm["reads"],
        "blocks_twice": sum(twice),
        "most_blocks_twice": max(twice, default=0),
        "in_flight": IN_FLIGHT * WORKERS,
    }


def run(folder: Path, examples: int, block: int, bad: int) -> None:
    """What the process does that faults are injected into."""
    bookmark.SHORT, bookmark.OVERHEAD = 0.0, 1e9  # every block is saved
    truth = gradine.plant(2, 8, 3.0, seed=0)
    X = gradine.sample_inputs(examples, 3, 8, seed=SEED)
    watched = Watched(ArrayExamples(X, truth(X)), folder, block, bad)
    with open_engine("pool", WORKERS) as engine:
        fit = learn_examples(
            watched,
            2,
            "sculpt",
            config=LearnConfig(block_size=block),
            records=folder / "run",
            resume=True,
            engine=engine,
        )
    assert fit.layer is not None, fit.reason
    numbers = np.concatenate([fit.layer.theta.ravel(), fit.layer.w.ravel()])
    (folder / "answer").write_text(hashlib.sha256(numbers.tobytes()).hexdigest())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    for name in ("examples", "block", "bad"):
        parser.add_argument(name, type=int)
    run(**vars(parser.parse_args()))
