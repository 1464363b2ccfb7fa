"""What is fitted in coordinates of one size is a layer for the tokens that were sent."""

from __future__ import annotations

import numpy as np
import pytest

import gradine
from gradine.exact.heads import predict
from gradine.queries import as_oracle
from gradine.queries.asking.tokens import allowed_size, gaussian_tokens
from gradine.queries.by_fit.frame import Frame


@pytest.mark.parametrize("constant", [False, True])
def test_fitted_heads_become_those_of_the_tokens(rng, constant):
    center = rng.standard_normal(5) if constant else np.zeros(5)
    frame = Frame(center, 0.07, constant)
    theta = rng.standard_normal((2, 5 + constant, 5))
    w = rng.standard_normal((2, 5 + constant, 3))
    X = center + 0.07 * rng.standard_normal((6, 4, 5))
    expected = predict(theta, w, frame.coordinates(X))
    np.testing.assert_allclose(frame.layer(theta, w)(X), expected, rtol=1e-10, atol=1e-12)


def test_biases_that_only_the_center_makes_are_not_kept(rng):
    center = rng.standard_normal(4)
    truth = gradine.plant(2, 4, seed=1)
    frame = Frame(center, 0.5, True)  # size = UNIT: coordinates are x - c
    theta = np.concatenate([truth.theta, (center @ truth.theta)[:, None]], axis=1)
    w = np.concatenate([truth.w, (center @ truth.w)[:, None]], axis=1)
    found = frame.layer(theta, w)
    assert not found.constant and gradine.compare(found, truth).theta_error.max() < 1e-12


@pytest.mark.parametrize(
    "limit", [gradine.Box(-0.1, 0.3), gradine.Ball(0.2), gradine.Box([0, 1, 2], [1, 3, 5])]
)
def test_tokens_stay_within_a_limit_and_use_it(rng, limit):
    oracle = as_oracle(lambda X: X, dim=3, limit=limit)
    X = gaussian_tokens(oracle, rng, 200, 2, 1e6)
    assert not limit.outside(X).any()
    assert np.std(X - oracle.center) > 0.5 * allowed_size(oracle)


def test_tokens_have_the_size_that_is_wanted_where_nothing_limits_it(rng):
    oracle = as_oracle(lambda X: X, dim=3)
    assert np.std(gaussian_tokens(oracle, rng, 400, 4, 7.0)) == pytest.approx(7.0, rel=0.1)
