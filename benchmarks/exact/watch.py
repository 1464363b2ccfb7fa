"""Look at a fit as it goes on, with the truth in hand: when was every head within 1e-6?

Peers are done then, as a benchmark can see what no user can. What our learner does afterwards, down
to rounding, error bars and certificate, is on the clock of the whole call only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

import gradine
from benchmarks.clock import clock
from gradine import kernels
from gradine.progress import Listener

__all__ = ["Watch"]

WORTH_LOOKING = 1e-4  # residual above which heads are never within 1e-6


class Watch(Listener):
    """Stops a clock when the heads are there; what looking takes is not on it."""

    def __init__(self, truth: gradine.AttentionLayer, solved: float) -> None:
        self._truth, self._solved = truth.theta, solved
        self._began, self.looking = clock(), 0.0
        self.seconds: float | None = None  #: until the heads were there; None: they never were

    def fit_went_on(self, residual: float, theta: Callable[[], Any]) -> None:
        if self.seconds is not None or residual > WORTH_LOOKING:
            return
        now = clock()
        if self._error(kernels.to_numpy(theta())) <= self._solved:
            self.seconds = now - self._began - self.looking
        self.looking += clock() - now

    def _error(self, theta: np.ndarray[Any, Any]) -> float:
        """The largest relative error of an attention matrix, heads matched."""
        if theta.shape != self._truth.shape:
            return np.inf
        apart = np.linalg.norm(theta[:, None] - self._truth[None], axis=(2, 3))
        apart /= np.linalg.norm(self._truth, axis=(1, 2))
        return float(apart[linear_sum_assignment(apart)].max())
