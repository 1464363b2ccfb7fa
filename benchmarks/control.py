"""The control: what does the polish reach without the six phases?

A run of the learner ends with nonlinear least squares over all parameters. On small random
instances that alone may find the heads, from a random start. Where it does, an exact answer says
nothing about the six phases; what they reach themselves stands in the theorem's own columns.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gradine
from gradine.sculpt.config import SculptConfig
from gradine.solvers.levenberg import levenberg_marquardt

__all__ = ["polish_alone"]

Array = NDArray[np.float64]

STD = 0.1  # of the random start, like that of the PyTorch student
SOLVED = 1e-6


def polish_alone(
    X: Array, Y: Array, truth: gradine.AttentionLayer, seed: int, starts: int = 3
) -> dict[str, Any]:
    """The learner's last step from a random start, with as many examples as it has there."""
    config, rng = SculptConfig(), np.random.default_rng(seed)
    bound = (truth.theta.size + truth.w.size) / (X.shape[1] * truth.out_dim)
    count = max(200, int(config.polish_examples * bound))
    X, Y = X[:count], Y[:count]
    spent, errors = 0.0, []
    for _ in range(starts):
        theta, w = (STD * rng.standard_normal(start.shape) for start in (truth.theta, truth.w))
        began = time.perf_counter()
        fit = levenberg_marquardt(X, Y, theta, w, steps=config.polish_steps)
        spent += time.perf_counter() - began
        found = gradine.AttentionLayer(fit.theta, fit.w)
        errors.append(float(gradine.compare(found, truth, examples=1).theta_error.max()))
        if errors[-1] <= SOLVED:
            break
    return {
        "solved": errors[-1] <= SOLVED,
        "seconds": spent,
        "starts": len(errors),
        "theta_errors": errors,
        "examples": len(X),
    }
