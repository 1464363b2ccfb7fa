"""Gauss-Newton through the factors of narrow heads."""

from __future__ import annotations

import numpy as np
import pytest

from gradine import AttentionLayer
from gradine.solvers.narrow import Heads, NarrowProblem, balanced, gauss_newton_step

M, D, R, OUT, K = 3, 7, 2, 5, 4


def some_heads(rng, width=D, size=0.7):
    shapes = [(M, width, R), (M, D, R), (M, D, R), (M, R, OUT)]
    return Heads(*(size * rng.standard_normal(shape) for shape in shapes))


def problem_of(heads, n, seed=0, constant=False, free=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, K, D + constant))
    if constant:
        X[..., -1] = 1.0
    theta = np.pad(heads.theta, ((0, 0), (0, 0), (0, int(constant))))
    w = np.pad(heads.w, ((0, 0), (0, int(constant)), (0, 0)))
    return NarrowProblem(X, AttentionLayer(theta, w)(X), D, free=free)


@pytest.mark.parametrize("constant", [False, True])
def test_the_forward_pass_is_the_layer(constant):
    heads = some_heads(np.random.default_rng(1), D + constant)
    problem = problem_of(heads, 20, constant=constant)
    assert problem.evaluate(heads).misfit < 1e-28
    other = some_heads(np.random.default_rng(2), D + constant)
    assert problem.evaluate(other).misfit > 0.1


def test_products_are_the_derivative_and_its_transpose():
    rng = np.random.default_rng(3)
    heads, step = some_heads(rng), some_heads(rng)
    problem = problem_of(some_heads(rng), 15)
    at = problem.evaluate(heads)
    image = problem.product(at, step)
    ahead, behind = (problem.evaluate(heads.plus(step, h)).residual for h in (1e-6, -1e-6))
    assert np.abs((behind - ahead) / 2e-6 - image).max() < 1e-6 * np.abs(image).max()
    outputs = rng.standard_normal(image.shape)
    back = problem.transposed(at, outputs).dot(step)
    assert np.vdot(image, outputs) == pytest.approx(back, rel=1e-10)


def test_balancing_changes_no_head():
    heads = some_heads(np.random.default_rng(4))
    even = balanced(heads)
    assert np.allclose(even.theta, heads.theta) and np.allclose(even.w, heads.w)
    assert np.allclose(even.U.swapaxes(1, 2) @ even.U, even.K.swapaxes(1, 2) @ even.K)


def test_linear_terms_can_be_free():
    heads = some_heads(np.random.default_rng(5))
    problem = problem_of(heads, 60, free=True)
    others = problem.X.sum(axis=1, keepdims=True) - problem.X
    rng = np.random.default_rng(6)
    problem.Y += (problem.X @ rng.standard_normal((D, OUT))).reshape(-1, OUT)
    problem.Y += (others @ rng.standard_normal((D, OUT))).reshape(-1, OUT)
    assert problem.evaluate(heads).misfit < 1e-12
    tied = NarrowProblem(problem.X, problem.Y.reshape(60, K, OUT), D, free=False)
    assert tied.evaluate(heads).misfit > 0.1


def test_steps_converge_fast_near_the_heads_and_keep_their_promise():
    heads = some_heads(np.random.default_rng(7))
    problem = problem_of(heads, 200)
    nudge = some_heads(np.random.default_rng(8), size=0.01)
    at = problem.evaluate(heads.plus(nudge))
    first = at.misfit
    assert first > 1e-5
    for _ in range(4):
        step, promised = gauss_newton_step(problem, at, 1e-8, 200, 1e-6)
        there = problem.evaluate(at.heads.plus(step))
        if there.misfit > 1e-20:
            assert (at.misfit - there.misfit) / promised == pytest.approx(1.0, abs=0.2)
        at = there
    assert at.misfit < 1e-20


def test_damping_shortens_a_step():
    heads = some_heads(np.random.default_rng(9))
    problem = problem_of(heads, 100)
    at = problem.evaluate(heads.plus(some_heads(np.random.default_rng(10), size=0.1)))
    sizes = []
    for damping in (1e-6, 1.0, 100.0):
        step, promised = gauss_newton_step(problem, at, damping, 100, 1e-6)
        sizes.append(step.dot(step))
        assert 0.0 < promised <= at.misfit
    assert sizes[0] > sizes[1] > sizes[2] > 0.0
