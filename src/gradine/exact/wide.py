"""Fits of layers so wide that no step may form, or multiply by, a full attention matrix.

`gradine.exact.deflate` finds the heads and `gradine.solvers.narrow` fits them, all through factors.
Error bars go the same way (`gradine.exact.wide_bars`); what the other stages do with full matrices,
such as comparisons of fits under noise, is left out here, and said to be.
"""

from __future__ import annotations

import math
import time

import numpy as np

from gradine import kernels
from gradine.exact.deflate import deflate
from gradine.exact.heads import FitTask, squared_errors, unknowns
from gradine.exact.results import HeadFit

__all__ = ["fit_wide"]

CHECKED = 500  # examples under fit whose residual is taken: full matrices make each one dear
REASON = "strongest heads first, by what is left of the outputs"


def fit_wide(task: FitTask, heads: int, rank: int) -> HeadFit:
    """All heads of a wide layer."""
    began, config = time.perf_counter(), task.config
    X, Y = kernels.to_numpy(task.X), kernels.to_numpy(task.Y)
    found = deflate(X, Y, task.dim, heads, rank, config.deflate, task.seed, task.tell)
    order = np.argsort(-np.sum(found.w[:, : task.dim] ** 2, axis=(1, 2)), kind="stable")
    theta, w = np.ascontiguousarray(found.theta[order]), np.ascontiguousarray(found.w[order])
    errors = squared_errors(theta, w, task.X_fresh, task.Y_fresh)
    residual = math.sqrt(float(np.mean(squared_errors(theta, w, X[:CHECKED], Y[:CHECKED]))))
    k, width, out_dim = *X.shape[1:], Y.shape[2]
    return HeadFit(
        theta=theta,
        w=w,
        heads=len(theta),
        rank=rank,
        residual=residual,
        misfits=np.array(found.misfits),
        begins=[0],
        reasons=[REASON],
        exact=residual <= config.exact_residual,
        settled=residual <= config.exact_residual,
        validation_errors=errors,
        validation_error=float(np.sqrt(np.mean(errors))),
        equations=found.rows * out_dim / unknowns(heads, width, task.dim, out_dim, rank),
        products=found.products,
        flops=found.products * 16.0 * found.rows * heads * rank * width,
        examples=found.rows // k,
        seconds=time.perf_counter() - began,
    )
