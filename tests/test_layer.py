"""The layer: its formula, its symmetries, its canonical form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradine import layer as layer_module
from gradine.inputs import plant, sample_inputs
from gradine.layer import AttentionLayer, attention_features, softmax

seeds = st.integers(0, 2**32 - 1)
sizes = st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 6))  # m, k, d


def case(size, seed, **options):
    m, k, d = size
    layer = plant(heads=m, dim=d, scale=2.0, seed=seed, **options)
    return layer, sample_inputs(3, k, d, "gaussian", seed)


def by_the_formula(layer, X):
    """F(X) for one sequence, as the first line of the documentation has it."""
    total = np.zeros((len(X), layer.out_dim))
    for Theta, W in zip(layer.theta, layer.w, strict=True):
        weights = np.exp(X @ Theta @ X.T)
        total += weights / weights.sum(axis=1, keepdims=True) @ X @ W
    return total


@given(sizes, seeds)
def test_layer_is_its_formula(size, seed):
    layer, X = case(size, seed, out_dim=3)
    expected = np.stack([by_the_formula(layer, x) for x in X])
    np.testing.assert_allclose(layer(X), expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(layer(X[0]), expected[0], rtol=1e-9, atol=1e-11)


@given(sizes, seeds)
def test_permuting_tokens_permutes_outputs(size, seed):
    layer, X = case(size, seed)
    order = np.random.default_rng(seed).permutation(X.shape[1])
    np.testing.assert_allclose(layer(X[:, order]), layer(X)[:, order], atol=1e-12)


@given(sizes, seeds)
def test_order_of_heads_does_not_matter(size, seed):
    layer, X = case(size, seed)
    order = np.random.default_rng(seed).permutation(layer.n_heads)
    shuffled = AttentionLayer(layer.theta[order], layer.w[order])
    np.testing.assert_allclose(shuffled(X), layer(X), atol=1e-12)
    np.testing.assert_array_equal(shuffled.canonical().theta, layer.canonical().theta)


@given(sizes, seeds)
def test_layer_without_bias_is_odd_exactly(size, seed):
    layer, X = case(size, seed)
    np.testing.assert_array_equal(layer(-X), -layer(X))


def test_layer_with_bias_is_not_odd(biased_layer):
    X = sample_inputs(4, 3, 5)
    assert np.abs(biased_layer(-X) + biased_layer(X)).max() > 0.1


@given(seeds, st.floats(-500, 500))
def test_softmax_ignores_a_shift(seed, shift):
    logits = np.random.default_rng(seed).normal(size=(4, 6))
    np.testing.assert_allclose(softmax(logits + shift), softmax(logits), atol=1e-12)
    np.testing.assert_allclose(softmax(logits).sum(axis=-1), 1.0, atol=1e-14)


def test_softmax_survives_huge_logits():
    np.testing.assert_array_equal(softmax([[-1e300, 1e300, -1e300]]), [[0.0, 1.0, 0.0]])


def test_attention_and_features_agree_with_the_output(layer, rng):
    X = rng.normal(size=(6, 4, 5))
    weights = layer.attention(X)
    assert weights.shape == (6, 3, 4, 4)
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=1e-14)
    np.testing.assert_array_equal(layer.attention(X[0]), weights[0])
    features = attention_features(X, layer.theta)
    np.testing.assert_allclose(features, weights @ X[:, None], atol=1e-14)
    np.testing.assert_allclose((features @ layer.w).sum(axis=1), layer(X), atol=1e-12)


def test_blocks_do_not_change_the_output(layer, rng, monkeypatch):
    X = rng.normal(size=(11, 4, 5))
    whole, weights = layer(X), layer.attention(X)
    monkeypatch.setattr(layer_module, "BLOCK_BYTES", 9000)
    assert 1 < len(layer._blocks(11, 4)) < 11
    np.testing.assert_allclose(layer(X), whole, atol=1e-14)
    np.testing.assert_allclose(layer.attention(X), weights, atol=1e-14)


@pytest.mark.parametrize("flag", [True, False])
def test_constant_coordinate_is_appended_when_left_out(biased_layer, flag):
    layer = AttentionLayer(biased_layer.theta, biased_layer.w, constant=flag)
    X = sample_inputs(4, 3, 5)
    with_ones = np.concatenate([X, np.ones((4, 3, 1))], axis=-1)
    np.testing.assert_array_equal(layer(X), layer(with_ones))
    np.testing.assert_allclose(layer(X[0]), layer(with_ones)[0], atol=1e-14)


@pytest.mark.parametrize("shape", [(3, 4, 7), (3, 4, 3), (5,), (2, 0, 5), (1, 2, 3, 5)])
def test_inputs_of_another_shape_are_refused(layer, shape):
    with pytest.raises(ValueError, match=r"^X has"):
        layer(np.zeros(shape))


def test_no_examples_give_no_outputs(layer):
    assert layer(np.zeros((0, 4, 5))).shape == (0, 4, 4)


def test_arrays_are_private_and_read_only():
    theta = np.zeros((1, 2, 2))
    layer = AttentionLayer(theta, np.ones((1, 2, 1)))
    theta[0, 0, 0] = 5.0
    assert layer.theta[0, 0, 0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        layer.theta[0, 0, 0] = 1.0
    with pytest.raises(AttributeError):
        layer.constant = True  # type: ignore[misc]


@pytest.mark.parametrize(
    ("theta", "w", "options", "message"),
    [
        (np.zeros((2, 2)), np.zeros((1, 2, 1)), {}, "theta has shape"),
        (np.zeros((0, 2, 2)), np.zeros((0, 2, 1)), {}, "theta has shape"),
        (np.zeros((1, 2, 3)), np.zeros((1, 2, 1)), {}, "theta has shape"),
        (np.zeros((1, 2, 2)), np.zeros((2, 2, 1)), {}, "w has shape"),
        (np.zeros((1, 2, 2)), np.zeros((1, 3, 1)), {}, "w has shape"),
        (np.full((1, 2, 2), np.nan), np.zeros((1, 2, 1)), {}, "theta has NaN"),
        (np.zeros((1, 2, 2)), np.full((1, 2, 1), np.inf), {}, "w has NaN"),
        (np.zeros((1, 1, 1)), np.zeros((1, 1, 1)), {"constant": True}, "constant is set"),
    ],
)
def test_bad_parameters_are_refused(theta, w, options, message):
    with pytest.raises(ValueError, match=message):
        AttentionLayer(theta, w, **options)


def test_sizes_and_counting(layer, biased_layer):
    assert (layer.n_heads, layer.width, layer.dim, layer.out_dim) == (3, 5, 5, 4)
    assert layer.n_parameters == 3 * (25 + 20)
    assert (biased_layer.width, biased_layer.dim) == (6, 5)
    assert biased_layer.n_parameters == 3 * (6 * 5 + 5 * 4) + 4
    assert repr(layer) == "AttentionLayer(heads=3, dim=5, out_dim=4, constant=False)"


def redundant_layer(seed, constant):
    """Six heads: two are equal, two cancel (all but a bias), two more are distinct."""
    rng = np.random.default_rng(seed)
    theta, w = rng.normal(size=(6, 4, 4)), rng.normal(size=(6, 4, 3))
    theta[1], theta[3] = theta[0], theta[2]
    w[3] = -w[2]
    if constant:
        theta[1, :, -1] += 1.0  # differs only in what cannot be seen
        w[3, -1] = 2.0
    return AttentionLayer(theta, w, constant)


@given(seeds, st.booleans())
def test_canonical_is_the_same_function_and_its_own_canonical(seed, constant):
    layer = redundant_layer(seed, constant)
    canonical = layer.canonical()
    X = sample_inputs(5, 4, layer.dim, "gaussian", seed)
    np.testing.assert_allclose(canonical(X), layer(X), atol=1e-12)
    assert canonical.n_heads == 3
    again = canonical.canonical()
    np.testing.assert_array_equal(again.theta, canonical.theta)
    np.testing.assert_array_equal(again.w, canonical.w)


@given(sizes, seeds)
def test_canonical_forgets_what_cannot_be_seen(size, seed):
    layer, _ = case(size, seed, constant=True)
    rng = np.random.default_rng(seed)
    theta, w = layer.theta.copy(), layer.w.copy()
    theta[:, :, -1] += rng.normal(size=theta.shape[:2])
    shifts = rng.normal(size=(layer.n_heads, layer.out_dim))
    w[:, -1] += shifts - shifts.mean(axis=0)
    disguised = AttentionLayer(theta, w, constant=True).canonical()
    np.testing.assert_array_equal(disguised.theta, layer.canonical().theta)
    np.testing.assert_allclose(disguised.w, layer.canonical().w, atol=1e-13)


def test_equal_shares_of_a_bias_survive_rounding(rng):
    # Seven shares added up and divided again are often another number in the last bit.
    layer = AttentionLayer(rng.normal(size=(7, 4, 4)), rng.normal(size=(7, 4, 50)), constant=True)
    once = layer.canonical()
    np.testing.assert_array_equal(once.canonical().w, once.w)


def test_canonical_orders_heads_by_size():
    canonical = plant(heads=6, dim=4, seed=1).canonical()
    norms = np.linalg.norm(canonical.w, axis=(1, 2))
    assert (np.diff(norms) < 0).all()


@pytest.mark.parametrize("constant", [True, False])
def test_a_layer_of_nothing_keeps_one_zero_head(constant):
    w = np.zeros((3, 4, 2))
    w[:, -1] = 1.5 * constant
    canonical = AttentionLayer(np.ones((3, 4, 4)), w, constant).canonical()
    assert canonical.n_heads == 1
    assert not canonical.theta.any()
    np.testing.assert_array_equal(canonical.w[0, -1], 4.5 * constant)
    np.testing.assert_array_equal(canonical.canonical().w, canonical.w)
