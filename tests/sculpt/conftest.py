"""Planted instances that the phases are tried on, small enough to be quick."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from gradine.examples import ArrayExamples, FittingData, make_split
from gradine.inputs import plant, sample_inputs
from gradine.layer import AttentionLayer
from gradine.sculpt.config import SculptConfig


class Planted(NamedTuple):
    layer: AttentionLayer
    data: FittingData
    config: SculptConfig = SculptConfig()

    @property
    def sum(self) -> np.ndarray:
        return self.layer.w.sum(axis=0)

    def sum_error(self, estimate: np.ndarray) -> float:
        return float(np.linalg.norm(estimate - self.sum) / np.linalg.norm(self.sum))


def planted(
    layer: AttentionLayer, n: int, k: int, *, kind="boolean", seed=5, **settings
) -> Planted:
    X = sample_inputs(n, k, layer.dim, kind=kind, seed=seed)
    examples = ArrayExamples(X, layer(X))
    split = make_split(n, validation=1000, certify=1000, seed=0)
    data = FittingData(examples, split, layer.constant, layer.constant, **settings)
    return Planted(layer, data)


@pytest.fixture(scope="session")
def one_head() -> Planted:
    return planted(plant(1, 8, 3.0, seed=0), 12_000, 3)


@pytest.fixture(scope="session")
def two_heads() -> Planted:
    return planted(plant(2, 8, 3.0, seed=0), 30_000, 3)


@pytest.fixture(scope="session")
def biased() -> Planted:
    return planted(plant(2, 8, 3.0, seed=1, constant=True), 30_000, 3, kind="gaussian")
