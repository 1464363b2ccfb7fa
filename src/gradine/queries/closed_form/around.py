"""Questions about the point of a limit that has the most room: tokens are what is added to it.

About a center c a layer is a layer again, with other biases: with x = c + z, what a key adds to
the logit of a query is (c + z)^T Theta z' + ..., and what depends on the query alone cancels.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gradine.layer import AttentionLayer
from gradine.queries.asking.oracle import Oracle
from gradine.queries.asking.precision import Precision

__all__ = ["Around"]

Array = NDArray[np.float64]

LARGEST_FLOAT16 = 65504.0
ROUGH = 1e-5  # noise of answers of size one


class Around:
    """An oracle seen from its center."""

    def __init__(self, oracle: Oracle, precision: Precision) -> None:
        self.oracle, self.precision, self.center = oracle, precision, oracle.center
        self.dim = oracle.dim
        #: How long tokens may be; never so long that a short float type could not hold them.
        self.room = oracle.largest_norm()
        if precision.kind == "float16":
            self.room = min(self.room, self._room_of_float16())

    def _room_of_float16(self) -> float:
        """Tokens whose entries, and whose answers, are far below the largest number there is."""
        unit = math.sqrt(self.dim)
        length = min(unit, self.room)
        Z = self.tokens(np.full((1, 1, self.dim), length / unit))
        growth = float(np.abs(self.ask(Z) - self.ask(0.0 * Z)).max()) / length
        return LARGEST_FLOAT16 / 8.0 / max(1.0 / unit, growth)

    def tokens(self, Z: Array) -> Array:
        """The nearest tokens that the oracle can be expected to read as they are."""
        if not self.center.any():
            return self.precision.representable(Z)
        return self.precision.representable(self.center + Z) - self.center

    def ask(self, Z: Array) -> Array:
        """Answers (n, k, d_out) to tokens (n, k, d), as `tokens` gave them."""
        return self.oracle.ask(self.center + Z if self.center.any() else Z)

    def noise(self, Y: Array) -> float:
        """Standard deviation of the noise in such answers."""
        return self.precision.noise(rms(Y))

    @property
    def rough(self) -> bool:
        """Whether what is read off single answers is to be fitted to many of them."""
        return self.precision.noise(1.0) > ROUGH

    def layer(self, theta: Array, w: Array, bias: Array, unbiased: bool) -> AttentionLayer:
        """The layer of heads found from here: ``theta`` (m, d + 1, d), the query bias last, and
        ``w`` (m, d, d_out); ``bias`` is the answer to the center alone."""
        m, d, out = w.shape
        whole = np.zeros((m, d + 1, d + 1))
        whole[:, :d, :d] = theta[:, :d]
        whole[:, d, :d] = theta[:, d] - self.center @ theta[:, :d]
        values = np.zeros((m, d + 1, out))
        values[:, :d] = w
        values[:, d] = (bias - self.center @ w.sum(axis=0)) / m
        if unbiased:
            return AttentionLayer(whole[:, :d, :d], values[:, :d]).canonical()
        return AttentionLayer(whole, values, constant=True).canonical()


def rms(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
