"""What examples alone show of the conditions."""

from __future__ import annotations

import numpy as np
import pytest

import gradine
from gradine.hard import dial
from gradine.theory.conditions import check
from gradine.theory.from_data import DATA_RULES, check_examples


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


def test_other_tokens_leave_little_to_say():
    layer = gradine.plant(2, 10, 4.0, seed=1)
    X = np.random.default_rng(0).uniform(0.0, 1.0, (2000, 3, 10))
    found = check_examples(X, layer(X))
    assert [condition.name for condition in found.failing()] == ["inputs"]
    assert [condition.name for condition in found.conditions] == ["inputs", "examples", "tokens"]
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
