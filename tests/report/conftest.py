"""Runs that reports are made of: learned, and stopped on the way, by either learner."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest

import gradine
from gradine.exact.config import ExactConfig
from gradine.learn import LearnConfig
from gradine.sculpt.config import SculptConfig
from scripts.chromium import NAMES, Chromium, found, opened

# A coarse net is enough where the polish follows: these runs serve the report, not the learner.
QUICK = LearnConfig(
    sculpt=SculptConfig(net_tuples=500, refined_tuples=1, net_examples=1000),
    exact=ExactConfig(curve_points=3),
)


class Run(NamedTuple):
    fit: gradine.Fit
    truth: gradine.AttentionLayer
    example: np.ndarray


def run(truth: gradine.AttentionLayer, n: int, **options) -> Run:
    """Learn by the six phases."""
    X = gradine.sample_inputs(n, seq_len=3, dim=truth.dim, seed=2)
    return Run(gradine.learn(X, truth(X), method="sculpt", config=QUICK, **options), truth, X[0])


def exact_run(
    truth: gradine.AttentionLayer, n: int, noise: float = 0.0, size: float = 1.0, **options
) -> Run:
    """Learn by the exact learner, from labels with ``noise`` relative to their size."""
    X = size * gradine.sample_inputs(n, seq_len=3, dim=truth.dim, seed=2)
    Y = truth(X)
    Y = Y + noise * Y.std() * np.random.default_rng(3).standard_normal(Y.shape)
    return Run(gradine.learn(X, Y, method="exact", config=QUICK, **options), truth, X[0])


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


@pytest.fixture(scope="session")
def exact() -> Run:
    """Two heads with biases, without noise."""
    truth = gradine.plant(heads=2, dim=6, scale=3.0, seed=1, out_dim=5, constant=True)
    return exact_run(truth, 4000)


@pytest.fixture(scope="session")
def noisy() -> Run:
    """Two heads, and labels with a tenth of noise."""
    return exact_run(gradine.plant(heads=2, dim=6, scale=3.0, seed=1), 2500, noise=0.1)


@pytest.fixture(scope="session")
def drowned() -> Run:
    """One head, and too much noise for its examples."""
    truth = gradine.plant(heads=1, dim=6, scale=0.3, seed=1)
    return exact_run(truth, 1000, noise=0.65, heads=1)


@pytest.fixture(scope="session")
def misfit() -> Run:
    """Labels that no attention layer made."""
    truth = gradine.plant(heads=1, dim=6, scale=3.0, seed=1)  # of the right sizes, no more
    X = gradine.sample_inputs(4000, seq_len=3, dim=6, seed=2)
    bent = np.tanh(2.0 * X @ np.random.default_rng(3).standard_normal((6, 6)))
    return Run(gradine.learn(X, bent, method="exact", config=QUICK), truth, X[0])


@pytest.fixture(scope="session")
def small_tokens() -> Run:
    """Tokens of another size: moments say nothing about them."""
    return exact_run(gradine.plant(heads=2, dim=6, scale=3.0, seed=1), 4000, size=0.5)


@pytest.fixture(scope="session")
def undetermined() -> Run:
    """Tokens that are the same in two coordinates: many heads make the same of them."""
    truth = gradine.plant(heads=1, dim=6, scale=2.0, seed=1)
    X = gradine.sample_inputs(2000, seq_len=3, dim=6, kind="gaussian", seed=2)
    X[..., 5] = X[..., 4]
    return Run(gradine.learn(X, truth(X), method="exact", heads=1, config=QUICK), truth, X[0])


@pytest.fixture(scope="session")
def browser() -> Iterator[Chromium]:
    program = found()
    if program is None and os.environ.get("CI"):
        pytest.fail(f"none of {', '.join(NAMES)} is installed, and CI must not go without")
    if program is None:
        pytest.skip(f"none of {', '.join(NAMES)} is installed")
    with opened(program) as started:
        yield started
