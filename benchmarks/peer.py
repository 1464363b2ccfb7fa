"""The opponent: a PyTorch student of the same architecture, trained by L-BFGS.

This is what a user would write in an afternoon: Theta and W of the right number of heads, a small
random start, full-batch L-BFGS with a strong-Wolfe line search over all parameters, in double
precision. It is told the number of heads, and its clock stops the moment its attention matrices
are right, which no user could see; its other starts are only tried where the first one fails.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gradine

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
    iterations: int = 10  #: between two looks at the clock and at the truth
    solved: float = 1e-6  #: theta_error at which the student is done
    patience: float = 10.0  #: a start is given up after this many times our own time


def torch_student(
    X: Array, Y: Array, truth: gradine.AttentionLayer, ours: float, seed: int, config: PeerConfig
) -> dict[str, Any]:
    """Train until the truth is found; seconds are summed over the starts it took."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    X, Y = X[: config.examples], Y[: config.examples]
    tokens, outputs = torch.from_numpy(X), torch.from_numpy(Y)
    spent, errors = 0.0, []
    for _ in range(config.starts):
        parameters = [
            torch.randn(shape, generator=generator, dtype=torch.float64) * config.std
            for shape in (truth.theta.shape, truth.w.shape)
        ]
        seconds, error = _train(tokens, outputs, parameters, truth, config.patience * ours, config)
        spent += seconds
        errors.append(error)
        if error <= config.solved:
            break
    return {
        "solved": errors[-1] <= config.solved,
        "seconds": spent,
        "starts": len(errors),
        "theta_errors": errors,
        "examples": len(X),
        "threads": torch.get_num_threads(),
    }


def _train(
    X: Any,
    Y: Any,
    parameters: list[Any],
    truth: gradine.AttentionLayer,
    allowed: float,
    config: PeerConfig,
) -> tuple[float, float]:
    """One start: its seconds, without those spent on comparing, and its theta_error."""
    import torch

    theta, w = (parameter.requires_grad_() for parameter in parameters)
    optimizer = torch.optim.LBFGS(
        [theta, w],
        max_iter=config.iterations,
        history_size=config.history,
        line_search_fn="strong_wolfe",
        tolerance_grad=1e-15,
        tolerance_change=1e-18,
    )

    def closure() -> Any:
        optimizer.zero_grad()
        loss = torch.mean((_forward(X, theta, w) - Y) ** 2)
        loss.backward()
        return loss

    spent, error, before = 0.0, np.inf, -1
    while spent < allowed:
        began = time.perf_counter()
        loss = float(optimizer.step(closure).detach())
        spent += time.perf_counter() - began
        if not np.isfinite(loss):
            return spent, np.inf
        error = _theta_error(theta, w, truth)
        done = optimizer.state[theta]["n_iter"]
        if error <= config.solved or done == before:  # solved, or no step can be taken
            break
        before = done
    return spent, error


def _forward(X: Any, theta: Any, w: Any) -> Any:
    """All heads in one product each for queries and values."""
    n, k, d = X.shape
    m, _, o = w.shape
    flat = X.reshape(n * k, d)
    queries = (flat @ theta.permute(1, 0, 2).reshape(d, m * d)).reshape(n, k, m, d)
    values = (flat @ w.permute(1, 0, 2).reshape(d, m * o)).reshape(n, k, m, o)
    logits = queries.permute(0, 2, 1, 3) @ X.transpose(1, 2).unsqueeze(1)
    return (logits.softmax(dim=-1) @ values.permute(0, 2, 1, 3)).sum(dim=1)


def _theta_error(theta: Any, w: Any, truth: gradine.AttentionLayer) -> float:
    student = gradine.AttentionLayer(theta.detach().numpy(), w.detach().numpy())
    return float(gradine.compare(student, truth, examples=1).theta_error.max())
