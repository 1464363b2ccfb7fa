"""Dials: good at 0, degenerate at 1, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

import gradine
from gradine.hard import DIALS, dial
from gradine.hard.dials import SCALE

BENT = ("equal_theta", "low_rank", "one_row", "one_column", "few_coordinates")


@pytest.mark.parametrize("name", DIALS)
def test_all_dials_start_at_the_same_layer(name):
    layer, planted = dial(name, 0.0, 3, 6, seed=4), gradine.plant(3, 6, SCALE, seed=4)
    np.testing.assert_allclose(layer.theta, planted.theta, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(layer.w, axis=(1, 2)), np.sqrt(6))
    for one, other in zip(layer.w, planted.w, strict=True):
        np.testing.assert_allclose(
            one / np.linalg.norm(one), other / np.linalg.norm(other), atol=1e-12
        )


@pytest.mark.parametrize("name", DIALS)
def test_a_seed_is_one_layer(name):
    one, again, other = (dial(name, 0.5, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.theta, again.theta) and np.array_equal(one.w, again.w)
    assert not np.array_equal(one.w, other.w)


@pytest.mark.parametrize("name", BENT)
@pytest.mark.parametrize("turn", [0.3, 1.0])
def test_bending_keeps_the_scale_of_the_logits(name, turn):
    norms = np.linalg.norm(dial(name, turn).theta, axis=(1, 2))
    np.testing.assert_allclose(norms, SCALE)


def test_the_ends_of_the_dials():
    def end(name, **asked):
        return dial(name, 1.0, **asked)

    theta, w = end("equal_theta").theta, end("equal_w").w
    np.testing.assert_allclose(theta[0], theta[1])
    np.testing.assert_allclose(w[0] / np.linalg.norm(w[0]), w[1] / np.linalg.norm(w[1]))
    for name in ("low_rank", "one_row", "one_column"):
        assert (np.linalg.matrix_rank(end(name).theta) == 1).all()
    assert (np.count_nonzero(np.abs(end("one_row").theta).sum(axis=2), axis=1) == 1).all()
    assert (np.count_nonzero(np.abs(end("one_column").theta).sum(axis=1), axis=1) == 1).all()
    assert not end("faint_head").w[-1].any() and end("faint_head").w[0].any()
    assert np.abs(end("zero_sum", heads=3).w.sum(axis=0)).max() < 1e-12
    assert np.linalg.matrix_rank(end("steep_sum").w.sum(axis=0), tol=1e-9) == 1
    assert end("few_outputs").out_dim == 1 and end("few_outputs").dim == 10
    assert end("few_coordinates").dim == end("few_coordinates").out_dim == 2
    assert end("many_heads", heads=2, dim=8).n_heads == 12
    X = gradine.sample_inputs(200, 3, 10)
    assert end("sharp").attention(X).max(axis=-1).mean() > 0.99
    assert np.abs(end("flat").attention(X) - 1 / 3).max() < 1e-2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nonsense", 0.5), "name is 'nonsense'; expected one of equal_theta, "),
        (("flat", 1.5), "turn is 1.5; expected a number from 0 to 1"),
        (("flat", float("nan")), "turn is nan; expected a number from 0 to 1"),
        (("flat", "x"), "turn is 'x'; expected a number from 0 to 1"),
        (("zero_sum", 0.5, 1), "heads is 1; expected a whole number of at least 2"),
        (("flat", 0.5, 2, 1), "dim is 1; expected a whole number of at least 2"),
    ],
)
def test_what_cannot_be_turned(arguments, message):
    with pytest.raises(ValueError, match=message):
        dial(*arguments)
