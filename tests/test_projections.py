"""Four linear maps and the factors of their heads: the same thing, there and back."""

from __future__ import annotations

import numpy as np
import pytest

from gradine.projections import Linear, Projections, factors_of, projections_of

ROLES = ("query", "key", "value", "output")


def maps(rng, inner=6, dim=5, outer=4, biased=ROLES):
    shapes = [(inner, dim)] * 3 + [(outer, inner)]
    return Projections(
        *(
            Linear(rng.normal(size=shape), rng.normal(size=shape[0]) if role in biased else None)
            for role, shape in zip(ROLES, shapes, strict=True)
        )
    )


@pytest.mark.parametrize("biased", [ROLES, ()])
def test_there_and_back(rng, biased):
    original = maps(rng, biased=biased)
    factors = factors_of(original, 3)
    assert factors.queries.shape == (3, 5 + bool(biased), 2) and factors.outputs.shape == (3, 2, 4)
    back = projections_of(factors, 2, original.biased)
    for role in ROLES:
        before, after = getattr(original, role), getattr(back, role)
        np.testing.assert_allclose(after.weight, before.weight, rtol=1e-15)
        if biased:
            np.testing.assert_allclose(after.bias, before.bias, rtol=1e-15)
        else:
            assert after.bias is None


def test_logits_and_values_of_a_head_are_those_of_its_rows(rng):
    original = maps(rng)
    factors = factors_of(original, 3)
    x, y = rng.normal(size=(2, 5))
    rows = slice(2, 4)  # of head 1
    query = original.query.weight[rows] @ x + original.query.bias[rows]
    key = original.key.weight[rows] @ y + original.key.bias[rows]
    value = original.value.weight[rows] @ y + original.value.bias[rows]
    x, y = np.append(x, 1.0), np.append(y, 1.0)
    assert x @ factors.theta()[1] @ y == pytest.approx(query @ key / np.sqrt(2))
    share = original.output.bias / 3
    np.testing.assert_allclose(
        y @ factors.w()[1], original.output.weight[:, rows] @ value + share, atol=1e-14
    )


def test_narrower_factors_are_filled_up_with_zeros(rng):
    factors = factors_of(maps(rng), 3)
    wide = projections_of(factors, 5, True)
    assert wide.query.weight.shape == (15, 5) and wide.output.weight.shape == (4, 15)
    again = factors_of(wide, 3)
    np.testing.assert_allclose(again.theta(), factors.theta(), atol=1e-14)
    np.testing.assert_allclose(again.w(), factors.w(), atol=1e-14)


@pytest.mark.parametrize("role", ROLES)
def test_one_bias_is_enough_for_a_constant_coordinate(rng, role):
    original = maps(rng, biased=(role,))
    assert original.biased and factors_of(original, 2).queries.shape == (2, 6, 3)
    assert (factors_of(original, 2).bias is not None) == (role == "output")


@pytest.mark.parametrize("heads", [0, -1, 4, 12])
def test_heads_must_divide_the_rows(rng, heads):
    with pytest.raises(ValueError, match=f"heads is {heads}; expected a divisor of 6"):
        factors_of(maps(rng), heads)


def test_maps_that_do_not_fit_together_are_refused(rng):
    good = maps(rng)
    with pytest.raises(ValueError, match=r"key.weight has shape \(5, 6\); expected \(6, 5\)"):
        Projections(good.query, Linear(good.key.weight.T), good.value, good.output)
    with pytest.raises(ValueError, match=r"output.weight has shape \(4, 5\); expected \(4, 6\)"):
        Projections(good.query, good.key, good.value, Linear(np.ones((4, 5))))
    with pytest.raises(ValueError, match=r"value.bias has shape \(5,\); expected \(6,\)"):
        Projections(good.query, good.key, Linear(good.value.weight, np.ones(5)), good.output)
