"""PyTorch students of a wide layer: Adam on minibatches, L-BFGS on as many examples as it can use.

Both have the factors Q, K, V, O of the right number of heads and the right rank, biases as a
constant coordinate, and the same processor time as our learner, on one thread as it has. A tenth
of it goes into the choice of the learning rate (Adam) or of the number of examples (L-BFGS), by the
loss on examples that are not trained on; the rest goes to the winner. Adam's rate then falls to
zero along a cosine.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gradine
from benchmarks.clock import clock
from gradine.students.model import Shape, forward, layer_of, random_start

__all__ = ["RATES", "SIZES", "train_adam", "train_lbfgs"]

Array = NDArray[np.float64]

RATES = (3e-4, 1e-3, 3e-3)
SIZES = (512, 2048)  # examples of L-BFGS
BATCH = 128  # sequences
TRIAL = 0.1  # share of the time that the choice takes
CHECK = 256  # examples that judge the choice
STD = 0.05  # of the entries of Theta and W at the start


def train_adam(
    X: Array, Y: Array, shape: Shape, seconds: float, seed: int
) -> tuple[gradine.AttentionLayer, dict[str, Any]]:
    """The student after ``seconds``, and how it was trained."""
    trials = {rate: _adam(X, Y, shape, seconds * TRIAL / len(RATES), rate, seed) for rate in RATES}
    rate = min(trials, key=lambda r: _loss(trials[r][0], X[:CHECK], Y[:CHECK]))
    parameters, steps = _adam(X, Y, shape, seconds * (1.0 - TRIAL), rate, seed)
    return layer_of(parameters), {"rate": rate, "steps": steps}


def train_lbfgs(
    X: Array, Y: Array, shape: Shape, seconds: float, seed: int
) -> tuple[gradine.AttentionLayer, dict[str, Any]]:
    trials = {n: _lbfgs(X, Y, shape, seconds * TRIAL / len(SIZES), n, seed) for n in SIZES}
    size = min(trials, key=lambda n: _loss(trials[n][0], X[:CHECK], Y[:CHECK]))
    parameters, steps = _lbfgs(X, Y, shape, seconds * (1.0 - TRIAL), size, seed)
    return layer_of(parameters), {"examples": size, "steps": steps}


def _start(shape: Shape, seed: int) -> list[Any]:
    import torch

    generator = torch.Generator().manual_seed(seed)
    start = random_start(shape, STD, generator)
    return [p.float().requires_grad_() for p in start]


def _adam(
    X: Array, Y: Array, shape: Shape, seconds: float, rate: float, seed: int
) -> tuple[list[Any], int]:
    import torch

    parameters, rng = _start(shape, seed), np.random.default_rng(seed)
    adam = torch.optim.Adam(parameters, lr=rate)
    began, steps = clock(), 0
    while (spent := clock() - began) < seconds:
        for group in adam.param_groups:
            group["lr"] = 0.5 * rate * (1.0 + math.cos(math.pi * spent / seconds))
        chosen = CHECK + rng.integers(len(X) - CHECK, size=BATCH)
        batch = torch.from_numpy(X[chosen]).float()
        adam.zero_grad()
        loss = torch.mean((forward(batch, None, parameters) - torch.from_numpy(Y[chosen])) ** 2)
        loss.backward()
        adam.step()
        steps += 1
    return [p.detach() for p in parameters], steps


class _Over(Exception):  # noqa: N818 (the way out of an optimizer, not an error)
    pass


def _lbfgs(
    X: Array, Y: Array, shape: Shape, seconds: float, size: int, seed: int
) -> tuple[list[Any], int]:
    import torch

    parameters = _start(shape, seed)
    tokens, labels = (torch.from_numpy(a[CHECK : CHECK + size]).float() for a in (X, Y))
    began, best = clock(), (math.inf, [p.detach().clone() for p in parameters])
    steps = 0

    def evaluate() -> Any:
        nonlocal best, steps
        for p in parameters:
            p.grad = None
        loss = torch.mean((forward(tokens, None, parameters) - labels) ** 2)
        loss.backward()
        steps += 1
        if float(loss.detach()) < best[0]:
            best = float(loss.detach()), [p.detach().clone() for p in parameters]
        if clock() - began > seconds:
            raise _Over
        return loss

    # Without tolerances it returns only where it can take no step; then it begins again, without
    # its memory of the way.
    with contextlib.suppress(_Over):
        while True:
            torch.optim.LBFGS(
                parameters,
                max_iter=10**9,
                max_eval=10**9,
                history_size=30,
                line_search_fn="strong_wolfe",
                tolerance_grad=0.0,
                tolerance_change=0.0,
            ).step(evaluate)
    return best[1], steps


def _loss(parameters: list[Any], X: Array, Y: Array) -> float:
    import torch

    with torch.no_grad():
        made = forward(torch.from_numpy(X).float(), None, [p.float() for p in parameters])
    loss = float(torch.mean((made - torch.from_numpy(Y)) ** 2))
    return loss if math.isfinite(loss) else math.inf
