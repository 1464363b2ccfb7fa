"""Defences: what they do to answers, and that they can be put around each other."""

from __future__ import annotations

import numpy as np
import pytest

from gradine.queries import Clipped, Noisy, OracleConfig, Rounded, as_oracle
from gradine.queries.asking.rounding import rounded_to


def test_rounded_and_clipped(layer, questions):
    Y = layer(questions)
    rounded = as_oracle(Rounded(layer, decimals=3)).ask(questions)
    np.testing.assert_array_equal(rounded, np.round(Y, 3))
    for dtype in ("float32", "float16", "bfloat16"):
        short = as_oracle(Rounded(layer, dtype=dtype)).ask(questions)
        np.testing.assert_array_equal(short, rounded_to(Y, dtype))
        assert not np.array_equal(short, Y)
    clipped = as_oracle(Clipped(layer, 0.5)).ask(questions)
    np.testing.assert_array_equal(clipped, np.clip(Y, -0.5, 0.5))
    both = as_oracle(Rounded(Clipped(layer, 0.123456), decimals=3)).ask(questions)
    assert np.abs(both).max() == 0.123


def test_noise_is_gaussian_and_new_every_time(layer, rng):
    X = rng.standard_normal((2000, 3, 5))
    oracle = as_oracle(Noisy(layer, 0.1, seed=3))
    first, second = oracle.ask(X) - layer(X), oracle.ask(X) - layer(X)
    for noise in (first, second):
        assert noise.std() == pytest.approx(0.1, rel=0.03)  # 24,000 numbers: 4 standard errors
        assert abs(noise.mean()) < 4 * 0.1 / np.sqrt(noise.size)
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.03
    again = as_oracle(Noisy(layer, 0.1, seed=3)).ask(X)
    np.testing.assert_array_equal(again - layer(X), first)
    other = as_oracle(Noisy(layer, 0.1, seed=4)).ask(X)
    assert not np.array_equal(other - layer(X), first)


def test_noise_that_stays_belongs_to_the_sequence(layer, questions):
    source = Noisy(layer, 0.1, same_again=True)
    config = OracleConfig(batch_size=3)
    Y = as_oracle(source).ask(questions)
    in_batches = as_oracle(source, config=config).ask(questions[::-1].copy())[::-1]
    np.testing.assert_allclose(in_batches, Y, rtol=0, atol=1e-14)
    noise = Y - layer(questions)
    assert 0.05 < noise.std() < 0.2 and len(np.unique(noise)) == noise.size
    seeded = as_oracle(Noisy(layer, 0.1, seed=1, same_again=True)).ask(questions)
    assert not np.allclose(seeded, Y)


def test_defences_keep_sizes_and_visibility(layer, questions):
    oracle = as_oracle(Rounded(Noisy(layer, 0.1), decimals=1), rows="last", output=1)
    assert (oracle.dim, oracle.out_dim) == (5, 1)
    Y = oracle.ask(questions)
    assert Y.shape == (10, 1, 1) and np.array_equal(Y, np.round(Y, 1))
    assert oracle.name == "Rounded(Noisy(layer, sigma=0.1, seed=0), decimals=1)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: Rounded(f), "decimals is None and dtype is None; expected exactly one"),
        (lambda f: Rounded(f, 3, "float16"), "expected exactly one of them"),
        (lambda f: Rounded(f, decimals=-1), "decimals is -1; expected a whole number"),
        (lambda f: Rounded(f, dtype="float8"), "dtype is 'float8'; expected one of"),
        (lambda f: Clipped(f, 0.0), "largest is 0.0; expected a positive"),
        (lambda f: Noisy(f, float("nan")), "sigma is nan; expected a positive"),
        (lambda f: Noisy(f, 1.0, seed=-1), "seed is -1; expected a whole number"),
        (lambda f: Noisy(3, 1.0), "oracle is int; expected a callable"),
    ],
)
def test_defences_that_make_no_sense(make, message):
    with pytest.raises(ValueError, match=message):
        make(lambda X: X)
