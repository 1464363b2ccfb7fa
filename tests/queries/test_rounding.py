"""Short numbers: those of torch are the referee."""

from __future__ import annotations

import numpy as np
import pytest

from gradine.queries.asking.rounding import rounded_to, rounded_to_digits


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16"])
def test_floats_round_as_in_torch(name, rng):
    torch = pytest.importorskip("torch")
    values = rng.standard_normal(5000) * 10.0 ** rng.uniform(-4, 4, 5000)
    values[:3] = [0.0, 1.0 + 2.0**-8, -1.0 - 3 * 2.0**-8]  # ties of bfloat16 go to the even one
    # Through float32 first: torch itself rounds twice on the way from float64 to bfloat16.
    values = values.astype(np.float32).astype(np.float64)
    expected = torch.tensor(values).to(getattr(torch, name)).double().numpy()
    np.testing.assert_array_equal(rounded_to(values, name), expected)


def test_what_is_too_large_is_infinite():
    assert rounded_to(np.array([1e6, 1e300]), "float16").tolist() == [np.inf, np.inf]
    assert rounded_to(np.array([1e6, 1e300]), "bfloat16")[1] == np.inf


def test_unknown_type():
    with pytest.raises(ValueError, match="dtype is 'float8'; expected one of float64, float32"):
        rounded_to(np.ones(1), "float8")


@pytest.mark.parametrize("digits", [1, 3, 6])
def test_digits_are_those_that_are_printed(digits, rng):
    values = rng.standard_normal(2000) * 10.0 ** rng.uniform(-8, 8, 2000)
    values[0] = 0.0
    printed = np.array([float(f"{value:.{digits}g}") for value in values])
    rounded = rounded_to_digits(values, digits)
    np.testing.assert_allclose(rounded, printed, rtol=4e-16)
    np.testing.assert_array_equal(rounded_to_digits(printed, digits), printed)
