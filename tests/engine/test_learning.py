"""A whole run: every engine, killed or not, comes to the same layer to the last bit."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from gradine import learn, plant, sample_inputs
from gradine.fit import LearnConfig

CASES = {
    "sculpt": (plant(2, 8, 3.0, seed=0), 12_000),
    "exact": (plant(2, 8, 2.0, seed=1), 4_000),
}
CONFIG = LearnConfig(block_size=1_500)


def same(a, b):
    """Two phase results, but for the time they took."""
    for item in fields(a):
        if item.name != "seconds":
            np.testing.assert_array_equal(getattr(a, item.name), getattr(b, item.name))


@pytest.fixture(scope="module")
def alone():
    """What this process comes to."""
    found = {}
    for method, (layer, n) in CASES.items():
        X = sample_inputs(n, 3, 8, seed=5)
        found[method] = X, layer(X), learn(X, layer(X), method=method, config=CONFIG)
        assert found[method][2].learned
    return found


@pytest.mark.parametrize("method", CASES)
def test_a_whole_run_has_the_same_bits(alone, crew, method):
    X, Y, expected = alone[method]
    found = learn(X, Y, method=method, config=CONFIG, engine=crew)
    assert found.layer.theta.tobytes() == expected.layer.theta.tobytes()
    assert found.layer.w.tobytes() == expected.layer.w.tobytes()
    assert list(found.phases) == list(expected.phases)
    for name, result in expected.phases.items():
        same(found.phases[name], result)
