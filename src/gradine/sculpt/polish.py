"""After the theorem: nonlinear least squares over all parameters, from the answer of phase 6.

This is not part of the paper. Its answer is reported apart from the theorem's own, and is checked
on the same validation examples.
"""

from __future__ import annotations

import time

import numpy as np

from gradine.examples import FittingData
from gradine.sculpt.config import SculptConfig
from gradine.sculpt.results import Polished, Searched
from gradine.sculpt.search import relative_error, square
from gradine.solvers.levenberg import levenberg_marquardt

__all__ = ["polish"]


def polish(data: FittingData, start: Searched, config: SculptConfig, seed: int) -> Polished:
    """Refine every parameter; where there are too many, say so and hand the start on."""
    began = time.perf_counter()
    parameters = start.theta.size + start.w.size
    if parameters > config.polish_parameters:
        return Polished(
            theta=start.theta,
            w=start.w,
            losses=np.zeros(0),
            validation_error=start.validation_error,
            examples=0,
            skipped=f"{parameters} parameters; at most {config.polish_parameters} are polished",
            seconds=time.perf_counter() - began,
        )
    bound = parameters / (data.seq_len * data.out_dim)
    X, Y = data.sample(max(200, int(config.polish_examples * bound)), seed)
    fit = levenberg_marquardt(X, Y, start.theta, start.w, steps=config.polish_steps)
    error = relative_error(square(fit.theta, data.width), fit.w, *data.validation())
    return Polished(
        theta=fit.theta,
        w=fit.w,
        losses=fit.losses,
        validation_error=error,
        examples=len(X),
        skipped="",
        seconds=time.perf_counter() - began,
    )
