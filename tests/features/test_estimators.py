"""The regressors, as a user of scikit-learn meets them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.ensemble import BaggingRegressor
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from gradine import FlatTokens, RandomFeatureAttention, RandomFeatureMLP
from gradine.features.targets import correlation, on_sphere

SMALL = RandomFeatureAttention(n_heads=30, random_state=0)


@parametrize_with_checks(
    [
        FlatTokens(SMALL),
        FlatTokens(),
        FlatTokens(RandomFeatureAttention(n_heads=30, activation="softmax", random_state=0)),
        FlatTokens(RandomFeatureMLP(n_neurons=100, random_state=0)),
    ]
)
def test_conventions_of_scikit_learn(estimator, check):
    check(estimator)


def averages(n=400, keys=6, dim=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, keys + 1, dim))
    X /= np.linalg.norm(X, axis=2, keepdims=True)
    return X, np.mean((X[:, 1:] @ np.eye(dim)[0]) ** 2, axis=1)


@pytest.mark.parametrize("activation", ["relu", "softmax"])
@pytest.mark.parametrize("mean", ["zero", "identity"])
def test_averages_over_keys_are_learned_by_attention(activation, mean):
    X, y = averages()
    model = RandomFeatureAttention(60, mean, activation, random_state=0).fit(X[:300], y[:300])
    neurons = RandomFeatureMLP(300, random_state=0).fit(X[:300], y[:300])
    least = 0.9 if activation == "relu" else 0.3  # softmax of small logits is nearly linear
    assert model.score(X[300:], y[300:]) > max(least, neurons.score(X[300:], y[300:]))
    assert model.alpha_ > 0.0 and len(model.cv_["alphas"]) == len(model.cv_["errors"])


def noisy(n, noise, seed):
    X = on_sphere(n + 1000, 4, 6, seed)
    y = correlation(1, 6)(X)
    y /= y.std()
    return X, y, y + noise * np.random.default_rng(seed).standard_normal(len(y))


@pytest.mark.parametrize("seed", range(8))
def test_alphas_are_as_good_as_those_of_scikit_learn_where_examples_are_features(seed):
    X, y, Y = noisy(140, 0.5, seed)
    model = RandomFeatureAttention(20, random_state=seed).fit(X[:140], Y[:140])
    A = model.map_(X)
    peer = RidgeCV(alphas=model.cv_["alphas"]).fit(A[:140], Y[:140])
    assert model.alpha_ == pytest.approx(peer.alpha_)
    assert model.cv_["errors"].min() == pytest.approx(-peer.best_score_, rel=1e-6)
    assert r2_score(y[140:], model.predict(X[140:])) > 0.1


def test_an_alpha_that_looks_good_by_chance_is_not_chosen():
    X, y, Y = noisy(140, 0.5, 80)  # where the errors left out are least at the smallest alpha
    model = RandomFeatureAttention(20, random_state=80).fit(X[:140], Y[:140])
    chosen = model.cv_["errors"][model.cv_["alphas"] == model.alpha_]
    assert model.cv_["errors"].min() < chosen[0]
    assert r2_score(y[140:], model.predict(X[140:])) > 0.3


def test_bagging():
    X, y, _ = noisy(300, 0.0, 0)
    rows = X.reshape(len(X), -1)
    flat = FlatTokens(RandomFeatureAttention(20, random_state=1), token_dim=6)
    bag = BaggingRegressor(flat, 5, random_state=0).fit(rows[:300], y[:300])
    assert min(one.score(rows[300:], y[300:]) for one in bag.estimators_) > 0.15
    assert bag.score(rows[300:], y[300:]) > 0.3


@pytest.mark.parametrize("seed", range(3))
def test_a_bootstrap_does_not_make_cross_validation_blind(seed):
    X, y, _ = noisy(300, 0.0, seed)
    rows = np.random.default_rng(seed).integers(0, 300, 300)
    model = RandomFeatureAttention(20, random_state=seed).fit(X[rows], y[rows])
    A = model.map_(X)
    peer = RidgeCV(alphas=model.cv_["alphas"]).fit(A[rows], y[rows])
    found = r2_score(y[300:], model.predict(X[300:]))
    assert found > max(peer.score(A[300:], y[300:]) - 0.03, 0.15)
    same = Ridge(alpha=model.alpha_).fit(A[rows], y[rows])
    np.testing.assert_allclose(model.predict(X), same.predict(A), atol=1e-8)


def test_each_output_has_its_own_alpha():
    X, y, _ = noisy(400, 0.0, 0)
    noise = 30.0 * np.random.default_rng(1).standard_normal(len(y))
    both = np.stack([y, noise], axis=1)
    model = RandomFeatureAttention(60, random_state=0).fit(X[:400], both[:400])
    alone = RandomFeatureAttention(60, random_state=0).fit(X[:400], y[:400])
    assert isinstance(alone.alpha_, float) and model.alpha_.shape == (2,)
    assert model.alpha_[1] > model.alpha_[0] == alone.alpha_
    np.testing.assert_allclose(model.predict(X)[:, 0], alone.predict(X), atol=1e-8)
    assert model.cv_["errors"].shape == (*alone.cv_["errors"].shape, 2)


def test_vector_targets_and_tensors():
    torch = pytest.importorskip("torch")
    X, y = averages()
    both = np.stack([y, -2.0 * y + 1.0], axis=1)
    model = RandomFeatureAttention(30, alpha=1e-3, random_state=0).fit(X, both)
    assert model.predict(X).shape == (400, 2)
    alone = RandomFeatureAttention(30, alpha=1e-3, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict(X)[:, 0], alone.predict(X), atol=1e-9)
    np.testing.assert_allclose(model.predict(X)[:, 1], 1.0 - 2.0 * alone.predict(X), atol=1e-9)
    tensors = RandomFeatureAttention(30, alpha=1e-3, random_state=0)
    tensors.fit(torch.from_numpy(X), torch.from_numpy(y))
    np.testing.assert_array_equal(tensors.predict(torch.from_numpy(X)), alone.predict(X))


def test_the_same_seed_gives_the_same_answer():
    X, y = averages()
    first, second = (RandomFeatureAttention(30, random_state=3).fit(X, y) for _ in range(2))
    assert first.predict(X).tobytes() == second.predict(X).tobytes()
    other = RandomFeatureAttention(30, random_state=4).fit(X, y)
    assert np.abs(other.predict(X) - first.predict(X)).max() > 0.0


def test_memory_does_not_change_the_answer():
    X, y = averages()
    small = RandomFeatureAttention(30, alpha=0.1, memory=0.05, random_state=0).fit(X, y)
    large = RandomFeatureAttention(30, alpha=0.1, random_state=0).fit(X, y)
    np.testing.assert_allclose(small.predict(X), large.predict(X), atol=1e-9)


def test_a_bound_on_the_norm():
    X, y = averages()
    model = RandomFeatureAttention(30, max_norm=0.5, random_state=0).fit(X, y)
    assert np.linalg.norm(model.coef_) == pytest.approx(0.5, rel=1e-6)


def test_pipelines_grids_and_cross_validation():
    X, y = averages()
    rows = X.reshape(400, -1)
    flat = FlatTokens(SMALL, token_dim=4, positions=False)
    pipeline = make_pipeline(StandardScaler(), flat)
    assert cross_val_score(pipeline, rows, y, cv=3).min() > 0.5
    grid = GridSearchCV(flat, {"estimator__mean": ["zero", "identity"]}, cv=3).fit(rows, y)
    assert grid.best_score_ > 0.8


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"n_heads": 0}, "n_heads is 0; expected a whole number of at least 1"),
        ({"n_heads": 2.5}, "n_heads is 2.5; expected a whole number of at least 1"),
        ({"mean": "one"}, "mean is 'one'; expected 'zero' or 'identity'"),
        ({"activation": "gelu"}, "activation is 'gelu'; expected 'relu' or 'softmax'"),
        ({"alpha": -1.0}, "alpha is -1.0; expected 'cv' or a finite number of at least 0"),
        ({"alpha": "gcv"}, "alpha is 'gcv'; expected 'cv' or a finite number of at least 0"),
        ({"max_norm": float("nan")}, "max_norm is nan"),
        ({"scale": "wide"}, "scale is 'wide'"),
    ],
)
def test_what_makes_no_sense_is_said(parameters, said):
    X, y = averages(20)
    with pytest.raises(ValueError, match=said.replace(".", r"\.")):
        RandomFeatureAttention(**{"n_heads": 5, **parameters}).fit(X, y)


def test_shapes_that_do_not_fit_are_said():
    X, y = averages(20)
    model = RandomFeatureAttention(5, random_state=0)
    with pytest.raises(ValueError, match=r"X has shape \(20, 28\); expected \(n, tokens"):
        model.fit(X.reshape(20, -1), y)
    with pytest.raises(ValueError, match=r"y has shape \(19,\); expected \(20,\)"):
        model.fit(X, y[:-1])
    with pytest.raises(ValueError, match="X has 1 token; expected a query and at least one key"):
        model.fit(X[:, :1], y)
    model.fit(X, y)
    with pytest.raises(ValueError, match=r"X has 7 tokens of 3 coordinates; .* 7 tokens of 4"):
        model.predict(X[:, :, :3])
    with pytest.raises(ValueError, match="rows of 28 numbers; expected a multiple of"):
        FlatTokens(model, token_dim=5).fit(X.reshape(20, -1), y)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"fit_intercept": "no"}, "fit_intercept is 'no'"),
        ({"alpha": np.array([1.0, 2.0])}, "alpha is array"),
        ({"alpha": "loo"}, "alpha is 'loo'"),
        ({"mean": np.eye(3)}, "mean is array"),
    ],
)
def test_settings_of_another_kind_are_named(wrong, named):
    X, y = averages(20)
    with pytest.raises(ValueError, match=named):
        RandomFeatureAttention(5, **wrong).fit(X, y)


def test_generators_and_short_floats_are_taken():
    torch = pytest.importorskip("torch")
    X, y = averages(50)
    first, second = (
        RandomFeatureAttention(5, alpha=1.0, random_state=np.random.default_rng(3)).fit(X, y)
        for _ in range(2)
    )
    assert np.array_equal(first.coef_, second.coef_)
    short = torch.tensor(X, dtype=torch.bfloat16)
    assert first.predict(short) == pytest.approx(first.predict(X), abs=0.05)


def test_tokens_that_overflow_are_refused_by_fit_and_predict():
    X, y = averages(50)
    for alpha in ("cv", 1.0):
        model = RandomFeatureAttention(5, alpha=alpha, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ValueError, match="features of X overflow: scale X down"):
                model.fit(1e160 * X, y)
            model.fit(X, y)
            with pytest.raises(ValueError, match="features of X overflow: scale X down"):
                model.predict(1e160 * X)


def test_what_is_missing_is_named():
    X, y = averages(20)
    model = RandomFeatureAttention(5, random_state=0)
    with pytest.raises(ValueError, match=r"y is None; expected \(20,\)"):
        model.fit(X, None)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.fit(np.where(X > 0.9, np.nan, X), y)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        model.fit(X, np.where(y > y[0], np.nan, y))
    with pytest.raises(ValueError, match="positions is 'no'; expected True or False"):
        FlatTokens(model, token_dim=4, positions="no").fit(X.reshape(20, -1), y)
