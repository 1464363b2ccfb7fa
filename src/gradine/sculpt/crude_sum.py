"""Phase 1: a crude estimate of the sum of the projection matrices [CL25, phase 1].

    W_hat = E[X^T J Y],   J = 11^T / k

For Theta = 0 attention is uniform, F(X) = J X W, and W_hat = W. It is what one gradient step on W
gives a one-head student that starts at Theta = 0, W = 0. For Theta != 0 the estimate is biased, and
no number of examples removes that: to first order by (1 - 1/k) sum_i Theta_i W_i for Gaussian
tokens, all of it from the query's own token. The average over pairs j != r,

    W_free = k E[x_j Y_r],   j != r,

is off by -(1/k) sum_i (Theta_i^T + tr(Theta_i) I) W_i only, about k - 1 times less.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from gradine.examples import FittingData, add_each
from gradine.sculpt.config import SculptConfig
from gradine.sculpt.results import CrudeSum
from gradine.status import NotLearned, Status

__all__ = ["crude_sum"]

Array = NDArray[np.float64]


def crude_sum(data: FittingData, config: SculptConfig) -> CrudeSum:
    """Estimate W = sum_i W_i, in one pass over the examples."""
    began = time.perf_counter()
    sums = data.reduce(_correlations, add_each, list, until=data.share_of_time())
    n, all_tokens, own_token, outputs, energy = sums
    k, d = data.seq_len, data.dim
    paper = all_tokens / (n * k)
    free = (all_tokens - own_token) / (n * (k - 1))
    if data.constant:  # the constant's own row is the mean output, not a correlation
        paper[d], free[d] = outputs / (n * k), outputs / (n * k)
    estimate = free if config.own_token_free else paper
    # Uniform attention would give E|y|^2 = |W|^2 / k; one-hot attention on one token |W|^2.
    share = float(np.sum(estimate[:d] ** 2) / max(energy / (n * k), np.finfo(float).tiny))
    if share < config.least_sum_energy:
        raise NotLearned(
            Status.SUM_NEAR_ZERO,
            f"the crude sum carries {share:.2g} of the outputs' energy; "
            f"at least {config.least_sum_energy:g} is needed",
        )
    return CrudeSum(
        paper=paper,
        own_token_free=free,
        estimate=estimate,
        energy=share,
        examples=int(n),
        seconds=time.perf_counter() - began,
    )


def _correlations(X: Array, Y: Array) -> list[Array]:
    """Sums over a block: examples, all pairs of tokens, own tokens, outputs, |y|^2."""
    width, outputs = X.shape[2], Y.shape[2]
    return [
        np.array(float(len(X))),
        X.sum(axis=1).T @ Y.sum(axis=1),
        X.reshape(-1, width).T @ Y.reshape(-1, outputs),
        Y.sum(axis=(0, 1)),
        np.asarray(np.sum(Y**2)),
    ]
