"""Train a PyTorch student full-batch, by Adam or by L-BFGS, against a clock.

The clock counts evaluations and steps of the optimizer; what is done to see whether the student
has found the truth, which no user could see, is off the clock.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gradine
from gradine.students.descent import Optimizer, lbfgs, loss_with_gradient
from gradine.students.model import layer_of

__all__ = ["Run", "TrainConfig", "theta_error_to", "train"]

Array = NDArray[np.float64]
ErrorOf = Callable[[gradine.AttentionLayer], float]

LOOK = 1e-6  # relative squared loss above which no student has its attention matrices right


@dataclass(frozen=True)
class TrainConfig:
    """Settings of the training, chosen to be good for the student."""

    solved: float = 1e-6  #: theta_error at which the student is done
    history: int = 50  #: of L-BFGS
    #: Relative squared loss at which float64 takes over from float32; 0: float64 from the start.
    single_until: float = 0.0
    plateau: int = 100  #: Adam's rate is halved after so many steps without progress
    lowest_rate: float = 1e-5
    clock: Callable[[], float] = time.perf_counter


@dataclass(frozen=True, eq=False)
class Run:
    """How one start went."""

    parameters: list[Any]
    seconds: float
    error: float  #: theta_error at the end; nan where nobody looked
    loss: float  #: squared error over that of zero, at the end
    evaluations: int
    solved: bool


class _Stop(Exception):  # noqa: N818 (the way out of an optimizer, not an error)
    pass


class _Watch:
    """Counts seconds and evaluations, and stops the optimizer when there is nothing more to do."""

    def __init__(
        self, total: float, allowed: float, error_of: ErrorOf | None, config: TrainConfig
    ) -> None:
        self.total, self.allowed, self.error_of, self.config = total, allowed, error_of, config
        self.spent, self.evaluations, self.loss = 0.0, 0, math.inf
        self.solved, self.floor = False, 0.0
        self._since = config.clock()

    def start(self, floor: float) -> None:
        """Go on until the loss is at ``floor``."""
        self.floor, self._since = floor, self.config.clock()

    def look(self, loss: float, parameters: list[Any]) -> None:
        self.spent += self.config.clock() - self._since
        self.evaluations += 1
        self.loss = loss / self.total
        if self.error_of is not None and self.loss < LOOK:
            self.solved = self.error_of(layer_of(parameters)) <= self.config.solved
        over = self.spent >= self.allowed or not math.isfinite(self.loss)
        if self.solved or over or self.loss <= self.floor:
            raise _Stop
        self._since = self.config.clock()

    @property
    def over(self) -> bool:
        return self.solved or self.spent >= self.allowed or not math.isfinite(self.loss)


def theta_error_to(truth: gradine.AttentionLayer) -> ErrorOf:
    """The largest relative error of an attention matrix."""

    def error_of(layer: gradine.AttentionLayer) -> float:
        return float(gradine.compare(layer, truth, examples=1).theta_error.max())

    return error_of


def train(
    optimizer: Optimizer,
    data: tuple[Array, Array],
    start: list[Any],
    allowed: float,
    *,
    error_of: ErrorOf | None = None,
    rate: float = 1e-2,
    enough: float = 0.0,
    config: TrainConfig | None = None,
) -> Run:
    """Train until ``error_of`` says solved, the loss is ``enough`` or ``allowed`` seconds pass."""
    import torch

    config = config or TrainConfig()
    X, Y = (torch.from_numpy(np.ascontiguousarray(array)) for array in data)
    watch = _Watch(float((Y**2).mean()), allowed, error_of, config)
    parameters = start
    stages = [(torch.float32, max(config.single_until, enough))] if config.single_until else []
    for kind, floor in [*stages, (torch.float64, enough)]:
        parameters = [p.detach().to(kind).clone().requires_grad_() for p in parameters]
        watch.start(floor)
        with contextlib.suppress(_Stop):
            _optimize(optimizer, X.to(kind), Y.to(kind), parameters, rate, watch)
        if watch.over:
            break
    parameters = [p.detach().double() for p in parameters]
    finite = all(bool(torch.isfinite(p).all()) for p in parameters)
    error = math.inf
    if error_of is not None and finite:
        error = error_of(layer_of(parameters))
    return Run(parameters, watch.spent, error, watch.loss, watch.evaluations, watch.solved)


def _optimize(
    optimizer: str, X: Any, Y: Any, parameters: list[Any], rate: float, watch: _Watch
) -> None:
    def evaluate() -> Any:
        loss = loss_with_gradient(X, Y, keys, parameters)
        watch.look(float(loss), parameters)
        return loss

    keys = X.transpose(1, 2).contiguous()
    if optimizer == "adam":
        _adam(evaluate, parameters, rate, watch)
    else:
        lbfgs(evaluate, parameters, watch.config.history)


def _adam(evaluate: Any, parameters: list[Any], rate: float, watch: _Watch) -> None:
    import torch

    adam = torch.optim.Adam(parameters, lr=rate)
    lowest, idle, config = math.inf, 0, watch.config
    while True:
        evaluate()
        adam.step()
        if watch.loss < 0.98 * lowest:
            lowest, idle = watch.loss, 0
            continue
        idle += 1
        if idle > config.plateau:
            idle = 0
            for group in adam.param_groups:
                group["lr"] = max(group["lr"] / 2.0, config.lowest_rate)
