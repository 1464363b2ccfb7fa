"""The opponent of the six phases: a PyTorch student trained by L-BFGS.

This is what a user would write in an afternoon: Theta and W of the right number of heads, a small
random start, full-batch L-BFGS with a strong-Wolfe line search over all parameters, in double
precision. It is told the number of heads, and its clock stops the moment its attention matrices
are right, which no user could see; its other starts are only tried where the first one fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gradine
from benchmarks.train import TrainConfig, theta_error_to, train
from gradine.students.model import Shape, random_start

__all__ = ["PeerConfig", "torch_student"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PeerConfig:
    """Settings of the student, the same for every row."""

    #: The first so many: forty times the counting bound or more. Of 300, 1,000 and 2,000 this
    #: number was best for the student; more only make its steps slower.
    examples: int = 1000
    starts: int = 3
    std: float = 0.1  #: of the random start
    history: int = 50
    solved: float = 1e-6  #: theta_error at which the student is done
    patience: float = 10.0  #: a start is given up after this many times our own time


def torch_student(
    X: Array, Y: Array, truth: gradine.AttentionLayer, ours: float, seed: int, config: PeerConfig
) -> dict[str, Any]:
    """Train until the truth is found; seconds are summed over the starts it took."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    X, Y = X[: config.examples], Y[: config.examples]
    shape = Shape(truth.n_heads, truth.dim, truth.out_dim)
    settings = TrainConfig(solved=config.solved, history=config.history)
    runs = []
    for _ in range(config.starts):
        start = random_start(shape, config.std, generator)
        allowed, error_of = config.patience * ours, theta_error_to(truth)
        runs.append(train("lbfgs", (X, Y), start, allowed, error_of=error_of, config=settings))
        if runs[-1].solved:
            break
    return {
        "solved": runs[-1].solved,
        "seconds": sum(run.seconds for run in runs),
        "starts": len(runs),
        "theta_errors": [run.error for run in runs],
        "examples": len(X),
        "threads": torch.get_num_threads(),
    }
