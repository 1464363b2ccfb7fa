"""Narrow heads, found one after the other in what is left of the outputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gradine
from gradine.exact.config import ExactConfig
from gradine.exact.deflate import DeflateConfig, deflate, rows_needed, worth_of
from gradine.exact.finish import FinishConfig, finish
from gradine.exact.probes import find_heads
from gradine.exact.spaces import Space
from gradine.solvers.narrow import Heads, NarrowProblem

CONFIG = DeflateConfig(moment_rows=12.0, finish=FinishConfig(least_misfit=1e-26))
RULES = {"spare": 4, "rounds": (5, 8), "ratio": 1.3}


def unit(left, right):
    product = left @ right
    return product / np.linalg.norm(product, axis=(1, 2), keepdims=True)


def narrow_layer(heads, dim, rank, seed, constant=False):
    """Heads of unequal size, with query and value biases if there is a constant coordinate."""
    rng = np.random.default_rng(seed)
    draw = rng.standard_normal
    width = dim + constant
    theta = 2.5 * unit(draw((heads, width, rank)), draw((heads, rank, dim)))
    w = np.sqrt(dim) * unit(draw((heads, width, rank)), draw((heads, rank, dim)))
    w *= np.linspace(0.7, 1.4, heads)[:, None, None]
    theta = np.pad(theta, ((0, 0), (0, 0), (0, int(constant))))
    return gradine.AttentionLayer(theta, w, constant=constant)


def tokens(n, k, dim, seed, constant=False):
    X = np.random.default_rng(seed).standard_normal((n, k, dim + constant))
    if constant:
        X[..., -1] = 1.0
    return X


@pytest.mark.parametrize("constant", [False, True])
def test_narrow_heads_are_found_to_rounding(constant):
    layer = narrow_layer(4, 32, 4, seed=1, constant=constant)
    width = 32 + constant
    n = rows_needed(4, 4, (6, width, 32, 32), CONFIG)[1]
    X = tokens(n, 6, 32, 2, constant)
    found = deflate(X, layer(X), 32, 4, 4, CONFIG, seed=0)
    theta = np.pad(found.theta, ((0, 0), (0, 0), (0, int(constant))))
    answer = gradine.AttentionLayer(theta, found.w, constant=constant)
    match = gradine.compare(answer, layer, seq_len=6)
    assert match.function_error < 1e-10
    assert match.theta_error.max() < 1e-9 and match.w_error.max() < 1e-9
    assert sum(found.phases) >= 1 and found.misfits[-1] < 1e-20


def learned_to(found, layer):
    return gradine.compare(gradine.AttentionLayer(found.theta, found.w), layer, seq_len=6)


def test_heads_that_spaces_do_not_show_are_found_by_moments(monkeypatch):
    layer = narrow_layer(4, 32, 4, seed=1)
    X = tokens(rows_needed(4, 4, (6, 32, 32, 32), CONFIG)[1], 6, 32, 2)

    def anything(R, count, rank, *, rng, **_):
        basis = np.linalg.qr(rng.standard_normal((R.shape[1], rank)))[0].astype(R.dtype)
        return [Space(basis, basis.T)] * count

    monkeypatch.setattr("gradine.exact.deflate.find_spaces", anything)
    found = deflate(X, layer(X), 32, 4, 4, CONFIG, seed=0)
    assert learned_to(found, layer).theta_error.max() < 1e-9


def test_heads_that_share_their_outputs_are_found_by_moments(monkeypatch):
    wide = narrow_layer(4, 32, 4, seed=1)
    mix = np.random.default_rng(0).standard_normal((32, 12)) / np.sqrt(32)
    layer = gradine.AttentionLayer(wide.theta, wide.w @ mix)
    X = tokens(rows_needed(4, 4, (6, 32, 32, 12), CONFIG)[1], 6, 32, 2)
    monkeypatch.setattr("gradine.exact.deflate.find_spaces", None)  # not called
    found = deflate(X, layer(X), 32, 4, 4, CONFIG, seed=0)
    assert learned_to(found, layer).theta_error.max() < 1e-9


def test_probes_show_heads_where_there_are_some_and_none_in_noise():
    layer = narrow_layer(3, 32, 4, seed=3)
    X = tokens(4000, 6, 32, 4)
    Y = layer(X)
    design = np.concatenate([X, X.sum(axis=1, keepdims=True) - X], axis=2).reshape(-1, 64)
    flat = Y.reshape(-1, 32)
    R = (flat - design @ np.linalg.lstsq(design, flat, rcond=None)[0]).reshape(Y.shape)
    rng = np.random.default_rng(5)
    shown = find_heads(X, R, 32, 3, 4, rng=rng, **RULES)
    assert shown.clear(1.3) == 3
    cosines = np.abs(np.einsum("iab,jab->ij", shown.heads.theta[:3], layer.theta)) / 2.5
    assert sorted(np.argmax(cosines, axis=1)) == [0, 1, 2]  # each head once
    assert cosines.max(axis=1).min() > 0.8
    noise = find_heads(X, R[rng.permutation(len(R))], 32, 3, 4, rng=rng, **RULES)
    assert noise.clear(1.3) == 0


def factors_of(layer, rank):
    U, values, K = np.linalg.svd(layer.theta)
    V, sizes, O = np.linalg.svd(layer.w)  # noqa: E741
    return Heads(
        U[..., :rank] * values[:, None, :rank],
        K[:, :rank].swapaxes(1, 2),
        V[..., :rank] * sizes[:, None, :rank],
        O[:, :rank],
    )


@pytest.mark.parametrize("out_dim", [3, 4])
def test_one_head_may_have_fewer_outputs_than_its_rank(out_dim):
    wide = narrow_layer(1, 24, 4, seed=2)
    layer = gradine.AttentionLayer(wide.theta, wide.w[:, :, :out_dim])
    X = tokens(1500, 6, 24, 2)
    found = deflate(X, layer(X), 24, 1, 4, CONFIG, seed=0)
    assert learned_to(found, layer).function_error < 1e-9


@pytest.mark.parametrize("watched", [True, False])
def test_a_sharp_head_is_given_the_rows_that_it_takes(watched):
    layer = narrow_layer(3, 32, 4, seed=3)
    layer = gradine.AttentionLayer(layer.theta * np.array([5.0, 1.0, 1.0])[:, None, None], layer.w)
    X, draw = tokens(1500, 6, 32, 4), np.random.default_rng(0).standard_normal
    start = Heads(*(p + 0.3 * p.std() * draw(p.shape) for p in factors_of(layer, 4)))
    config = FinishConfig(least_misfit=1e-24, overfit=3.0 if watched else np.inf)
    found = finish(X, layer(X), 32, start, 30, config)
    apart = np.linalg.norm(found.heads.theta - layer.theta, axis=(1, 2))
    errors = apart / np.linalg.norm(layer.theta, axis=(1, 2))
    if watched:
        assert found.examples > 200 and errors.max() < 1e-9
    else:  # next to nothing is left of the residual, and the sharp head is wrong
        assert found.examples == 30 and found.misfits[-1] < 1e-3
        assert errors.argmax() == 0 and errors[0] > 0.1


def test_a_sharp_head_is_fitted_to_its_attention():
    layer = narrow_layer(4, 32, 8, seed=0)
    layer = gradine.AttentionLayer(layer.theta * np.array([1, 1, 1, 6.0])[:, None, None], layer.w)
    X, parts = tokens(1200, 6, 32, 2), factors_of(layer, 8)
    start = parts._replace(U=parts.U * np.array([1, 1, 1, 0.5])[:, None, None], K=1.1 * parts.K)
    left = {}
    for steps in (0, 10):
        config = FinishConfig(last_steps=5, attention_steps=steps)
        left[steps] = finish(X, layer(X), 32, start, 900, config).misfits[-1]
    assert left[10] < 1e-3 * left[0] and left[10] < 1e-11


@pytest.mark.parametrize("free", [False, True])
def test_what_was_taken_for_a_head_is_told_by_fresh_rows(free):
    layer = narrow_layer(3, 32, 4, seed=3)
    X, draw = tokens(400, 6, 32, 4), np.random.default_rng(5).standard_normal
    true = factors_of(layer, 4)
    noise = Heads(*(0.3 * draw((1, *part.shape[1:])) for part in true))
    problem = NarrowProblem(X, layer(X), 32, free=free)
    worth = worth_of(problem, true.joined(noise))
    assert worth[:3] == pytest.approx(1.0, abs=0.2) and worth[3] == pytest.approx(-1.0, abs=1e-9)


def test_a_search_that_believes_nothing_new_ends(monkeypatch):
    layer = narrow_layer(3, 32, 4, seed=3)
    X = tokens(rows_needed(3, 4, (6, 32, 32, 32), CONFIG)[1], 6, 32, 4)
    monkeypatch.setattr(
        "gradine.exact.deflate.worth_of",
        lambda _, heads: np.array([1.0] + [-1.0] * 9)[: len(heads.U)],
    )
    found = deflate(X, layer(X), 32, 3, 4, replace(CONFIG, finish=FinishConfig(last_steps=1)), 0)
    assert found.phases == [1, 0, 0] and len(found.theta) == 1


def test_a_row_says_only_so_much_about_theta():
    by_pairs, by_eights = (
        k * rows_needed(4, 8, (k, 64, 64, 64), DeflateConfig())[0] for k in (2, 8)
    )
    assert by_pairs > 3 * by_eights


@pytest.mark.parametrize("constant", [False, True])
def test_a_wide_layer_is_learned_without_full_matrices(constant):
    layer = narrow_layer(4, 32, 4, seed=1, constant=constant)
    X = tokens(3000, 6, 32, 7)
    exact = ExactConfig(rank=4, wide_work=0.0, deflate=CONFIG)
    config = gradine.LearnConfig(exact=exact)
    fit = gradine.learn(X, layer(X), heads=4, method="exact", config=config)
    assert fit.status.code == "learned" and fit.phases["identify"].determined
    assert fit.phases["fit_4"].reasons == ["strongest heads first, by what is left of the outputs"]
    assert gradine.compare(fit.layer, layer, seq_len=6).theta_error.max() < 1e-9


def test_what_so_many_heads_cannot_explain_is_said():
    layer = narrow_layer(4, 32, 4, seed=1)
    X = tokens(1500, 6, 32, 8)
    exact = ExactConfig(
        rank=4, wide_work=0.0, deflate=replace(CONFIG, finish=FinishConfig(last_steps=5))
    )
    config = gradine.LearnConfig(exact=exact)
    fit = gradine.learn(X, layer(X), heads=2, method="exact", config=config)
    assert fit.status.code == "not_realizable" and fit.layer is None
    assert "2 heads of rank 4 leave a residual" in fit.detail
