"""Factors: they are what they multiply to, and balanced ones are found to the rank there is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradine import AttentionLayer, Factors, plant, sample_inputs

seeds = st.integers(0, 2**32 - 1)


def random_factors(rng, heads=3, width=7, rank=2, value_rank=3, out_dim=4, bias=True):
    return Factors(
        queries=rng.normal(size=(heads, width, rank)),
        keys=rng.normal(size=(heads, width, rank)),
        values=rng.normal(size=(heads, width, value_rank)),
        outputs=rng.normal(size=(heads, value_rank, out_dim)),
        bias=rng.normal(size=out_dim) if bias else None,
    )


def parts(factors):
    names = ("queries", "keys", "values", "outputs", "bias")
    return {name: getattr(factors, name) for name in names}


def test_heads_are_the_products(rng):
    factors = random_factors(rng)
    for head in range(3):
        Theta = factors.queries[head] @ factors.keys[head].T
        np.testing.assert_array_equal(factors.theta()[head], Theta)
        W = factors.values[head] @ factors.outputs[head]
        W[-1] += factors.bias / 3
        np.testing.assert_allclose(factors.w()[head], W, atol=1e-15)


def test_arrays_are_private_and_read_only(rng):
    queries = rng.normal(size=(3, 7, 2))
    factors = Factors(**parts(random_factors(rng)) | {"queries": queries})
    first = queries[0, 0, 0]
    queries[0, 0, 0] += 1.0
    assert factors.queries[0, 0, 0] == first
    with pytest.raises(ValueError, match="read-only"):
        factors.outputs[0, 0, 0] = 1.0
    assert repr(factors) == "Factors(heads=3, rank=2, value_rank=3)"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"queries": np.ones((3, 7))}, r"queries has shape \(3, 7\); expected three axes"),
        ({"keys": np.ones((3, 7, 1))}, r"keys has shape \(3, 7, 1\); expected \(3, 7, 2\)"),
        ({"values": np.ones((3, 6, 3))}, r"values has shape \(3, 6, 3\); expected \(3, 7, 3\)"),
        ({"values": np.ones((2, 7, 3))}, "values has shape"),
        ({"outputs": np.ones((3, 2, 4))}, r"outputs has shape \(3, 2, 4\); expected \(3, 3, 4\)"),
        ({"outputs": np.ones((3, 3, 0))}, "outputs has shape"),
        ({"bias": np.ones(3)}, r"bias has shape \(3,\); expected \(4,\)"),
        ({"bias": np.ones((1, 4))}, "bias has shape .* expected one axis"),
        ({"keys": np.full((3, 7, 2), np.nan)}, "keys has NaN"),
        ({"bias": np.full(4, np.inf)}, "bias has NaN or infinite"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(rng, changes, message):
    with pytest.raises(ValueError, match=message):
        Factors(**parts(random_factors(rng)) | changes)


def test_a_layer_takes_no_factors_but_its_own(rng):
    factors = random_factors(rng)
    layer = AttentionLayer.from_factors(factors, constant=True)
    assert layer.factors is factors and layer.constant
    theta, w = layer.theta.copy(), layer.w.copy()
    theta[1, 0, 0] += 1e-6
    with pytest.raises(
        ValueError, match=r"factors of head 1 give another theta .*expected at most"
    ):
        AttentionLayer(theta, w, True, factors)
    w[2] *= 1.001
    with pytest.raises(ValueError, match=r"factors of head 2 give another w .*difference 0\.001;"):
        AttentionLayer(layer.theta, w, True, factors)
    with pytest.raises(ValueError, match=r"factors give theta of shape \(3, 7, 7\); expected"):
        AttentionLayer(theta[:2], w[:2], True, factors)
    with pytest.raises(ValueError, match="factors have a bias but constant is not set"):
        AttentionLayer.from_factors(factors)
    with pytest.raises(ValueError, match="factors is a dict"):
        AttentionLayer(layer.theta, layer.w, True, parts(factors))  # pyright: ignore


def test_factors_that_cancel_are_still_theirs(rng):
    """A product far smaller than its factors is known to their rounding, not to its own."""
    factors = parts(random_factors(rng, rank=2, bias=False))
    queries, keys = factors["queries"].copy(), factors["keys"].copy()
    queries[:, :, 1], keys[:, :, 1] = queries[:, :, 0], -keys[:, :, 0] * (1 - 1e-9)
    layer = AttentionLayer.from_factors(Factors(**factors | {"queries": queries, "keys": keys}))
    assert np.linalg.norm(layer.theta) < 1e-7
    found = np.random.default_rng(0).normal(size=layer.theta.shape)
    nudged = layer.theta + 1e-16 * found
    assert AttentionLayer(nudged, layer.w, factors=layer.factors).factors is layer.factors


def test_canonical_leaves_factors_behind(rng):
    assert AttentionLayer.from_factors(random_factors(rng), True).canonical().factors is None


@given(seeds, st.integers(1, 4), st.booleans())
def test_the_rank_of_planted_heads_is_found(seed, rank, constant):
    truth = plant(heads=3, dim=6, rank=rank, seed=seed, out_dim=5, constant=constant)
    layer = truth.factored()
    # A planted query bias is a row of its own: with it Theta has a rank of one more.
    assert (layer.factors.rank, layer.factors.value_rank) == (rank + constant, rank)
    assert (layer.factors.bias is not None) == constant == layer.constant
    np.testing.assert_allclose(layer.theta, truth.theta, atol=1e-13)
    np.testing.assert_allclose(layer.w, truth.w, atol=1e-13)


@given(seeds)
def test_found_factors_are_balanced(seed):
    factors = plant(heads=2, dim=6, rank=3, seed=seed, constant=True).factored().factors
    for left, right in (
        (factors.queries, factors.keys),
        (factors.values, factors.outputs.swapaxes(1, 2)),
    ):
        gram = left.swapaxes(1, 2) @ left
        np.testing.assert_allclose(right.swapaxes(1, 2) @ right, gram, atol=1e-12)
        sizes = np.diagonal(gram, axis1=1, axis2=2)  # singular values, the largest first
        np.testing.assert_allclose(gram, sizes[:, :, None] * np.eye(sizes.shape[1]), atol=1e-12)
        assert (np.diff(sizes) <= 0).all()


def test_what_cannot_be_seen_does_not_raise_the_rank(rng):
    """A query-only term and unequal shares of the bias: the same function at the same rank."""
    truth = AttentionLayer.from_factors(random_factors(rng, value_rank=2), True).canonical()
    theta, w = truth.theta.copy(), truth.w.copy()
    theta[:, :, -1] += rng.normal(size=(3, 7))
    w[:, -1] += rng.normal(size=(3, 4))
    disguised = AttentionLayer(theta, w, constant=True)
    layer = disguised.factored()
    assert (layer.factors.rank, layer.factors.value_rank) == (2, 2)
    X = sample_inputs(5, 4, 6, "gaussian")
    np.testing.assert_allclose(layer(X), disguised(X), atol=1e-12)
    np.testing.assert_allclose(layer.theta, truth.theta, atol=1e-13)
    np.testing.assert_allclose(layer.w[:, -1], np.tile(w[:, -1].sum(axis=0) / 3, (3, 1)))


def test_heads_of_unequal_rank_and_of_none(rng):
    theta = np.zeros((3, 5, 5))
    theta[0], theta[1, 0, 0] = rng.normal(size=(5, 5)), 1e-200
    layer = AttentionLayer(theta, np.zeros((3, 5, 2)))
    found = layer.factored()
    assert (found.factors.rank, found.factors.value_rank) == (5, 1)
    np.testing.assert_allclose(found.theta, theta, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(found.theta[1:], theta[1:], rtol=1e-13, atol=0)


def test_a_rank_that_loses_something_is_refused_unless_it_may():
    layer = plant(heads=3, dim=6, seed=5)
    theta = layer.theta.copy()
    theta[0], theta[2] = np.outer(*theta[0, :2]), np.outer(*theta[2, :2])
    layer = AttentionLayer(theta, layer.w)
    with pytest.raises(ValueError, match="head 1 has Theta of rank 6; expected at most 2") as why:
        layer.factored(rank=2)
    left_out = np.linalg.norm(np.linalg.svd(theta[1])[1][2:]) / np.linalg.norm(theta[1])
    assert f"leaves out {left_out:.2g} of it (tolerance 1e-10)" in str(why.value)
    with pytest.raises(ValueError, match="has W of rank 6; expected at most 2"):
        AttentionLayer(theta[[0, 0, 2]], layer.w).factored(rank=2)
    lossy = layer.factored(rank=2, tolerance=0.99)
    error = np.linalg.norm(lossy.theta[1] - theta[1]) / np.linalg.norm(theta[1])
    assert error == pytest.approx(left_out)
    np.testing.assert_allclose(lossy.theta[0], theta[0], atol=1e-13)


def test_a_tolerance_sets_the_rank(rng):
    truth = plant(heads=2, dim=6, rank=2, seed=1)
    blurred = AttentionLayer(truth.theta + 1e-8 * rng.normal(size=(2, 6, 6)), truth.w)
    assert blurred.factored().factors.rank == 6
    layer = blurred.factored(tolerance=1e-6)
    assert layer.factors.rank == 2
    np.testing.assert_allclose(layer.theta, blurred.theta, atol=1e-6)
    assert blurred.factored(rank=4, tolerance=1e-6).factors.rank == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank is 0; expected between 1 and 5"),
        ({"rank": 6}, "rank is 6; expected between 1 and 5"),
        ({"tolerance": -1e-9}, "tolerance is -1e-09"),
        ({"tolerance": 1.0}, "tolerance is 1.0"),
        ({"tolerance": float("nan")}, "tolerance is nan"),
    ],
)
def test_bad_options_are_refused(biased_layer, options, message):
    with pytest.raises(ValueError, match=message):
        biased_layer.factored(**options)
