"""The survey: it names what it sees, and finds the one bad number."""

from __future__ import annotations

import numpy as np
import pytest

from gradine.examples import ArrayExamples, BlockError, survey
from gradine.inputs import plant, sample_inputs


def look(X, Y=None, block_size=64):
    return survey(ArrayExamples(X, X if Y is None else Y), block_size)


def with_ones(X):
    return np.concatenate([X, np.ones((*X.shape[:2], 1))], axis=-1)


@pytest.mark.parametrize("kind", ["boolean", "gaussian"])
@pytest.mark.parametrize("n", [20, 400, 20_000])
def test_both_distributions_are_recognised_with_and_without_constant(kind, n):
    X = sample_inputs(n, 3, 6, kind, seed=n)
    assert look(X, block_size=1000).kind == kind
    assert not look(X, block_size=1000).constant_column
    seen = look(with_ones(X), block_size=1000)
    assert (seen.kind, seen.constant_column) == (kind, True)
    assert seen.x_mean.shape == (6,)


G = sample_inputs(4000, 4, 5, "gaussian", seed=1)
MIXED = G.copy()
MIXED[..., 0] = 0.8 * G[..., 1] + 0.6 * G[..., 0]
REPEATED = np.repeat(G[:, :1], 4, axis=1)


@pytest.mark.parametrize(
    "X",
    [
        1.5 * G,
        G + 0.4,
        np.random.default_rng(0).uniform(-(3**0.5), 3**0.5, G.shape),
        MIXED,
        REPEATED,
        np.sign(G) * (1 + (np.arange(4) == 2))[:, None],
    ],
    ids=["scaled", "shifted", "uniform", "correlated", "repeated tokens", "almost boolean"],
)
def test_other_distributions_are_not_taken_for_gaussian(X):
    assert look(X, block_size=512).kind == "other"


def test_moments_are_those_of_the_data_whatever_the_blocks(rng):
    X, Y = rng.normal(1.0, 2.0, size=(101, 3, 4)), rng.normal(size=(101, 3, 2))
    for size in (7, 101, 1000):
        seen = look(X, Y, size)
        tokens = X.reshape(-1, 4)
        np.testing.assert_allclose(seen.x_mean, tokens.mean(axis=0))
        np.testing.assert_allclose(seen.x_variance, tokens.var(axis=0))
        np.testing.assert_allclose(seen.x_fourth, (tokens**4).mean(axis=0))
        second = tokens.T @ tokens / len(tokens)
        assert seen.x_correlation == pytest.approx(np.abs(second - np.diag(np.diag(second))).max())
        pairs = [X[:, i].T @ X[:, j] / 101 for i in range(3) for j in range(3) if i != j]
        assert seen.token_correlation == pytest.approx(np.abs(np.mean(pairs, axis=0)).max())
        np.testing.assert_allclose(seen.y_mean, Y.mean(axis=(0, 1)))
        np.testing.assert_allclose(seen.y_second, (Y**2).mean(axis=(0, 1)))


def test_bias_shows():
    X = sample_inputs(3000, 4, 5, seed=2)
    assert look(X, plant(2, 5, seed=3)(X)).bias_z < 5
    assert look(X, plant(2, 5, seed=3, constant=True)(X)).bias_z > 10
    assert look(X, np.ones_like(X)).bias_z > 1e6
    assert look(X, np.zeros_like(X)).bias_z == 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_first_bad_example_is_named(bad):
    X, Y = sample_inputs(50, 3, 4), np.zeros((50, 3, 2))
    Y[17, 2, 1] = Y[40, 0, 0] = bad
    what = "has a NaN or infinite value in example"
    for size, block in ((5, "15:20"), (17, "17:34"), (50, "0:50")):
        with pytest.raises(BlockError, match=rf"^arrays: examples {block}: Y {what} 17$"):
            look(X, Y, size)
    X[3, 0, 0] = bad
    with pytest.raises(BlockError, match=rf"^arrays: examples 0:50: X {what} 3$"):
        look(X, Y)


def test_held_out_labels_decide_nothing():
    X = np.random.default_rng(0).standard_normal((400, 3, 2))
    Y = np.random.default_rng(1).standard_normal((400, 3, 2))
    Y[200:] += 100.0
    first_half = lambda start, stop: np.arange(max(0, min(stop, 200) - start))  # noqa: E731
    seen = survey(ArrayExamples(X, Y), block_size=150, may_decide=first_half)
    alone = survey(ArrayExamples(X[:200], Y[:200]), block_size=150)
    np.testing.assert_allclose(seen.y_mean, alone.y_mean)
    assert seen.bias_z == pytest.approx(alone.bias_z) and seen.bias_z < 8
    assert survey(ArrayExamples(X, Y), block_size=150).bias_z > 8


@pytest.mark.parametrize("spoil", ["biased", "repeated"])
def test_signs_that_are_not_uniform_are_neither_kind(spoil):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((3000, 3, 4)) < (0.9 if spoil == "biased" else 0.5), 1.0, -1.0)
    if spoil == "repeated":
        X[:, 1] = X[:, 0]
    assert survey(ArrayExamples(X, X), block_size=1000).kind == "other"
