"""The learner that is gradient descent: a student of the right size, from several random starts.

It sees examples, the number of heads and their rank, and nothing else. Nothing is certified: a
small loss on the examples that were fitted is all that it has to show. Steps are counted and not
timed, so that the same seed gives the same answer on any machine that is as exact.
"""

from __future__ import annotations

import importlib.util
import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine.checks import whole_number
from gradine.examples import ArrayExamples
from gradine.layer import AttentionLayer
from gradine.students.config import StudentConfig
from gradine.students.descent import OPTIMIZERS, Optimizer, adam, lbfgs_steps, mean_loss
from gradine.students.model import Shape, layer_of, random_start

__all__ = ["StudentConfig", "StudentFit", "learn_by_descent", "require_torch"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StudentFit:
    """The best student of all starts."""

    layer: AttentionLayer | None  #: None: every start ended in numbers that are none
    loss: float  #: squared error over that of zero, on the examples that were given
    steps: int  #: of all starts
    starts: int
    seconds: float


def require_torch(what: str) -> None:
    """``ValueError`` where PyTorch is not installed."""
    if importlib.util.find_spec("torch") is None:
        raise ValueError(f"{what} needs PyTorch, which is not installed (pip install torch)")


def learn_by_descent(
    X: Array,
    Y: Array,
    heads: int,
    optimizer: Optimizer = "adam",
    seed: int = 0,
    *,
    rank: int | None = None,
    config: StudentConfig | None = None,
) -> StudentFit:
    r"""Fit all :math:`\Theta_i, W_i` at once to :math:`\min \sum_n |F(X_n) - Y_n|^2`.

    ``X`` (n, k, d) and ``Y`` (n, k, d_out) are examples. With ``rank`` the student has factors
    :math:`\Theta_i = U_i V_i^\top`, :math:`W_i = A_i B_i` of that rank. Adam computes in single
    precision, L-BFGS in double.

    >>> import gradine
    >>> truth = gradine.plant(heads=1, dim=4, scale=2.0, seed=0)
    >>> X = gradine.sample_inputs(60, seq_len=3, dim=4, seed=1)
    >>> fit = learn_by_descent(X, truth(X), heads=1, optimizer="lbfgs")
    >>> bool(gradine.compare(fit.layer, truth).theta_error.max() < 1e-3)
    True
    """
    require_torch("gradient descent")
    config = StudentConfig() if config is None else config
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"optimizer is {optimizer!r}; expected one of {', '.join(OPTIMIZERS)}")
    whole_number("heads", heads, 1)
    examples = ArrayExamples(X, Y)
    if rank is not None and whole_number("rank", rank, 1) > examples.dim:
        raise ValueError(f"rank is {rank}; expected at most {examples.dim}, the size of a token")
    began = time.perf_counter()
    training = _Training(examples, Shape(heads, examples.dim, examples.out_dim, rank), config)
    best, least, steps, starts = None, math.inf, 0, 0
    for start in range(config.starts):
        parameters, loss, taken = training.run(optimizer, seed, start)
        steps, starts = steps + taken, starts + 1
        if loss < least:
            best, least = parameters, loss
        if least <= config.enough:
            break
    layer = None if best is None else layer_of(best)
    return StudentFit(layer, least, steps, starts, time.perf_counter() - began)


class _Training:
    """Examples as tensors, and one start after another."""

    def __init__(self, examples: ArrayExamples, shape: Shape, config: StudentConfig) -> None:
        import torch

        self.shape, self.config = shape, config
        self.X, self.Y = (torch.from_numpy(a) for a in examples.block(0, examples.n))
        self.size = float(torch.mean(self.Y**2)) or 1.0
        narrow = shape.rank or shape.dim
        unknowns = shape.heads * narrow * (3 * shape.dim + shape.out_dim - 2 * narrow)
        bound = unknowns / (examples.seq_len * shape.out_dim)
        self.batch = max(config.batch, math.ceil(config.per_bound * bound))

    def run(self, optimizer: Optimizer, seed: int, start: int) -> tuple[list[Any], float, int]:
        """Parameters, their loss over all examples, and steps; of Adam or of L-BFGS."""
        import torch

        config = self.config
        generator = torch.Generator().manual_seed(1000 * seed + start)
        kind = torch.float32 if optimizer == "adam" else torch.float64
        X, Y, enough = self.X.to(kind), self.Y.to(kind), config.enough * self.size
        parameters = [
            p.to(kind).requires_grad_() for p in random_start(self.shape, config.std, generator)
        ]
        if optimizer == "adam":
            rng = np.random.default_rng([seed, start])
            steps = adam(X, Y, parameters, self.batch, enough, config, rng)
        else:
            few = slice(self.batch)
            steps = lbfgs_steps(X[few], Y[few], parameters, enough, config)
        found = [p.detach().double() for p in parameters]
        finite = all(bool(torch.isfinite(p).all()) for p in found)
        loss = mean_loss(self.X, self.Y, found, self.batch) / self.size if finite else math.inf
        return found, loss if math.isfinite(loss) else math.inf, steps
