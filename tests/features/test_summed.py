"""Random features of examples from anywhere: sums by passes, the fit of arrays."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import gradine
from gradine import RandomFeatureAttention, RandomFeatureMLP
from gradine.engine import open_engine
from gradine.examples import ArrayExamples, GeneratedExamples
from gradine.examples.errors import BlockError


@pytest.fixture(scope="module")
def arrays():
    """Several blocks, not of one size, and two outputs with means."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 4, 3))
    y = np.stack([np.mean(X[:, 1:, 0] ** 2, axis=1), 3.0 + X[:, 0, 1]], axis=1)
    y += 0.05 * rng.standard_normal(y.shape)
    Y = np.repeat(y[:, None], 4, axis=1)
    Y[:, 1:] += rng.standard_normal(Y[:, 1:].shape)  # what other tokens get is none of its business
    return X, y, Y


MODELS = [
    RandomFeatureAttention(30, random_state=0, alpha=1e-3),
    RandomFeatureAttention(30, "identity", "softmax", alpha=0.1, random_state=1),
    RandomFeatureAttention(20, alpha=1e-3, fit_intercept=False, random_state=2),
    RandomFeatureAttention(20, max_norm=0.5, random_state=3),
    RandomFeatureMLP(90, alpha=1e-2, random_state=4),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_it_is_the_fit_to_arrays(model, arrays):
    X, y, Y = arrays
    expected = model.fit(X, y).predict(X[:200])
    found = model.fit_examples(ArrayExamples(X, Y)).predict(X[:200])
    np.testing.assert_allclose(found, expected, atol=1e-7)
    assert model.solver_ == "summed" and model.score(X, y) > 0.3


def test_cross_validation_is_what_it_says_and_chooses_as_well(arrays):
    X, y, Y = (array[:3000] for array in arrays)
    model = RandomFeatureAttention(60, random_state=0)
    by_arrays = model.fit(X, y).predict(arrays[0][3000:])
    fit = model.fit_examples(ArrayExamples(X, Y))
    errors = [
        np.mean((f - arrays[1][3000:]) ** 2, 0) for f in (by_arrays, fit.predict(arrays[0][3000:]))
    ]
    np.testing.assert_allclose(errors[1], errors[0], rtol=0.02)
    # n |residual|^2 / (n - trace)^2, with the smoother written out; the mean is one more number.
    features = fit.map_(X)
    features = features - features.mean(axis=0)
    centered = y - y.mean(axis=0)
    for row in (4, 10, 16):
        ridge = features.T @ features + fit.cv_["alphas"][row] * np.eye(features.shape[1])
        hat = np.linalg.solve(ridge, features.T)
        left = centered - features @ (hat @ centered)
        free = len(X) - 1.0 - np.sum(features.T * hat)
        expected = len(X) * np.sum(left**2, axis=0) / free**2
        np.testing.assert_allclose(fit.cv_["errors"][row], expected, rtol=1e-6)


def test_one_output_is_flat(arrays):
    X, _, Y = arrays
    model = RandomFeatureAttention(10, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit_examples(ArrayExamples(X, Y[..., :1]))
    assert model.predict(X[:5]).shape == (5,) and isinstance(model.alpha_, float)
    assert model.cv_["errors"].ndim == 1


@pytest.mark.parametrize("kind", ["pool", "dask"])
def test_engines_give_the_same_bits(kind, arrays):
    if kind == "dask":
        pytest.importorskip("distributed")
    X, _, Y = arrays
    model, data = RandomFeatureAttention(20, random_state=0, alpha=0.1), ArrayExamples(X, Y)
    here = model.fit_examples(data).coef_
    seen = []
    with open_engine(kind, 2) as engine:
        there = model.fit_examples(data, engine=engine, on_block=lambda at, _: seen.append(at))
    assert there.coef_.tobytes() == here.tobytes()
    assert seen == [4096, 5000]


def test_examples_that_are_made_on_the_way_and_files(tmp_path, arrays):
    layer = gradine.plant(1, 3, 1.0, seed=0)
    made = GeneratedExamples(layer, 4000, seq_len=4, seed=1)
    model = RandomFeatureAttention(60, alpha=1e-3, random_state=0).fit_examples(made)
    X, Y = made.block(0, 4000)
    assert model.score(X, Y[:, 0]) > 0.5
    np.savez(tmp_path / "data.npz", X=X, Y=Y)
    again = RandomFeatureAttention(60, alpha=1e-3, random_state=0)
    again.fit_examples(tmp_path / "data.npz")
    assert again.coef_.tobytes() == model.coef_.tobytes()


@pytest.mark.parametrize(("tokens", "outputs"), [(0.0, 1e7), (3.0, 0.0), (0.0, -1e4)])
def test_large_means_cost_no_digits(tokens, outputs, arrays):
    X, y, Y = arrays
    model = RandomFeatureAttention(20, alpha=1e-3, random_state=0)
    expected = model.fit(X + tokens, y + outputs).predict(X[:100] + tokens)
    found = model.fit_examples(ArrayExamples(X + tokens, Y + outputs)).predict(X[:100] + tokens)
    np.testing.assert_allclose(found - outputs, expected - outputs, atol=1e-4)


def test_what_cannot_be_is_said(arrays):
    X, _, Y = arrays
    model = RandomFeatureAttention(200, random_state=0, memory=4)
    with pytest.raises(ValueError, match="there are 800 features; expected at most 418, as 3 Gram"):
        model.fit_examples(ArrayExamples(X, Y))
    bad = X.copy()
    bad[4500, 1, 1] = np.nan
    with pytest.raises(BlockError, match="X has a NaN or infinite value in example 4500"):
        RandomFeatureAttention(5).fit_examples(ArrayExamples(bad, Y))
    with pytest.raises(ValueError, match="features of X overflow"):
        RandomFeatureAttention(5).fit_examples(ArrayExamples(1e160 * X, Y))
    with pytest.raises(ValueError, match="examples is tuple; expected a source"):
        RandomFeatureAttention(5).fit_examples((X, Y))
    with pytest.raises(ValueError, match="engine is 'pool'; expected None or"):
        RandomFeatureAttention(5).fit_examples(ArrayExamples(X, Y), engine="pool")
