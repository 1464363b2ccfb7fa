"""Narrow heads in closed form: spaces, patterns, saturated rows, and all of it together."""

from __future__ import annotations

import numpy as np
import pytest

from gradine.inputs import plant
from gradine.layer import AttentionLayer
from gradine.queries import Ball, Box, Rounded, as_oracle, precision_of, probe_precision
from gradine.queries.closed_form.around import Around
from gradine.queries.closed_form.learn import PATHS, SYMMETRIC, learn_in_closed_form
from gradine.queries.closed_form.separate import separate
from gradine.queries.closed_form.symmetric import choose_steps, extrapolation, measure_forms
from gradine.score import compare
from gradine.status import NotLearned, Status


def narrow(heads: int, rank: int, dim: int, *, biased: bool, seed: int = 0) -> AttentionLayer:
    """Heads whose Theta and W have a small rank, with biases of queries and outputs or without."""
    rng = np.random.default_rng(seed)
    theta, w = np.zeros((heads, dim + 1, dim + 1)), np.zeros((heads, dim + 1, dim))
    for h in range(heads):
        Theta = rng.standard_normal((dim + 1, rank)) @ rng.standard_normal((rank, dim))
        theta[h, :, :dim] = 2.0 * Theta / np.linalg.norm(Theta)
        w[h, :dim] = rng.standard_normal((dim, rank)) @ rng.standard_normal((rank, dim)) / dim
        w[h, dim] = 0.1 * rng.standard_normal(dim)
    if biased:
        return AttentionLayer(theta, w, constant=True)
    return AttentionLayer(theta[:, :dim, :dim], w[:, :dim])


def learned(oracle, heads=None, seed=0, phases=None):
    def run(name, _, work):
        result = work()
        if phases is not None:
            phases[name] = result
        return result

    return learn_in_closed_form(oracle, heads, probe_precision(oracle), seed, run)


def forms_of(layer: AttentionLayer, Cs: np.ndarray) -> np.ndarray:
    d = layer.dim
    theta, w = layer.theta[:, :d, :d], layer.w[:, :d]
    return np.array([sum(T @ C @ W for T, W in zip(theta, w, strict=True)) for C in Cs])


def test_extrapolation_removes_even_powers():
    lengths = 2.0 ** (-0.5 * np.arange(4))
    values = 3.0 + 2.0 * lengths**2 - lengths**4 + 5.0 * lengths**6
    assert extrapolation(4) @ values == pytest.approx(3.0, rel=1e-13)
    assert abs(extrapolation(3) @ values[:3] - 3.0) > 0.01


def test_forms_are_as_exact_as_the_chosen_steps_promise():
    layer = narrow(2, 6, 24, biased=True)
    oracle = as_oracle(layer)
    around = Around(oracle, probe_precision(oracle))
    bias = oracle.ask(np.zeros((1, 1, 24)))[0, 0]
    steps = choose_steps(around, bias, np.random.default_rng(0))
    asked = []

    class Watched(Around):
        def ask(self, Z):
            asked.append(Z)
            return super().ask(Z)

    found = measure_forms(Watched(oracle, around.precision), steps, 2, np.random.default_rng(1))
    Cs = []
    for Z in asked[:: steps.levels]:
        tokens = Z[0, :24] / steps.length
        Cs.append(tokens.T @ tokens / 24)
    truth = forms_of(layer, np.array(Cs))
    error = np.linalg.norm(found - truth) / np.linalg.norm(truth)
    assert steps.error < 1e-8
    assert error < 10.0 * steps.error


@pytest.mark.parametrize(("heads", "rank", "dim"), [(3, 8, 24), (3, 8, 40), (1, 6, 16)])
def test_spaces_of_heads_from_exact_forms(heads, rank, dim):
    layer = narrow(heads, rank, dim, biased=False, seed=3)
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((5, 2 * dim, dim))
    found = separate(forms_of(layer, Z.swapaxes(1, 2) @ Z), 1e-14)
    assert [len(space) for space in found] == [rank] * heads
    for W in layer.w:
        outside = [np.linalg.norm(W - W @ space.T @ space) for space in found]
        assert min(outside) < 1e-8 * np.linalg.norm(W)


@pytest.mark.parametrize(
    ("heads", "rank", "dim", "biased"),
    [(2, 5, 24, True), (3, 8, 40, False), (1, 8, 32, True), (4, 6, 24, True)],
)
def test_narrow_heads_are_found_and_counted(heads, rank, dim, biased):
    layer = narrow(heads, rank, dim, biased=biased)
    found = learned(as_oracle(layer))
    match = compare(found, layer, kind="gaussian", examples=100)
    assert found.n_heads == heads and found.constant == biased
    assert match.theta_error.max() < 1e-11
    assert match.w_error.max() < 1e-11


def test_saturated_rows_mend_what_the_spaces_left():
    layer = narrow(4, 6, 24, biased=True, seed=1)
    phases = {}
    found = learned(as_oracle(layer, limit=Ball(1000.0)), phases=phases)
    rough, true = phases["values"].w, layer.w[:, :24]
    before = max(min(np.linalg.norm(W - R) for R in rough) / np.linalg.norm(W) for W in true)
    after = compare(found, layer, kind="gaussian", examples=50).w_error.max()
    assert phases["values"].way == SYMMETRIC
    assert before > 100.0 * after
    assert after < 1e-13


@pytest.mark.parametrize("rounding", [{"dtype": "float32"}, {"decimals": 3}])
def test_jumps_are_found_under_rounding(rounding):
    layer = narrow(3, 6, 24, biased=True)
    phases = {}
    found = learned(as_oracle(Rounded(layer, **rounding), dim=24), phases=phases)
    assert phases["values"].way == PATHS and found.n_heads == 3
    for W in layer.w[:, :24]:
        errors = [np.linalg.norm(found_W - W) for found_W in found.w[:, :24]]
        assert min(errors) < 1e-5 * np.linalg.norm(W)


@pytest.mark.parametrize("rounding", [{"decimals": 3}, {"dtype": "float16"}, {"dtype": "bfloat16"}])
@pytest.mark.parametrize("biased", [True, False])
def test_rounding_averages_out(rounding, biased):
    layer, phases = narrow(4, 6, 40, biased=biased, seed=1), {}
    rounded = Rounded(layer, **rounding)
    found = learned(as_oracle(rounded, dim=40), phases=phases)
    X = np.random.default_rng(0).standard_normal((200, 6, 40))
    Y = layer(X)
    error, own = np.linalg.norm(found(X) - Y), np.linalg.norm(rounded(X) - Y)
    assert found.n_heads == 4 and error < 1.3 * own
    polished = phases["polish"]
    assert polished.whitened_steps < len(polished.residuals)
    assert polished.residuals[-1] < 1.2 * polished.noise


def test_exact_answers_are_not_fitted():
    phases = {}
    learned(as_oracle(narrow(3, 6, 24, biased=True)), phases=phases)
    assert list(phases) == ["values", "heads"]


@pytest.mark.parametrize("limit", [Ball(300.0), Box(-0.5, 2.0)])
def test_tokens_stay_within_a_limit(limit):
    layer = narrow(2, 6, 24, biased=True)
    found = learned(as_oracle(layer, limit=limit))
    match = compare(found, layer, kind="gaussian", examples=50)
    assert match.theta_error.max() < 1e-5  # exact in the ball; the box is too small to saturate
    assert match.w_error.max() < 1e-5


def test_a_head_that_writes_nothing_is_not_found():
    layer = narrow(3, 6, 32, biased=True)
    w = layer.w.copy()
    w[2, :32] = 0.0
    found = learned(as_oracle(AttentionLayer(layer.theta, w, constant=True)))
    assert found.n_heads == 2


def test_heads_with_equal_theta_merge():
    layer = narrow(2, 6, 32, biased=True)
    theta = layer.theta.copy()
    theta[1] = theta[0]
    found = learned(as_oracle(AttentionLayer(theta, layer.w, constant=True)))
    both = layer.w[:, :32].sum(axis=0)
    assert found.n_heads == 1
    assert np.linalg.norm(found.w[0, :32] - both) < 1e-12 * np.linalg.norm(both)


def test_heads_of_full_rank_are_found():
    layer = plant(heads=3, dim=16, seed=1)
    match = compare(learned(as_oracle(layer)), layer, kind="gaussian", examples=50)
    assert match.theta_error.max() < 1e-11 and match.w_error.max() < 1e-11


def test_another_number_of_heads_than_asked_for_is_said():
    with pytest.raises(NotLearned, match="heads") as stopped:
        learned(as_oracle(plant(heads=3, dim=16, seed=1)), heads=2)
    assert stopped.value.status is Status.NOT_REALIZABLE


def test_more_heads_than_outputs_can_tell_apart_are_refused():
    with pytest.raises(NotLearned) as stopped:
        learned(as_oracle(plant(heads=6, dim=8, seed=1)))
    assert stopped.value.status is Status.NOT_REALIZABLE


def test_a_map_that_is_no_attention_is_refused():
    with pytest.raises(NotLearned) as stopped:
        learned(as_oracle(lambda X: X @ np.ones((8, 8)) + 1.0, dim=8))
    assert stopped.value.status is Status.NOT_REALIZABLE


def test_the_same_seed_asks_the_same_and_finds_the_same():
    layer = narrow(2, 5, 16, biased=True)
    first, again = (learned(as_oracle(layer), seed=4) for _ in range(2))
    assert np.array_equal(first.theta, again.theta) and np.array_equal(first.w, again.w)


def test_questions_about_a_center_give_the_layer_itself():
    layer = narrow(2, 5, 16, biased=True)
    oracle = as_oracle(layer, limit=Box(0.0, 3.0))
    around = Around(oracle, precision_of(oracle.ask(np.ones((1, 2, 16)))))
    d = 16
    theta = np.concatenate(
        [
            layer.theta[:, :d, :d],
            (layer.theta[:, d, :d] + around.center @ layer.theta[:, :d, :d])[:, None],
        ],
        axis=1,
    )
    back = around.layer(theta, layer.w[:, :d], around.ask(np.zeros((1, 1, d)))[0, 0], False)
    X = np.random.default_rng(0).standard_normal((5, 4, d))
    assert np.allclose(back(X), layer(X), rtol=0, atol=1e-12)
