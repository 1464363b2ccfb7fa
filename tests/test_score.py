"""Scoring: invariant to what cannot be known, sensitive to everything else."""

from __future__ import annotations

import numpy as np
import pytest

from gradine.factors import Factors
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
    with pytest.raises(ValueError, match="learned is of type NoneType; expected AttentionLayer"):
        compare(None, plant(1, 3))  # type: ignore[arg-type]


def real_factors(rng, heads=4, dim=24):
    """Factors shaped as in a trained layer: heads of size dim / heads, biases everywhere."""
    size = dim // heads
    inward = rng.normal(size=(3, heads, dim + 1, size)) / np.sqrt(dim)
    outputs = rng.normal(size=(heads, size, dim)) / np.sqrt(dim)
    return Factors(*inward, outputs, bias=rng.normal(size=dim))


def disguised(factors, rng):
    """The same function in other weights: gauges, order, and all that a bias can hide."""
    heads, size, _ = factors.outputs.shape
    A, B = rng.normal(size=(2, heads, size, size))
    keys, values, bias = factors.keys.copy(), factors.values.copy(), factors.bias.copy()
    keys[:, -1] = rng.normal(size=(heads, size))  # depends on the query alone
    shift = rng.normal(size=(heads, 1, size))  # passes through the attention to the outputs
    values[:, -1:] += shift
    bias -= (shift @ factors.outputs).sum(axis=(0, 1))
    order = rng.permutation(heads)
    return order, Factors(
        (factors.queries @ A)[order],
        (keys @ np.linalg.inv(A).swapaxes(1, 2))[order],
        (values @ B)[order],
        (np.linalg.inv(B) @ factors.outputs)[order],
        bias,
    )


@pytest.mark.parametrize("seed", range(5))
def test_gauges_order_and_biases_do_not_count(seed):
    rng = np.random.default_rng(seed)
    factors = real_factors(rng)
    order, other = disguised(factors, rng)
    truth, learned = (AttentionLayer.from_factors(each, True) for each in (factors, other))
    assert np.abs(learned.theta - truth.theta).max() > 0.1
    assert np.abs(learned.w - truth.w).max() > 0.1
    match = compare(learned, truth)
    assert max(match.theta_error.max(), match.w_error.max(), match.function_error) < 1e-11
    assert (match.missing, match.extra) == (0, 0)
    places = np.linalg.norm(truth.w[:, :-1], axis=(1, 2)).argsort()[::-1]  # canonical order
    positions = np.linalg.norm(learned.w[:, :-1], axis=(1, 2)).argsort()[::-1]
    np.testing.assert_array_equal(order[positions[match.order]], places)


def test_a_head_split_in_two_under_biases_is_one_head(rng):
    factors = real_factors(rng)
    truth = AttentionLayer.from_factors(factors, True)
    _, other = disguised(factors, rng)
    layer = AttentionLayer.from_factors(other, True)
    theta, w = layer.theta[[0, 1, 2, 3, 1]].copy(), layer.w[[0, 1, 2, 3, 1]].copy()
    theta[4, :, -1] += 1.0  # the halves differ in what cannot be seen
    w[1, :-1] *= 0.3
    w[4, :-1] *= 0.7
    w[1, -1] -= w[4, -1]
    match = compare(AttentionLayer(theta, w, constant=True), truth)
    assert max(match.theta_error.max(), match.w_error.max(), match.function_error) < 1e-11
    assert (match.missing, match.extra) == (0, 0)


@pytest.mark.parametrize("name", ["queries", "values", "outputs", "bias"])
def test_what_can_be_seen_of_a_bias_or_a_factor_counts(name, rng):
    """All but the bias of the keys, which no example shows."""
    factors = real_factors(rng)
    parts = {
        item: getattr(factors, item) for item in ("queries", "keys", "values", "outputs", "bias")
    }
    truth = AttentionLayer.from_factors(factors, True)
    nudged = parts[name].copy()
    nudged.reshape(-1)[-1] += 0.01  # of queries and values: the bias of the last head
    match = compare(AttentionLayer.from_factors(Factors(**parts | {name: nudged}), True), truth)
    assert match.function_error > 1e-5
    assert max(match.theta_error.max(), match.w_error.max()) > 1e-5
    keys = parts["keys"].copy()
    keys[:, -1] += 1.0
    match = compare(AttentionLayer.from_factors(Factors(**parts | {"keys": keys}), True), truth)
    assert max(match.theta_error.max(), match.function_error) < 1e-12
