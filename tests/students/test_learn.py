"""Gradient descent as a learner: it finds small layers, and answers the same to the same seed."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import gradine

torch = pytest.importorskip("torch")

from gradine.students.config import StudentConfig  # noqa: E402
from gradine.students.learn import learn_by_descent, require_torch  # noqa: E402


def examples_of(rank=None):
    truth = gradine.plant(heads=2, dim=5, scale=2.0, rank=rank, seed=1)
    X = gradine.sample_inputs(120, seq_len=4, dim=5, seed=4)
    return truth, X, truth(X)


@pytest.fixture(scope="module")
def task():
    return examples_of()


@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize("optimizer", ["adam", "lbfgs"])
def test_a_small_layer_is_found(optimizer, rank):
    truth, X, Y = examples_of(rank)
    fit = learn_by_descent(X, Y, 2, optimizer, rank=rank)
    assert fit.layer is not None and fit.loss <= 1e-7
    assert gradine.compare(fit.layer, truth).theta_error.max() < 1e-2
    assert 0 < fit.steps <= 2000 * fit.starts and fit.seconds > 0


def test_batches_see_all_examples(task):
    truth, _, _ = task
    X = gradine.sample_inputs(1500, seq_len=4, dim=5, seed=5)
    config = StudentConfig(batch=256, per_bound=1.0)
    fit = learn_by_descent(X, truth(X), 2, "adam", config=config)
    assert gradine.compare(fit.layer, truth).theta_error.max() < 1e-2


@pytest.mark.parametrize("optimizer", ["adam", "lbfgs"])
def test_same_seed_same_answer(task, optimizer):
    _, X, Y = task
    config = StudentConfig(steps=40, evaluations=40, batch=64, per_bound=1.0)
    first, again = (learn_by_descent(X, Y, 2, optimizer, 1, config=config) for _ in range(2))
    np.testing.assert_array_equal(first.layer.theta, again.layer.theta)
    other = learn_by_descent(X, Y, 2, optimizer, 2, config=config)
    assert not np.array_equal(first.layer.theta, other.layer.theta)


def test_too_few_heads_leave_a_loss(task):
    _, X, Y = task
    fit = learn_by_descent(X, Y, 1, "lbfgs", config=StudentConfig(evaluations=200))
    assert fit.loss > 1e-2 and fit.starts == 2 and fit.steps <= 400


def test_a_rate_that_is_far_too_large_is_survived(task):
    _, X, Y = task
    fit = learn_by_descent(X, Y, 2, "adam", config=StudentConfig(rate=1e30, steps=30))
    assert fit.layer is None and fit.loss == np.inf


@pytest.mark.parametrize(
    ("named", "asked"),
    [
        ("optimizer is 'sgd'", {"heads": 2, "optimizer": "sgd"}),
        ("heads is 0", {"heads": 0}),
        ("rank is 9", {"heads": 2, "rank": 9}),
    ],
)
def test_what_cannot_be_asked(task, named, asked):
    _, X, Y = task
    with pytest.raises(ValueError, match=named):
        learn_by_descent(X, Y, **asked)


def test_without_torch_one_line_says_so(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="learner 'adam' needs PyTorch"):
        require_torch("learner 'adam'")
