"""The exact learner with every attention function: heads found, counted, and given right bars."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradine import (
    AttentionLayer,
    ExactConfig,
    LearnConfig,
    QueryConfig,
    as_oracle,
    compare,
    learn,
    learn_by_queries,
    plant,
    sample_inputs,
)
from gradine.attention_functions import FUNCTIONS
from gradine.exact.heads import FitTask, fit_heads
from gradine.exact.identify import identify
from gradine.exact.units import Units
from gradine.solvers.linearisation import Linearisation
from gradine.solvers.projection import Penalty, Projection

every = pytest.mark.parametrize("name", FUNCTIONS)
others = pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "softmax"])


def config(name, **settings):
    return LearnConfig(exact=ExactConfig(attention=name, **settings))


def examples(layer, n=3000, noise=0.0, stretch=1.0):
    X = stretch * sample_inputs(n, 4, layer.dim, seed=7)
    Y = layer(X)
    return X, Y + noise * Y.std() * np.random.default_rng(0).standard_normal(Y.shape)


@every
@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize("penalty", [Penalty(), Penalty(0.3, 0.1)], ids=["free", "penalised"])
def test_the_gradient_is_that_of_the_loss(name, rank, penalty):
    layer = plant(2, 5, 2.0, seed=0, attention=name)
    problem = Projection(*examples(layer, 40), function=FUNCTIONS[name])
    draw = np.random.default_rng(1).standard_normal
    shapes = [(2, 5, 5)] if rank is None else [(2, 5, rank)] * 3
    start, way = (tuple(draw(shape) for shape in shapes) for _ in range(2))
    here = problem.evaluate(start, penalty)
    down = Linearisation(problem, here).gradient()
    slope = -2 * sum(float(np.sum(g * v)) for g, v in zip(down, way, strict=True)) / problem.energy
    h = 1e-5
    ahead, behind = (
        problem.evaluate(tuple(p + s * v for p, v in zip(start, way, strict=True)), penalty).loss
        for s in (h, -h)
    )
    assert slope == pytest.approx((ahead - behind) / (2 * h), rel=1e-3, abs=1e-5)


@others
@pytest.mark.parametrize("heads", [2, "auto"])
@pytest.mark.parametrize("constant", [False, True])
def test_heads_are_found(name, heads, constant):
    truth = plant(2, 8, 2.0, seed=3, attention=name, constant=constant)
    fit = learn(*examples(truth, 5000), heads=heads, config=config(name))
    assert fit.status.code == "learned" and fit.layer is not None
    assert fit.layer.function is truth.function and fit.method == "exact"
    match = compare(fit.layer, truth)
    assert match.missing == match.extra == 0
    assert max(*match.theta_error, *match.w_error) < 1e-9
    if heads == "auto":
        spectrum = fit.phases["spectrum"]
        assert spectrum.heads == 2 and spectrum.confidence > 0.9


@others
def test_gaussian_tokens_show_the_heads_too(name):
    truth = plant(3, 6, 1.0, seed=1, attention=name)
    X = sample_inputs(4000, 4, 6, kind="gaussian", seed=2)
    fit = learn(X, truth(X), config=config(name))
    assert fit.phases["spectrum"].heads == 3
    assert fit.layer is not None and max(compare(fit.layer, truth).theta_error) < 1e-9


@others
def test_narrow_heads(name):
    truth = plant(2, 12, 2.0, rank=2, seed=1, attention=name)
    fit = learn(*examples(truth), heads=2, config=config(name, rank=2))
    assert fit.status.code == "learned" and fit.layer is not None
    assert max(compare(fit.layer, truth).theta_error) < 1e-9


@others
def test_torch_learns_the_same(name):
    torch = pytest.importorskip("torch")
    truth = plant(2, 6, 2.0, seed=1, attention=name)
    X, Y = map(torch.from_numpy, examples(truth, 1500))
    fit = learn(X, Y, heads=2, config=config(name))
    assert fit.layer is not None and max(compare(fit.layer, truth).theta_error) < 1e-9


@others
def test_bars_are_of_the_size_of_the_errors(name):
    """Coordinates of different sizes: with relu, the scale that is fixed is that of the answer."""
    stretch, ratios = np.linspace(0.5, 2.0, 6), []
    units = Units(np.diag(1.0 / stretch), 1.0, 0, "", False)
    for seed in range(4):
        truth = plant(2, 6, 2.0, seed=seed, attention=name)
        X, Y = examples(truth, 240, noise=0.05, stretch=stretch)
        X = X / stretch
        task = FitTask(X[:200], Y[:200], X[200:], Y[200:], 6, ExactConfig(attention=name), seed)
        fit = fit_heads(task, 2)
        bars = identify(task, fit, units)
        theta, w = units.theta(fit.theta), units.w(fit.w)
        match = compare(AttentionLayer(theta, w, attention=name), truth)
        assert bars.determined and 1.0 < bars.condition < 1e3
        # Heads of the answer come in the order of their norms as they were fitted.
        ratios += [np.sort(match.theta_error) / np.sort(bars.theta_bars)]
        ratios += [np.sort(match.w_error) / np.sort(bars.w_bars)]
    assert 0.7 < np.median(ratios) < 1.3 and np.max(ratios) < 2.5


def test_heads_to_spare_are_left_out_whatever_their_scale():
    truth = plant(2, 6, 2.0, seed=1, attention="relu")
    fit = learn(*examples(truth), heads=3, config=config("relu"))
    assert fit.status.code == "learned" and fit.heads == 2
    np.testing.assert_allclose(np.linalg.norm(fit.layer.theta, axis=(1, 2)), 1.0)


def test_what_tokens_never_show_is_not_determined():
    truth = plant(1, 6, 2.0, seed=1, attention="relu")
    X = examples(truth)[0]
    X[..., 1] = X[..., 0]
    fit = learn(X, truth(X), heads=1, config=config("relu"))
    assert fit.status.code == "learned_function"


def test_another_function_is_not_learned_as_this_one():
    truth = plant(2, 6, 2.0, seed=1)
    fit = learn(*examples(truth, 2000), heads=2, config=config("sigmoid"))
    assert fit.status.code == "not_realizable" and fit.layer is None


@others
def test_learners_that_know_softmax_alone_refuse(name):
    layer = plant(1, 6, attention=name)
    X, Y = examples(layer, 1000)
    with pytest.raises(ValueError, match=f"attention is '{name}'; the six phases are for 'soft"):
        learn(X, Y, method="sculpt", config=config(name))
    with pytest.raises(ValueError, match=f"layer: has attention '{name}'; expected 'softmax'"):
        as_oracle(layer)
    asking = replace(QueryConfig(), exact=ExactConfig(attention=name))
    with pytest.raises(ValueError, match=f"attention is '{name}'; expected 'softmax', which is"):
        learn_by_queries(layer.__call__, dim=6, config=asking)
    settings = config(name, rank=2, wide_work=1.0)
    with pytest.raises(ValueError, match=f"attention is '{name}'; expected 'softmax' for a layer"):
        learn(X, Y, heads=1, config=settings)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="attention is 'gelu'; expected one of softmax, poly"):
        ExactConfig(attention="gelu")
