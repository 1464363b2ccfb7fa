"""Curves of test errors, what they come to, and their pictures."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from gradine import RandomFeatureAttention
from gradine.features.alphas import best_alphas
from gradine.features.experiments import (
    BRIDGE,
    FIGURES,
    FULL,
    MODELS,
    QUICK,
    Setting,
    Unit,
    measure,
    targets,
    units_of,
)
from gradine.features.findings import findings
from gradine.features.targets import on_sphere, powers
from gradine.report.feature_pictures import draw_figures

TINY = Setting(4, 3, 40, 200, (16, 64, 256, 1024), 2, 100, 300)


@pytest.fixture(scope="module")
def units():
    return [measure(*unit, TINY, FIGURES) for unit in units_of(FIGURES, TINY)]


def test_the_sizes_are_those_of_the_paper():
    assert (FULL.dim, FULL.n_keys, FULL.n_heads * (FULL.dim + 1)) == (16, 16, FULL.n_neurons)
    assert FULL.sizes[0] == 32 and FULL.sizes[-1] >= 2**14 and FULL.seeds >= 5
    assert QUICK.n_heads * (QUICK.dim + 1) == QUICK.n_neurons


def test_errors_are_those_of_ridge_regression():
    """Against the estimator, which solves in double precision and is told the alpha."""
    X = on_sphere(700, 3, 4, 0)
    y = powers(2, 4, 0)(X)
    model = RandomFeatureAttention(40, random_state=0, alpha=1.0).fit(X[:200], y[:200])
    features = model.map_(X)
    K, beside = features[:200] @ features[:200].T, features[200:] @ features[:200].T
    singles = (A.astype(np.float32) for A in (K, beside))
    (alpha,), (error,) = best_alphas(*singles, y[:200, None], y[200:, None], FULL.alphas, 100)
    assert alpha in FULL.alphas
    unit = np.trace(K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()) / 200
    tried = {}
    for relative in FULL.alphas:
        model.set_params(alpha=relative * unit).fit(X[:200], y[:200])
        squares = (model.predict(X[200:]) - y[200:]) ** 2
        tried[relative] = squares[:100].mean(), squares[100:].mean() / y[300:].var()
    assert min(tried, key=lambda a: tried[a][0]) == alpha
    assert error == pytest.approx(tried[alpha][1], rel=1e-3)


@pytest.mark.parametrize("model", ["RFA", "BRFA"])
def test_infinitely_many_heads_are_the_limit_of_many(model):
    one_key = replace(TINY, n_keys=1, sizes=(256,), testing=1000)
    limit, many = (
        measure("targets", model, 0, replace(one_key, n_heads=heads), ["correlation"]).curves
        for heads in (None, 4000)
    )
    for name, curve in limit.items():
        assert curve.errors[0] == pytest.approx(many[name].errors[0], rel=0.2)  # 4,000 are few


def test_infinitely_many_heads_take_one_key():
    with pytest.raises(ValueError, match="n_heads is None and n_keys 3; expected one key"):
        measure("targets", "RFA", 0, replace(TINY, n_heads=None), ["correlation"])
    with pytest.raises(ValueError, match="n_heads is None; softmax RFA has a finite number"):
        measure("bridge", "softmax RFA", 0, replace(TINY, n_heads=None), ["bridge"])


def test_one_seed_after_the_other():
    wanted = units_of(["powers", "bridge"], TINY)
    assert [seed for _, _, seed in wanted] == [0] * 8 + [1] * 8
    assert {part for part, _, _ in units_of(["gamma"], TINY)} == {"targets"}


def test_the_same_seed_gives_the_same_curves(units):
    again = measure("targets", "BRFA", 1, TINY, FIGURES)
    same = next(u for u in units if (u.part, u.model, u.seed) == ("targets", "BRFA", 1))
    assert again.curves == same.curves
    assert Unit.from_dict(json.loads(json.dumps(same.to_dict()))) == same


def test_attention_needs_fewer_examples_than_a_network(units):
    found = findings(units, TINY, FIGURES)["figures"]["powers"]["p=2"]["models"]
    last = {model: curve["median"][-1] for model, curve in found.items()}
    assert last["RFA"] < 0.2 * last["RFMLP"]
    assert found["RFA"]["slope"] < -0.5


def test_learning_the_layer_is_exact_where_random_features_are_not(units):
    curves = {u.model: u.curves[BRIDGE].errors for u in units if u.part == "bridge"}
    assert set(curves) == set(MODELS["bridge"])
    assert curves["learn"][0] == 1.0 and curves["learn"][-1] < 1e-12
    assert min(curves[model][-1] for model in curves if model != "learn") > 1e-3


def test_what_is_found_and_predicted(units):
    found = findings(units, TINY, ["correlation"])
    entry = found["figures"]["correlation"]["p=1"]
    curve = entry["models"]["RFA"]
    assert np.allclose(curve["median"], np.median(curve["errors"], axis=0))
    assert np.shape(curve["errors"]) == (2, 4)
    pairs = np.divide(curve["errors"], entry["models"]["BRFA"]["errors"])
    assert np.allclose(entry["ratio"]["median"], np.median(pairs, axis=0))
    assert entry["predicted"]["RFA"][-1] == pytest.approx(curve["median"][-1])
    shrink = np.sqrt(entry["complexity"]["BRFA"] / entry["complexity"]["RFA"])
    assert np.allclose(entry["predicted"]["BRFA"], shrink * np.array(entry["predicted"]["RFA"]))
    ends = [entry["predicted"]["RFA"][i] for i in (0, -1)]
    assert ends[0] == pytest.approx(8.0 * ends[1])  # 64 times n
    assert entry["variance"] > 0.0 and entry["complexity"]["RFA"] > 1.0
    assert "p=1" not in findings(units, TINY, ["gamma"])["figures"]["gamma"]


def test_pictures(units, tmp_path):
    written = draw_figures(findings(units, TINY, FIGURES), tmp_path)
    assert {path.name for path in written} == {
        f"{f}.{kind}" for f in FIGURES for kind in ("svg", "png")
    }
    for path in written:
        assert path.stat().st_size > 5000
    svg = (tmp_path / "powers.svg").read_text(encoding="utf-8")
    assert "RFMLP" in svg and "examples n" in svg
    assert svg.count("test error / variance") == 1 and "(BRFA)" in svg
    svg = (tmp_path / "gamma.svg").read_text(encoding="utf-8")
    assert svg.count("test error / variance") == 2 and svg.count("RFMLP") == 1  # two rows
    assert "by seed" in svg


def test_targets_of_a_figure():
    assert set(targets(["gamma"], 4, 0)) == {
        f"gamma/gamma={g}" for g in ("0", "0.25", "0.5", "1", "2", "4")
    }
    assert not targets(["bridge"], 4, 0)


def test_a_target_that_no_feature_explains_is_at_its_variance():
    setting = replace(TINY, sizes=(256,))
    unit = measure("targets", "RFMLP", 0, setting, ["powers"])
    assert unit.curves["powers/p=1"].errors[0] < 0.2  # linear
    assert all(error < 1.2 for curve in unit.curves.values() for error in curve.errors)
