"""Settings and axes: what they say is so, and what makes no sense is refused."""

from __future__ import annotations

import numpy as np
import pytest

import gradine
from gradine.atlas import Axis, Setting, make_setting, parse_axis


def drawn(setting, seed=0):
    return setting.truth(np.random.default_rng(seed))


def test_the_counting_bound():
    assert Setting(heads=3, dim=6, seq_len=4).bound == 3 * 2 * 36 / (4 * 6)
    assert Setting(heads=3, dim=6, seq_len=4, rank=2).bound == 3 * 2 * (24 - 4) / 24
    assert Setting(ratio=1.0).n_fit == 11 and Setting(examples=77).n_fit == 77


@pytest.mark.parametrize("cosine", [0.0, 0.3, 0.9])
def test_coherence_is_the_cosine_of_every_two_heads(cosine):
    layer = drawn(Setting(heads=3, dim=6, scale=2.5, coherence=cosine))
    flat = layer.theta.reshape(3, -1) / 2.5
    np.testing.assert_allclose(flat @ flat.T, cosine + (1 - cosine) * np.eye(3), atol=1e-12)


def test_noise_is_relative_to_the_labels():
    setting = Setting(noise=0.1)
    truth = drawn(setting)
    X, Y = setting.sample(truth, 5000, np.random.default_rng(1))
    off = np.sqrt(np.mean((Y - truth(X)) ** 2) / np.mean(truth(X) ** 2))
    assert off == pytest.approx(0.1, rel=0.02)


@pytest.mark.parametrize("t", [1, 2, 3, 4])
def test_a_parity_has_the_heads_that_it_says(t):
    setting = Setting(dim=7, t=t)
    layer = drawn(setting)
    assert layer.n_heads == setting.n_heads and setting.tokens == 2
    hidden = gradine.hard.sparse_parity(7, t, seed=np.random.default_rng(0))
    np.testing.assert_array_equal(layer.theta, hidden.layer.theta)


def test_the_counting_bound_is_that_of_the_bent_layer():
    few, many = Setting(dial="few_outputs", turn=0.8), Setting(dial="many_heads", turn=1.0)
    for setting in (few, many):
        bent = setting.truth(np.random.default_rng(5))
        unknowns = bent.theta.size + bent.w.size
        assert setting.bound == pytest.approx(unknowns / (setting.tokens * bent.out_dim))
    assert few.bound > Setting().bound < many.bound


def test_a_dial_is_turned():
    layer = drawn(Setting(dial="zero_sum", turn=1.0))
    assert np.abs(layer.w.sum(axis=0)).max() < 1e-12
    setting = Setting(dial="few_coordinates", turn=0.5)
    X, Y = setting.sample(drawn(setting), 5, np.random.default_rng(0))
    assert X.shape == Y.shape == (5, 3, 4)


@pytest.mark.parametrize(
    ("named", "given"),
    [
        ("parameter is 'width'", {"width": 3}),
        ("heads is 0", {"heads": 0}),
        ("heads is 9", {"heads": 9}),
        ("dim is 2.5", {"dim": 2.5}),
        ("scale is 0", {"scale": 0}),
        ("ratio is nan", {"ratio": float("nan")}),
        ("noise is -1", {"noise": -1}),
        ("noise is True", {"noise": True}),
        ("coherence is 1.0", {"coherence": 1.0}),
        ("rank is 9", {"rank": 9}),
        ("rank and coherence", {"rank": 2, "coherence": 0.5}),
        ("examples and ratio", {"examples": 20, "ratio": 2.0}),
        ("heads is set, but a parity", {"t": 2, "heads": 2}),
        ("t is 8", {"dim": 8, "t": 8}),
        ("heads is 6; expected at most dim = 5", {"dim": 5, "t": 4}),
        ("a parity .* boolean", {"t": 2, "inputs": "gaussian"}),
        ("dial is 'loud'", {"dial": "loud"}),
        ("turn is 0.5; expected a dial", {"turn": 0.5}),
        ("turn is 2.0", {"dial": "flat", "turn": 2.0}),
        ("scale is set, but a dial", {"dial": "flat", "scale": 2.0}),
        ("dial is set, but a parity", {"dial": "flat", "t": 2}),
        ("inputs is 'uniform'", {"inputs": "uniform"}),
    ],
)
def test_what_makes_no_sense_is_refused(named, given):
    with pytest.raises(ValueError, match=named):
        make_setting(given)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("scale:1:2:3", (1.0, 1.5, 2.0)),
        ("scale:1:100:3", (1.0, 10.0, 100.0)),
        ("scale:1:100:3:lin", (1.0, 50.5, 100.0)),
        ("scale:1:4:3:log", (1.0, 2.0, 4.0)),
        ("noise:0:0.1:3", (0.0, 0.05, 0.1)),
        ("heads:1:3", (1, 2, 3)),
        ("heads:1:3:9", (1, 2, 3)),
        ("examples:10:1000", (10, 32, 100, 316, 1000)),
        ("heads:4,2", (4, 2)),
        ("inputs:gaussian", ("gaussian",)),
        ("dial:flat,sharp", ("flat", "sharp")),
    ],
)
def test_axes(text, values):
    axis = parse_axis(text)
    assert axis.values == values and [type(v) for v in axis.values] == [type(v) for v in values]


def test_a_coarse_axis_keeps_its_ends():
    axis = Axis("heads", (1, 2, 3, 4, 5, 6))
    assert axis.coarse(3).values == (1, 3, 6)
    assert axis.coarse(9) is axis


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("width:1:2", "parameter is 'width'"),
        ("scale", "axis is 'scale'"),
        ("scale:1:2:3:4", "expected PARAM:LO:HI"),
        ("scale:2:1", "LO below HI"),
        ("scale:a:1", "scale is 'a'"),
        ("heads:1.5:3", "heads is '1.5'; expected a whole number"),
        ("scale:1:2:x", "COUNT is 'x'"),
        ("scale:1:2:1", "COUNT is '1'"),
        ("scale:1:inf", "finite"),
        ("noise:0:1:3:log", "LO above 0"),
        ("inputs:boolean:gaussian", "axis is"),
        ("heads:2,2", "no two values alike"),
        ("heads:", "heads is ''"),
    ],
)
def test_bad_axes(text, named):
    with pytest.raises(ValueError, match=named):
        parse_axis(text)


def test_an_axis_without_values():
    with pytest.raises(ValueError, match="no values"):
        Axis("heads", ())
