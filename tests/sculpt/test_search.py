"""Phase 6: the net, its tuples, and the polish from there."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gradine.layer import attention_features
from gradine.sculpt.config import SculptConfig
from gradine.sculpt.polish import polish
from gradine.sculpt.results import Span
from gradine.sculpt.search import (
    _tuple_errors,
    net_over,
    relative_error,
    search_net,
    square,
    tuples_of,
)
from gradine.solvers.least_squares import solve_projections


def true_span(layer, tilt=0.0, seed=0):
    """The hull of a layer's heads, off by a relative ``tilt``."""
    rng = np.random.default_rng(seed)
    m, width, d = layer.n_heads, layer.width, layer.dim
    heads = layer.theta[:, :, :d].reshape(m, -1)
    noise = rng.standard_normal(heads.shape) / np.sqrt(heads.shape[1])
    heads = heads + tilt * np.linalg.norm(heads, axis=1, keepdims=True) * noise
    Q = np.linalg.qr((heads[1:] - heads[0]).T)[0].T
    base = heads[0] - Q.T @ (Q @ heads[0])
    extent = np.abs(heads @ Q.T).max(axis=0) * 1.3
    nothing = np.zeros(0)
    return Span(
        base=base.reshape(width, d),
        directions=Q.reshape(m - 1, width, d),
        heads=m,
        counted=m,
        spectrum=nothing,
        gap=1.0,
        reach=np.stack([extent, extent], axis=1),
        chord_directions=nothing,
        chord_lengths=nothing,
        chord_agreement=1.0,
        queries=0,
        seconds=0.0,
    )


def test_theorem_answer_is_limited_by_the_hull(two_heads):
    layer, data, config = two_heads
    center = np.zeros((8, 8))
    exact = search_net(data, true_span(layer), center, config, seed=0)
    tilted = search_net(data, true_span(layer, tilt=0.05), center, config, seed=0)
    assert exact.validation_error < 1e-6
    assert exact.net_error > exact.validation_error  # the net alone is coarse
    assert 1e-3 < tilted.validation_error < 0.1


def test_reported_error_is_that_of_the_answer(two_heads):
    layer, data, config = two_heads
    found = search_net(data, true_span(layer, tilt=0.05), np.zeros((8, 8)), config, seed=0)
    X, Y = data.validation()
    theta, w = square(found.theta, 8), found.w
    assert relative_error(theta, w, X, Y) == pytest.approx(found.validation_error)


def test_tuple_errors_are_those_of_separate_fits(two_heads):
    X, Y = two_heads.data.sample(200, seed=1)
    theta = np.random.default_rng(0).standard_normal((5, 8, 8))
    tuples = tuples_of(5, 2, 100, np.random.default_rng(0))
    assert len(tuples) == 10
    fast = _tuple_errors(theta, tuples, X, Y)
    for pair, error in zip(tuples, fast, strict=True):
        features = attention_features(X, theta[pair])
        w = solve_projections(features, Y)
        exact = np.sum((Y - np.einsum("nmkd,mdo->nko", features, w)) ** 2)
        assert error == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize("m", [2, 3])
def test_net_is_as_fine_as_its_tuples_allow(m):
    span = replace(true_span_of_random(m), reach=np.tile([2.0, 1.0], (m - 1, 1)))
    net = net_over(span, np.zeros((4, 4)), SculptConfig(net_tuples=5_000))
    assert net.shape[1] == m - 1
    assert net.min() == -1.0 and net.max() == 2.0
    assert math.comb(len(net), m) <= 5_000


def true_span_of_random(m):
    from gradine.inputs import plant

    return true_span(plant(m, 4, 3.0, seed=m))


def test_tuples_beyond_the_budget_are_drawn_at_random():
    drawn = tuples_of(30, 4, 500, np.random.default_rng(0))
    assert 400 < len(drawn) <= 500
    assert (np.diff(drawn, axis=1) > 0).all()


def test_polish_reaches_rounding_and_can_be_too_large(two_heads):
    layer, data, config = two_heads
    start = search_net(data, true_span(layer, tilt=0.05), np.zeros((8, 8)), config, seed=0)
    polished = polish(data, start, config, seed=0)
    assert polished.validation_error < 1e-13 and not polished.skipped
    assert polished.losses[0] > 1e-3
    small = polish(data, start, replace(config, polish_parameters=10), seed=0)
    assert "parameters" in small.skipped and small.theta is start.theta
