"""One visible coordinate of the last row: all heads, to rounding, with few queries."""

from __future__ import annotations

import numpy as np
import pytest

from gradine import AttentionLayer, compare, plant
from gradine.queries import (
    Ball,
    Box,
    BudgetSpent,
    OracleConfig,
    Rounded,
    as_oracle,
    probe_precision,
)
from gradine.queries.scalar.cliffs import find_cliffs
from gradine.queries.scalar.learn import View, learn_scalar
from gradine.queries.scalar.pairs import Pairs, measure_linear, published_count
from gradine.queries.scalar.view import Scene
from gradine.records import load_record, save_record
from gradine.status import NotLearned, Status


class Phases(dict):
    """A runner of phases that keeps their results."""

    def __call__(self, name, kind, work):
        self[name] = work()
        assert type(self[name]) is kind
        return self[name]


def visible(layer, output=0):
    """The part of a layer that the oracle shows."""
    return AttentionLayer(layer.theta, layer.w[:, :, [output]], layer.constant)


def learned(layer, heads=None, seed=0, phases=None, source=None, output=0, **options):
    """The answer, and the queries that it took with those for the precision."""
    oracle = as_oracle(source or layer, layer.dim, rows="last", output=output, **options)
    precision = probe_precision(oracle, seed=seed)
    answer = learn_scalar(oracle, heads, precision, seed, Phases() if phases is None else phases)
    return answer, oracle.queries_used


def worst(answer, layer, output=0):
    match = compare(answer, visible(layer, output))
    assert (match.missing, match.extra) == (0, 0)
    return max(match.theta_error.max(), match.w_error.max())


def allowed(layer):
    return published_count(layer.n_heads, layer.dim + layer.constant)


@pytest.mark.parametrize("constant", [False, True], ids=["plain", "biased"])
@pytest.mark.parametrize(("heads", "dim"), [(1, 8), (3, 5), (8, 8), (9, 6), (4, 16)])
def test_heads_are_counted_and_found(heads, dim, constant):
    layer = plant(heads, dim, scale=2.0, seed=heads, constant=constant)
    phases = Phases()
    answer, queries = learned(layer, phases=phases)
    assert list(phases) == ["linear", "view", "directions"]
    assert (answer.out_dim, answer.constant) == (1, constant)
    assert worst(answer, layer) < 1e-11
    assert queries <= allowed(layer)
    if dim >= 8:
        assert queries < 0.8 * allowed(layer)


def test_any_coordinate_can_be_the_visible_one():
    layer = plant(2, 6, scale=2.0, seed=3)
    answer, _ = learned(layer, output=4)
    assert worst(answer, layer, output=4) < 1e-11


@pytest.mark.parametrize("scale", [1e-4, 30.0])
def test_any_scale(scale):
    layer = plant(3, 8, scale=scale, seed=1)
    assert worst(learned(layer)[0], layer) < 1e-10


@pytest.mark.parametrize("heads", [1, 2])
def test_tokens_of_few_coordinates_are_asked_at_random(heads):
    layer = plant(heads, 3, scale=2.0, seed=2)
    phases = Phases()
    answer, queries = learned(layer, phases=phases)
    assert list(phases) == ["linear", "view", "scatter"] and phases["view"].reason
    assert worst(answer, layer) < 1e-11
    assert phases["scatter"].queries == queries - 17 <= allowed(layer)


def test_low_rank():
    layer = plant(4, 8, scale=2.0, rank=1, seed=0)
    assert worst(learned(layer)[0], layer) < 1e-10


def changed(layer, theta=(), w=()):
    """The layer with some heads replaced: {head: matrix}."""
    thetas, ws = layer.theta.copy(), layer.w.copy()
    for head, value in dict(theta).items():
        thetas[head] = value
    for head, value in dict(w).items():
        ws[head] = value
    return AttentionLayer(thetas, ws)


@pytest.fixture
def three():
    return plant(3, 6, scale=2.0, seed=4)


def test_a_head_that_averages_has_no_cliff_and_is_found(three):
    layer = changed(three, theta={1: 0.0})
    phases = Phases()
    answer, _ = learned(layer, phases=phases)
    assert worst(answer, layer) < 1e-11
    only = changed(three, theta={0: 0.0, 1: 0.0, 2: 0.0})
    answer, _ = learned(only)
    assert answer.n_heads == 1 and compare(answer, visible(only)).function_error < 1e-13


def test_opposite_heads_share_a_cliff_and_are_told_apart(three):
    layer = changed(three, theta={1: -three.theta[0]})
    assert worst(learned(layer)[0], layer) < 1e-11


def test_equal_heads_merge(three):
    layer = changed(three, theta={1: three.theta[0]})
    answer, _ = learned(layer, heads=3)
    assert answer.n_heads == 2 and worst(answer, layer) < 1e-11


def test_a_head_that_hardly_shows(three):
    layer = changed(three, w={1: 1e-5 * three.w[1]})
    assert worst(learned(layer)[0], layer) < 1e-6


def test_values_that_cancel(three):
    layer = changed(three, w={2: -three.w[0] - three.w[1]})
    assert worst(learned(layer)[0], layer) < 1e-11


def test_parallel_heads_are_not_claimed(three):
    layer = changed(three, theta={1: 2.0 * three.theta[0]})
    with pytest.raises(NotLearned) as stopped:
        learned(layer)
    assert stopped.value.status is Status.NOT_REALIZABLE


def test_fewer_heads_than_there_are(three):
    with pytest.raises(NotLearned, match="3 heads are seen; 2 were asked for") as stopped:
        learned(three, heads=2)
    assert stopped.value.status is Status.NOT_REALIZABLE
    assert worst(learned(three, heads=3)[0], three) < 1e-11


def test_what_is_no_attention_is_not_learned():
    mixing = np.random.default_rng(0).standard_normal((6, 6))

    def network(X):
        return np.tanh(X.mean(axis=1, keepdims=True) @ mixing) + X

    with pytest.raises(NotLearned):
        learned(plant(1, 6), source=network)


@pytest.mark.parametrize(
    ("options", "error"), [({"dtype": "float32"}, 1e-4), ({"decimals": 5}, 1e-2)]
)
def test_rounded_answers(options, error):
    layer = plant(4, 8, scale=2.0, seed=5)
    answer, queries = learned(layer, source=Rounded(layer, **options))
    assert worst(answer, layer) < error
    assert queries <= allowed(layer)


@pytest.mark.parametrize("limit", [Ball(1e4), Box(-1e5, 1e5)])
def test_a_wide_limit(limit):
    layer = plant(3, 6, scale=2.0, seed=6)
    phases = Phases()
    assert worst(learned(layer, phases=phases, limit=limit)[0], layer) < 1e-11
    assert "directions" in phases


@pytest.mark.parametrize("limit", [Ball(10.0), Box(2.0, 4.0)])
def test_a_narrow_limit(limit):
    """Keys are never large there, and a query bias could not be told from a token off zero."""
    layer = plant(1, 5, scale=2.0, seed=6)
    phases = Phases()
    assert worst(learned(layer, phases=phases, limit=limit)[0], layer) < 1e-10
    assert "scatter" in phases


def test_a_budget_that_is_too_small(three):
    oracle = as_oracle(three, rows="last", output=0, config=OracleConfig(max_queries=100))
    precision = probe_precision(oracle)
    with pytest.raises(BudgetSpent):
        learn_scalar(oracle, None, precision, 0, Phases())
    assert oracle.queries_used <= 100


def test_more_than_one_number_is_not_for_this_learner(three):
    for options in ({}, {"rows": "last"}, {"output": 0}):
        oracle = as_oracle(three, **options)
        precision = probe_precision(oracle)
        with pytest.raises(ValueError, match="one coordinate of the last row"):
            learn_scalar(oracle, None, precision, 0, Phases())


def test_phases_are_saved_and_a_run_repeats_itself(three, tmp_path):
    phases, again = Phases(), Phases()
    answer, queries = learned(three, phases=phases)
    for name, result in phases.items():
        save_record(tmp_path / name, result, "run")
        assert load_record(tmp_path / name, type(result), "run").queries == result.queries
    assert phases["directions"].queries == queries - 17

    def recalled(name, kind, work):
        again[name] = load_record(tmp_path / name, kind, "run") if name != "directions" else work()
        return again[name]

    oracle = as_oracle(three, rows="last", output=0)
    resumed = learn_scalar(oracle, None, probe_precision(oracle), 0, recalled)
    np.testing.assert_array_equal(resumed.theta, answer.theta)
    assert again["directions"].queries == phases["directions"].queries


def test_an_unlucky_plane_is_left_for_another(monkeypatch):
    """Two heads in one bracket: their sum is no head, which keys of ordinary size show."""
    layer, heads, seen = plant(3, 10, scale=2.0, seed=4), Scene.heads, []

    def merged(self, cliffs):
        found = heads(self, cliffs)
        seen.append(len(found.v))
        if len(seen) == 1:
            v = np.concatenate([found.v[:1] + found.v[1:2], found.v[2:]])
            return found._replace(u=found.u[1:], v=v)
        return found

    monkeypatch.setattr(Scene, "heads", merged)
    phases = Phases()
    assert worst(learned(layer, phases=phases)[0], layer) < 1e-11
    view: View = phases["view"]
    assert (view.planes, seen) == (2, [3, 3])


def test_a_look_is_nearly_exact_without_any_fit():
    layer = plant(8, 8, scale=2.0, seed=1)
    oracle = as_oracle(layer, rows="last", output=0)
    pairs = Pairs(oracle, probe_precision(oracle))
    linear = measure_linear(pairs, 0)
    scene = Scene(pairs, linear, np.random.default_rng(1))
    found = scene.heads(scene.cliffs())
    u, v = np.einsum("b,hbk->hk", found.b, layer.theta), layer.w[:, :, 0]
    order = [int(np.argmin(np.linalg.norm(u - guess, axis=1))) for guess in found.u]
    assert sorted(order) == list(range(8))
    np.testing.assert_allclose(found.u, u[order], atol=1e-5)
    np.testing.assert_allclose(found.v, v[order], atol=1e-8)
    assert pairs.used < published_count(8, 8) / 4


@pytest.mark.parametrize("noise", [1e-15, 1e-6])
def test_cliffs_are_where_they_are(noise):
    rng = np.random.default_rng(2)
    at = np.sort(rng.uniform(0.3, 0.3 + np.pi, 7))
    v = rng.standard_normal((7, 2))

    def values(angles):
        points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        signs = np.sign(np.sin(angles[:, None] - at))
        return np.sum(signs * (points @ v.T), axis=1) + noise * rng.standard_normal(len(angles))

    found = find_cliffs(values, noise, 1e-4)
    assert np.all((found.before < at) & (at < found.after) & (found.after - found.before < 1e-4))
    jumps = np.diff(np.concatenate([-found.forms[-1:], found.forms]), axis=0) / 2
    np.testing.assert_allclose(jumps, v, atol=1e4 * noise)


def test_without_heads_there_is_no_cliff():
    found = find_cliffs(lambda angles: np.zeros(len(angles)), 1e-15, 1e-4)
    assert len(found.before) == len(found.forms) == 0
