"""Coordinates in which a layer is fitted: tokens of one size about zero, whatever was sent.

A token x = c + (s / u) z has coordinates z. What the fit finds for z is a layer for x:

    Theta_x = (u/s)^2 Theta_z,    W_x = (u/s) W_z

and the biases move: beta_x = (u/s) beta_z - c Theta_x, where beta is the row of the constant
coordinate of Theta, and b_x = b_z - c W_x. What depends on the query alone cancels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradine.examples.fitting import append_constant
from gradine.layer import AttentionLayer

__all__ = ["Frame"]

Array = NDArray[np.float64]

UNIT = 0.5  # u: with logits of about a third, heads then have norms of one to two
NO_BIAS = 1e-8  # share that rounding leaves of what the move of the center takes away, or of W


@dataclass(frozen=True, eq=False)
class Frame:
    """Tokens about ``center``, with entries of standard deviation ``size``."""

    center: Array
    size: float
    constant: bool  #: whether there are biases, seen from the center

    def coordinates(self, X: Array) -> Array:
        """z of tokens (n, k, d), with a constant coordinate if there are biases."""
        z = (X - self.center) * (UNIT / self.size)
        return append_constant(z) if self.constant else z

    def layer(self, theta: Array, w: Array) -> AttentionLayer:
        """The layer for tokens as they are sent; theta (m, D, d), w (m, D, d_out)."""
        d, grow = len(self.center), UNIT / self.size
        theta_x, w_x = theta[:, :d] * grow**2, w[:, :d] * grow
        if not self.constant:
            return AttentionLayer(theta_x, w_x).canonical()
        beta_move, b_move = self.center @ theta_x, self.center @ w_x
        beta, b = theta[:, d] * grow - beta_move, w[:, d] - b_move
        if self.center.any():
            gone = _gone(beta, beta_move) and _gone(b.sum(0), b_move.sum(0))
        else:  # biases were allowed for, and there are none
            gone = _gone(beta, theta_x) and _gone(b.sum(0), w_x.sum(0))
        if gone:
            return AttentionLayer(theta_x, w_x).canonical()
        m = len(theta)
        whole = np.zeros((m, d + 1, d + 1))
        whole[:, :d, :d], whole[:, d, :d] = theta_x, beta
        return AttentionLayer(whole, np.concatenate([w_x, b[:, None]], 1), True).canonical()


def _gone(left: Array, taken: Array) -> bool:
    return float(np.linalg.norm(left)) <= NO_BIAS * float(np.linalg.norm(taken))
