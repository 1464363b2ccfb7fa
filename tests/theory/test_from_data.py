"""What examples alone show of the conditions."""

from __future__ import annotations

import numpy as np
import pytest

import gradine
from gradine.admission import least_examples
from gradine.hard import dial
from gradine.theory.conditions import check
from gradine.theory.from_data import DATA_RULES, check_examples


def names_of(found):
    return [condition.name for condition in found.conditions]


def noisy(Y, noise, seed=4):
    """Labels with noise, relative to their size."""
    return Y + noise * Y.std() * np.random.default_rng(seed).standard_normal(Y.shape)


def examples_of(layer, n=4000, seq_len=3, seed=3):
    X = gradine.sample_inputs(n, seq_len, layer.dim, seed=seed)
    return X, layer(X)


def test_nothing_is_wrong_with_examples_of_a_generic_layer():
    layer = gradine.plant(2, 10, 4.0, seed=1)
    found = check_examples(*examples_of(layer))
    assert found.holds and found.holds_for("exact")
    assert [condition.name for condition in found.conditions] == list(DATA_RULES)


def test_estimates_are_near_those_of_the_layer():
    layer = gradine.plant(2, 10, 4.0, seed=1)
    found, true = check_examples(*examples_of(layer, 20_000)), check(layer, 3)
    assert found["heads"].value == true["heads"].value
    assert found["tokens"].value == true["tokens"].value
    assert found["sum_conditioning"].value == pytest.approx(true["sum_conditioning"].value, rel=0.3)


@pytest.mark.parametrize(
    ("name", "turn", "seen"),
    [
        ("zero_sum", 1.0, "sum_energy"),
        ("steep_sum", 1.0, "sum_conditioning"),
        ("flat", 0.5, "attention_varies"),
        ("few_outputs", 1.0, "tokens"),
        ("many_heads", 0.2, "heads"),
        ("few_coordinates", 0.6, "head_count"),
    ],
)
def test_dials_that_show_in_examples(name, turn, seen):
    found = check_examples(*examples_of(dial(name, turn, seed=1)))
    assert not found[seen].holds


def test_few_examples():
    layer = gradine.plant(2, 10, 4.0, seed=1)
    found = check_examples(*examples_of(layer, 400))
    assert not found["examples"].holds and found.holds_for("exact")
    assert "heads" not in [condition.name for condition in found.conditions]
    assert not check_examples(*examples_of(layer, 8)).holds_for("exact")


def test_a_certificate_takes_examples_too():
    """As many as a run is refused below, whatever the unknowns."""
    layer = gradine.plant(1, 2, 4.0, seed=1)
    least = least_examples(1, gradine.LearnConfig())
    enough = check_examples(*examples_of(layer, least))
    assert enough["held_out"].value == enough["held_out"].threshold == 165
    few = check_examples(*examples_of(layer, least - 1))
    assert few["examples"].holds_for("exact")
    assert [condition.name for condition in few.failing("exact")] == ["held_out"]


def test_nothing_is_judged_from_a_handful():
    found = check_examples(np.ones((5, 3, 4)), np.ones((5, 3, 4)))
    assert names_of(found) == ["examples", "held_out", "tokens"]
    assert not found.holds_for("exact") and not found.holds


@pytest.mark.parametrize("repeat", ["coordinates", "tokens"])
def test_tokens_that_do_not_determine_the_heads(repeat):
    """Two coordinates that are one, or one that is the same in all tokens of a sequence."""
    X = gradine.sample_inputs(4000, 3, 10)
    if repeat == "coordinates":
        X = np.repeat(X[..., :5], 2, axis=2)
    else:
        X[..., 4] = X[:, :1, 4]
    found = check_examples(X, gradine.plant(2, 10, 4.0, seed=1)(X))
    assert "token_conditioning" in [condition.name for condition in found.failing("exact")]
    assert found["token_conditioning"].value < 1e-7


def test_conditioning_of_tokens_is_what_it_is_called():
    """Directions of a given spread, whatever the units of the coordinates."""
    rng = np.random.default_rng(1)
    one, other = rng.standard_normal((2, 50_000, 3, 1))
    X = np.concatenate([one + 0.02 * other, one - 0.02 * other], axis=2)
    layer = gradine.plant(1, 2, 2.0)
    for units in ([1.0, 1.0], [1e3, 1e-3]):
        found = check_examples(X * units, layer(X))
        assert found["token_conditioning"].value == pytest.approx(0.02, rel=0.03)
        assert found.holds_for("exact") and not found.holds


@pytest.mark.parametrize("noise", [0.01, 0.8])
def test_noise_is_no_attention(noise):
    X, Y = examples_of(dial("flat", 1.0, seed=1))
    found = check_examples(X, noisy(Y, noise))
    assert found["attention_varies"].holds_for("exact")  # of which it cannot be told from noise
    assert [condition.name for condition in found.failing("exact")] == ["attention_shows"]
    assert "noise" in found["attention_shows"].sentence("exact")


def test_attention_shows_through_noise():
    X, Y = examples_of(dial("flat", 0.0, seed=1))
    assert check_examples(X, noisy(Y, 0.8)).holds_for("exact")


def test_the_energy_of_the_sum_is_no_share():
    """It is k for uniform attention."""
    X, Y = examples_of(dial("flat", 1.0, seed=1))
    condition = check_examples(X, Y)["sum_energy"]
    assert condition.value == pytest.approx(3.0, rel=0.05)
    assert "share" not in condition.sentence()


def test_other_tokens_leave_little_to_say():
    layer = gradine.plant(2, 10, 4.0, seed=1)
    X = np.random.default_rng(0).uniform(0.0, 1.0, (2000, 3, 10))
    found = check_examples(X, layer(X))
    assert [condition.name for condition in found.failing()] == ["inputs"]
    assert names_of(found) == ["inputs", "examples", "held_out", "token_conditioning", "tokens"]
    assert found.holds_for("exact")


def test_biases_are_no_obstacle():
    layer = gradine.plant(2, 10, 4.0, seed=1, constant=True)
    assert check_examples(*examples_of(layer)).holds


def test_held_out_labels_do_not_count():
    layer = gradine.plant(2, 10, 4.0, seed=1)
    X, Y = examples_of(layer)
    split = gradine.LearnConfig().split(len(X), 0)
    spoilt = Y.copy()
    spoilt[split.validation] *= 10.0
    spoilt[split.certify] *= 10.0
    one, other = check_examples(X, Y), check_examples(X, spoilt)
    assert [c.value for c in one.conditions] == [c.value for c in other.conditions]


def test_zero_outputs_are_an_answer():
    X = gradine.sample_inputs(2000, 3, 10)
    found = check_examples(X, np.zeros_like(X))
    assert not found["sum_energy"].holds and not found["attention_varies"].holds


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match="expected the same number of examples"):
        check_examples(np.ones((10, 3, 4)), np.ones((9, 3, 4)))
