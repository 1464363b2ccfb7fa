"""Oracles that fail on purpose, and tokens to ask them."""

from __future__ import annotations

import numpy as np
import pytest

from gradine.layer import AttentionLayer


def answers(layer: AttentionLayer, X: np.ndarray) -> np.ndarray:
    """What the layer makes of each sequence alone: rounding depends on how many go together."""
    return np.stack([layer(x) for x in X])


class Flaky:
    """A layer behind a bad line: ``script`` says what each call does, then all calls succeed.

    An exception is raised, "nan" spoils the first sequence of the call, None answers.
    """

    def __init__(self, layer: AttentionLayer, *script):
        self._layer = layer
        self._script = list(script)
        self.asked: list[np.ndarray] = []

    @property
    def calls(self) -> list[int]:
        """How many sequences each call had."""
        return [len(X) for X in self.asked]

    def __call__(self, X):
        self.asked.append(X.copy())
        Y = answers(self._layer, X)
        X[:] = np.nan  # a source may spoil what it is handed
        act = self._script.pop(0) if self._script else None
        if isinstance(act, BaseException):
            raise act
        if act == "nan":
            Y[0] = np.nan
        return Y


@pytest.fixture
def questions(rng):
    """Ten sequences of three tokens for the layers of the shared fixtures."""
    return rng.standard_normal((10, 3, 5))


@pytest.fixture
def naps():
    """Seconds that were slept; ``naps.append`` is the sleep to inject."""
    return []
