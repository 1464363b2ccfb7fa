"""Scoring: invariant to what cannot be known, sensitive to everything else."""

from __future__ import annotations

import numpy as np
import pytest

from gradine.inputs import plant, sample_inputs
from gradine.layer import AttentionLayer
from gradine.score import compare


def test_order_splitting_and_invisible_heads_do_not_count(layer):
    theta = np.concatenate([layer.theta[[2, 0, 1, 0]], np.ones((1, 5, 5))])
    w = np.concatenate([layer.w[[2, 0, 1, 0]], np.zeros((1, 5, 4))])
    w[1], w[3] = 0.25 * layer.w[0], 0.75 * layer.w[0]
    match = compare(AttentionLayer(theta, w), layer)
    assert match.theta_error.max() < 1e-14
    assert match.w_error.max() < 1e-14
    assert match.function_error < 1e-14
    assert (match.missing, match.extra) == (0, 0)


def test_errors_are_relative_and_belong_to_their_head(layer):
    truth = layer.canonical()
    theta, w = truth.theta.copy(), truth.w.copy()
    theta[1] *= 1.01
    w[2] *= 0.98
    match = compare(AttentionLayer(theta[::-1], w[::-1]), truth)
    np.testing.assert_allclose(match.theta_error, [0, 0.01, 0], atol=1e-12)
    np.testing.assert_allclose(match.w_error, [0, 0, 0.02], atol=1e-12)
    assert sorted(match.order) == [0, 1, 2]


def test_function_error_is_measured_on_fresh_inputs(layer):
    doubled = AttentionLayer(layer.theta, 2 * layer.w)
    assert compare(doubled, layer).function_error == pytest.approx(1.0)
    other = plant(heads=3, dim=5, seed=99, out_dim=4)
    X = sample_inputs(300, 6, 5, "gaussian", seed=2)
    expected = np.linalg.norm(other(X) - layer(X)) / np.linalg.norm(layer(X))
    match = compare(other, layer, seq_len=6, examples=300, kind="gaussian", seed=2)
    assert match.function_error == pytest.approx(expected)


def test_missing_and_extra_heads(layer):
    fewer = AttentionLayer(layer.theta[:2], layer.w[:2])
    match = compare(fewer, layer)
    assert (match.missing, match.extra) == (1, 0)
    assert sorted(match.theta_error)[:2] == [0.0, 0.0]
    assert max(match.theta_error) == max(match.w_error) == 1.0
    assert (match.order == -1).sum() == 1
    reverse = compare(layer, fewer)
    assert (reverse.missing, reverse.extra) == (0, 1)
    assert reverse.theta_error.tolist() == [0.0, 0.0]


def test_bias_is_seen_when_only_one_layer_has_it(layer):
    theta = np.pad(layer.theta, ((0, 0), (0, 1), (0, 1)))
    w = np.pad(layer.w, ((0, 0), (0, 1), (0, 0)))
    embedded = AttentionLayer(theta, w, constant=True)
    assert compare(embedded, layer).function_error < 1e-14
    assert compare(layer, embedded).w_error.max() < 1e-14
    w[:, -1] = 1.0
    match = compare(AttentionLayer(theta, w, constant=True), layer)
    assert match.function_error > 0.1
    assert match.w_error.min() > 0.1


def test_constant_flag_left_at_its_default(biased_layer):
    unflagged = AttentionLayer(biased_layer.theta, biased_layer.w)
    match = compare(unflagged, biased_layer)
    assert max(match.theta_error.max(), match.w_error.max(), match.function_error) < 1e-14


def test_a_truth_of_zeros_gives_absolute_errors():
    zero = AttentionLayer(np.zeros((1, 3, 3)), np.zeros((1, 3, 2)))
    match = compare(zero, zero)
    assert (match.theta_error[0], match.w_error[0], match.function_error) == (0.0, 0.0, 0.0)
    assert np.isfinite(compare(plant(1, 3, out_dim=2), zero).function_error)


def test_layers_that_cannot_be_compared():
    with pytest.raises(ValueError, match="learned has dim 4; expected 5"):
        compare(plant(2, 4, out_dim=3), plant(2, 5, out_dim=3))
    with pytest.raises(ValueError, match="learned has out_dim 4; expected 3"):
        compare(plant(2, 5, out_dim=4), plant(2, 5, out_dim=3))
