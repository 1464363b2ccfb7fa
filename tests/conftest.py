"""Shared by all tests: one profile for property tests, small planted layers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings

from gradine.inputs import plant
from gradine.layer import AttentionLayer

# Numerical code on a busy machine has no steady pace: no deadline. Derandomized, so that a
# failure is the same for everybody.
settings.register_profile("gradine", deadline=None, max_examples=30, derandomize=True)
settings.load_profile("gradine")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def layer() -> AttentionLayer:
    return plant(heads=3, dim=5, scale=2.0, seed=3, out_dim=4)


@pytest.fixture
def biased_layer() -> AttentionLayer:
    return plant(heads=3, dim=5, scale=2.0, seed=3, out_dim=4, constant=True)
