"""Runs that reports are made of: learned, and stopped on the way."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import gradine
from gradine.learn import LearnConfig
from gradine.sculpt.config import SculptConfig

# A coarse net is enough where the polish follows: these runs serve the report, not the learner.
QUICK = LearnConfig(sculpt=SculptConfig(net_tuples=500, refined_tuples=1, net_examples=1000))


class Run(NamedTuple):
    fit: gradine.Fit
    truth: gradine.AttentionLayer
    example: np.ndarray


def run(truth: gradine.AttentionLayer, n: int, **options) -> Run:
    X = gradine.sample_inputs(n, seq_len=3, dim=truth.dim, seed=2)
    return Run(gradine.learn(X, truth(X), config=QUICK, **options), truth, X[0])


@pytest.fixture(scope="session")
def single() -> Run:
    """One head: no directions, one chord."""
    return run(gradine.plant(heads=1, dim=6, scale=3.0, seed=1), 8000)


@pytest.fixture(scope="session")
def pair() -> Run:
    """Two heads with biases and fewer outputs than inputs."""
    truth = gradine.plant(heads=2, dim=8, scale=3.0, seed=1, out_dim=6, constant=True)
    return run(truth, 30_000)


@pytest.fixture(scope="session")
def cancelled() -> Run:
    """Heads whose projections sum to zero: stops in the first phase."""
    layer = gradine.plant(heads=2, dim=8, scale=3.0, seed=1)
    return run(gradine.AttentionLayer(layer.theta, np.stack([layer.w[0], -layer.w[0]])), 8000)


@pytest.fixture(scope="session")
def flat() -> Run:
    """Attention too flat for a proxy: stops in the third phase."""
    return run(gradine.plant(heads=2, dim=6, scale=0.2, seed=1), 8000)
