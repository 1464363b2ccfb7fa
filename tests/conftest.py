"""Shared by all tests: a profile for property tests, small layers, and nothing left behind."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import settings

from gradine import plugins, refusals
from gradine.attention_functions import FUNCTIONS
from gradine.inputs import plant
from gradine.layer import AttentionLayer
from gradine.learners import LEARNERS

# Numerical code on a busy machine has no steady pace: no deadline. Derandomized, so that a
# failure is the same for everybody.
settings.register_profile("gradine", deadline=None, max_examples=30, derandomize=True)
settings.load_profile("gradine")


@pytest.fixture(autouse=True)
def nothing_stays_registered() -> Iterator[None]:
    """What a test, or a page of the docs that it runs, registers is unknown to the next one."""
    registries = LEARNERS, FUNCTIONS, plugins._loaded, refusals._packages
    before = [registry.copy() for registry in registries]
    yield
    for registry, kept in zip(registries, before, strict=True):
        registry.clear()
        registry.update(kept)  # pyright: ignore[reportArgumentType,reportCallIssue]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def layer() -> AttentionLayer:
    return plant(heads=3, dim=5, scale=2.0, seed=3, out_dim=4)


@pytest.fixture
def biased_layer() -> AttentionLayer:
    return plant(heads=3, dim=5, scale=2.0, seed=3, out_dim=4, constant=True)
