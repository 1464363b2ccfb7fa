"""Steps of a student: the loss with its gradient, Adam on batches, L-BFGS on one of them."""

from __future__ import annotations

import contextlib
import math
from typing import Any, Literal

import numpy as np

from gradine.students.config import StudentConfig
from gradine.students.model import forward

__all__ = [
    "OPTIMIZERS",
    "Optimizer",
    "adam",
    "lbfgs",
    "lbfgs_steps",
    "loss_with_gradient",
    "mean_loss",
]

Optimizer = Literal["adam", "lbfgs"]
OPTIMIZERS: tuple[Optimizer, ...] = ("adam", "lbfgs")

EVERY = 10  # steps of Adam between looks at the loss, each of which waits for the arithmetic


class _Over(Exception):  # noqa: N818 (the way out of an optimizer, not an error)
    pass


def loss_with_gradient(X: Any, Y: Any, keys: Any, parameters: list[Any]) -> Any:
    """The mean squared error; its gradient is in the parameters afterwards."""
    import torch

    for parameter in parameters:
        parameter.grad = None
    loss = torch.mean((forward(X, keys, parameters) - Y) ** 2)
    loss.backward()
    return loss.detach()


def mean_loss(X: Any, Y: Any, parameters: list[Any], block: int) -> float:
    """The mean squared error over all examples, block by block."""
    import torch

    total = 0.0
    with torch.no_grad():
        for start in range(0, len(X), block):
            part, wanted = X[start : start + block], Y[start : start + block]
            made = forward(part, part.transpose(1, 2).contiguous(), parameters)
            total += float(torch.sum((made - wanted) ** 2))
    return total / Y.numel()


def lbfgs(evaluate: Any, parameters: list[Any], history: int) -> None:
    """One call to the end: with no tolerance it returns only where no step can be taken."""
    import torch

    torch.optim.LBFGS(
        parameters,
        max_iter=10**9,
        max_eval=10**9,
        history_size=history,
        line_search_fn="strong_wolfe",
        tolerance_grad=0.0,
        tolerance_change=0.0,
    ).step(evaluate)


def lbfgs_steps(X: Any, Y: Any, parameters: list[Any], enough: float, config: StudentConfig) -> int:
    """L-BFGS on all of X for a limited number of evaluations; how many it took.

    Over at a loss of ``enough``, and where the loss is no number any more.
    """
    keys, taken = X.transpose(1, 2).contiguous(), 0

    def evaluate() -> Any:
        nonlocal taken
        loss = loss_with_gradient(X, Y, keys, parameters)
        taken += 1
        if taken >= config.evaluations or not enough < float(loss) < math.inf:
            raise _Over
        return loss

    with contextlib.suppress(_Over):
        lbfgs(evaluate, parameters, config.history)
    return taken


def adam(
    X: Any,
    Y: Any,
    parameters: list[Any],
    batch: int,
    enough: float,
    config: StudentConfig,
    rng: np.random.Generator,
) -> int:
    """Adam with a rate that falls along half a cosine, on batches; how many steps it took.

    Each pass goes over all examples in a new order. Where one batch holds them all, every step
    does.
    """
    import torch

    rate, steps = config.rate, config.steps
    optimizer = torch.optim.Adam(parameters, lr=rate)
    batches = _batches(X, Y, batch, rng)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 0.5 * rate * (1.0 + math.cos(math.pi * step / steps))
        part, wanted, keys = next(batches)
        loss = loss_with_gradient(part, wanted, keys, parameters)
        if step % EVERY == 0 and not enough < float(loss) < math.inf:
            return step + 1
        optimizer.step()
    return steps


def _batches(X: Any, Y: Any, batch: int, rng: np.random.Generator) -> Any:
    """X, Y and the keys of one batch after the other, without end."""
    import torch

    n = len(X)
    if n <= batch:
        whole = X, Y, X.transpose(1, 2).contiguous()
        while True:
            yield whole
    while True:
        order = torch.from_numpy(rng.permutation(n))
        for start in range(0, n - batch + 1, batch):
            chosen = order[start : start + batch]
            part = X[chosen]
            yield part, Y[chosen], part.transpose(1, 2).contiguous()
