"""The peers: PyTorch students by Adam and by L-BFGS, and expand-and-cluster, on the same examples.

They are treated generously. They are told the number of heads (and the rank); their clocks stop
the moment their attention matrices are right, which no user could see; and of all starts only the
fastest that succeeds is counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gradine
from benchmarks.clock import clock
from benchmarks.exact.expand import expand_and_cluster
from benchmarks.train import ErrorOf, Optimizer, Run, TrainConfig, theta_error_to, train
from gradine.students.model import Shape, random_start

__all__ = ["RIVALS", "Rivals", "run_rivals"]

Array = NDArray[np.float64]

RIVALS = ("adam", "lbfgs", "expand")
TRIAL = 0.25  # of the time allowed, for each learning rate, when one is chosen


@dataclass(frozen=True)
class Rivals:
    """Settings of the peers."""

    rates: tuple[float, ...] = (3e-3, 1e-2, 3e-2)  #: of Adam
    starts: int = 3
    #: Of the random start. Of 0.1, 0.03, 0.01 and 0.003 one of the last two was best everywhere.
    std: float = 0.01
    patience: float = 10.0  #: a start is given up after this many times our own time
    least: float = 0.0  #: seconds that a start gets in any case
    expand: bool = True
    #: Steps in float32 are up to four times faster; from a small loss on float64 is needed.
    train: TrainConfig = field(default_factory=lambda: TrainConfig(single_until=1e-4, clock=clock))

    def allowed(self, ours: float) -> float:
        return max(self.least, self.patience * ours)


@dataclass(frozen=True, eq=False)
class _Arena:
    """One instance: the examples, the student that fits, the clock."""

    data: tuple[Array, Array]
    shape: Shape
    error_of: ErrorOf
    allowed: float
    seed: int
    config: Rivals

    def generator(self, start: int) -> Any:
        import torch

        return torch.Generator().manual_seed(1000 * self.seed + start)

    def student(self, optimizer: Optimizer, start: int, allowed: float, rate: float) -> Run:
        parameters = random_start(self.shape, self.config.std, self.generator(start))
        return train(
            optimizer,
            self.data,
            parameters,
            allowed,
            error_of=self.error_of,
            rate=rate,
            config=self.config.train,
        )

    def expanded(self, optimizer: Optimizer, start: int, allowed: float, rate: float) -> Run:
        return expand_and_cluster(
            self.data,
            self.shape,
            self.config.std,
            self.generator(start),
            allowed,
            optimizer=optimizer,
            rate=rate,
            error_of=self.error_of,
            config=self.config.train,
        )


def run_rivals(
    X: Array,
    Y: Array,
    truth: gradine.AttentionLayer,
    rank: int | None,
    ours: float,
    seed: int,
    config: Rivals,
    rate: float | None = None,
) -> dict[str, Any]:
    """All peers on one instance; without a learning rate for Adam, one is chosen first."""
    shape = Shape(truth.n_heads, truth.dim, truth.out_dim, rank)
    arena = _Arena((X, Y), shape, theta_error_to(truth), config.allowed(ours), seed, config)
    tried: list[Run] = []
    if rate is None:
        rate, tried = _choose_rate(arena)
    found = {"adam": _best(arena, "adam", rate, tried), "lbfgs": _best(arena, "lbfgs", rate)}
    if config.expand:
        optimizer: Optimizer = min(("adam", "lbfgs"), key=lambda name: _rank(found[name]))
        found["expand"] = {**_best(arena, optimizer, rate, expand=True), "optimizer": optimizer}
    return {"rate": rate, "allowed": arena.allowed, **found}


def _choose_rate(arena: _Arena) -> tuple[float, list[Run]]:
    """Successive halving with two rounds: the rates get a part of the time, the best goes on."""
    rates, allowed = arena.config.rates, TRIAL * arena.allowed
    runs = [arena.student("adam", 0, allowed, rate) for rate in rates]
    order = [(not run.solved, run.seconds if run.solved else run.loss) for run in runs]
    order = [(failed, value if math.isfinite(value) else math.inf) for failed, value in order]
    return rates[order.index(min(order))], runs


def _best(
    arena: _Arena,
    optimizer: Optimizer,
    rate: float,
    tried: Sequence[Run] = (),
    expand: bool = False,
) -> dict[str, Any]:
    """The fastest start, those ``tried`` before too. One that cannot be fastest is stopped."""
    run_one = arena.expanded if expand else arena.student
    runs = list(tried)
    for start in range(arena.config.starts):
        fastest = min((run.seconds for run in runs if run.solved), default=math.inf)
        runs.append(run_one(optimizer, start, min(arena.allowed, fastest), rate))
    solved = [run for run in runs if run.solved]
    best = min(solved, key=lambda run: run.seconds) if solved else None
    losses = [run.loss for run in runs if math.isfinite(run.loss)]
    return {
        "solved": best is not None,
        "seconds": None if best is None else best.seconds,
        "evaluations": None if best is None else best.evaluations,
        "total": sum(run.seconds for run in runs),
        "starts_solved": len(solved),
        "loss": min(losses, default=None),
    }


def _rank(found: dict[str, Any]) -> tuple[bool, float]:
    """Solved before unsolved; then by time, or by loss."""
    value = found["seconds"] if found["solved"] else found["loss"]
    return not found["solved"], math.inf if value is None else value
