"""Planted layers and input distributions keep what their documentation promises."""

from __future__ import annotations

import numpy as np
import pytest

from gradine.inputs import INPUT_KINDS, plant, sample_inputs


@pytest.mark.parametrize("rank", [None, 1, 3])
@pytest.mark.parametrize("constant", [False, True])
def test_planted_norms_ranks_and_variances(rank, constant):
    layer = plant(heads=40, dim=12, scale=2.5, rank=rank, seed=4, out_dim=10, constant=constant)
    theta, w = layer.theta[:, :12, :12], layer.w[:, :12]
    np.testing.assert_allclose(np.linalg.norm(theta, axis=(1, 2)), 2.5, rtol=1e-12)
    assert set(np.linalg.matrix_rank(theta)) == {rank or 12}
    assert set(np.linalg.matrix_rank(w)) == {rank or 10}
    np.testing.assert_allclose(np.mean(w**2), 1 / 12, rtol=0.25)
    assert layer.constant == constant
    if constant:
        assert not layer.theta[:, :, -1].any()
        np.testing.assert_allclose(np.linalg.norm(layer.theta[:, -1], axis=1), 2.5 / 4)
        np.testing.assert_array_equal(layer.w[:, -1], np.tile(layer.w[0, -1], (40, 1)))
        assert 0.3 < np.linalg.norm(layer.w[:, -1].sum(axis=0)) / np.sqrt(10 / 12) < 3


def test_scale_is_the_spread_of_a_logit():
    layer = plant(heads=1, dim=20, scale=3.0, seed=2)
    for kind in INPUT_KINDS:
        X = sample_inputs(20_000, 2, 20, kind, seed=5)
        logits = np.einsum("na,ab,nb->n", X[:, 0], layer.theta[0], X[:, 1])
        np.testing.assert_allclose(logits.std(), 3.0, rtol=0.05)


def test_seeds_decide():
    np.testing.assert_array_equal(plant(seed=5).theta, plant(seed=5).theta)
    assert np.abs(plant(seed=5).theta - plant(seed=6).theta).max() > 0.1
    for kind in INPUT_KINDS:
        first = sample_inputs(4, 3, 2, kind, seed=9)
        same = sample_inputs(4, 3, 2, kind, seed=np.random.default_rng(9))
        np.testing.assert_array_equal(first, same)
        assert (first != sample_inputs(4, 3, 2, kind, seed=8)).any()
    rng = np.random.default_rng(1)  # a generator goes on, it does not start again
    assert (sample_inputs(4, 3, 2, seed=rng) != sample_inputs(4, 3, 2, seed=rng)).any()


def test_input_distributions():
    boolean = sample_inputs(5000, 3, 4)
    assert boolean.dtype == np.float64
    assert set(np.unique(boolean)) == {-1.0, 1.0}
    assert abs(boolean.mean()) < 0.02
    gaussian = sample_inputs(5000, 3, 4, "gaussian")
    np.testing.assert_allclose([gaussian.mean(), gaussian.std()], [0.0, 1.0], atol=0.02)
    assert abs((gaussian**4).mean() - 3.0) < 0.2


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"heads": 0}, "heads"),
        ({"dim": -1}, "dim"),
        ({"dim": 2.5}, "dim"),
        ({"scale": 0.0}, "scale"),
        ({"scale": float("inf")}, "scale"),
        ({"scale": "x"}, "scale"),
        ({"scale": None}, "scale"),
        ({"seed": 1.5}, "seed"),
        ({"seed": -1}, "seed"),
        ({"dim": 10**23}, "dim"),
        ({"rank": 0}, "rank"),
        ({"rank": 17}, "rank"),
        ({"out_dim": 0}, "out_dim"),
    ],
)
def test_plant_names_the_bad_argument(options, name):
    with pytest.raises(ValueError, match=f"^{name} is .*expected"):
        plant(**options)


def test_sample_inputs_names_the_bad_argument():
    with pytest.raises(ValueError, match="kind is 'binary'; expected one of boolean, gaussian"):
        sample_inputs(1, 2, 3, "binary")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seq_len is 0"):
        sample_inputs(1, 0, 3)


def test_a_scale_whose_logits_overflow():
    with pytest.raises(ValueError, match=r"scale is 1e\+308; expected at most 1e\+100"):
        plant(1, 4, 1e308)
    assert np.isfinite(plant(1, 4, 1e100)(sample_inputs(5, 3, 4))).all()
