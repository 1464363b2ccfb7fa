"""Simplex regression: the fast form is optimal, and agrees with the paper's linear program."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradine.solvers import simplex
from gradine.solvers.simplex import (
    affine_regression,
    project_to_simplex,
    simplex_regression,
    simplex_regression_lp,
)


def problems(n, k, outputs, seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, k, outputs)), rng.standard_normal((n, outputs))


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=7))
def test_projection_is_the_nearest_point(values):
    v = np.array(values)
    w = project_to_simplex(v)
    assert (w >= 0).all() and w.sum() == pytest.approx(1.0)
    # Nearest: moving towards any corner does not come closer.
    assert ((np.eye(len(v)) - w) @ (v - w) <= 1e-9 * (1 + np.abs(v).max())).all()


@pytest.mark.parametrize(("k", "outputs"), [(2, 5), (3, 10), (5, 8), (8, 8)])
def test_fast_form_satisfies_the_optimality_conditions(k, outputs):
    Z, y = problems(300, k, outputs, seed=k)
    v, residual = simplex_regression(Z, y)
    assert (v >= 0).all()
    np.testing.assert_allclose(v.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(residual, np.linalg.norm(y - (v[:, None] @ Z)[:, 0], axis=1))
    gradient = ((v[:, None] @ Z - y[:, None]) @ Z.swapaxes(1, 2))[:, 0]
    # Wherever there is weight the gradient is smallest, up to rounding.
    excess = gradient - gradient.min(axis=1, keepdims=True)
    assert (v * excess).max() < 1e-9
    # Both kinds of problems are here: answers inside the simplex, and on its faces.
    assert (v.min(axis=1) == 0.0).any() and ((v > 0).all(axis=1).any() or k > 3)


def test_linear_program_agrees_on_rows_that_match():
    rng = np.random.default_rng(0)
    Z, _ = problems(20, 4, 9, seed=1)
    truth = rng.dirichlet(np.ones(4), size=20)
    y = (truth[:, None] @ Z)[:, 0]
    fast, residual = simplex_regression(Z, y)
    np.testing.assert_allclose(fast, truth, atol=1e-9)
    assert residual.max() < 1e-9
    for row in range(20):
        v, misfit = simplex_regression_lp(Z[row], y[row])
        np.testing.assert_allclose(v, truth[row], atol=1e-7)
        assert misfit < 1e-7


def test_linear_program_agrees_on_what_is_certified():
    """Rows off by a little, or by a lot: the two norms agree on which, and on the weights."""
    rng = np.random.default_rng(3)
    Z, _ = problems(60, 3, 12, seed=2)
    truth = rng.dirichlet(np.full(3, 3.0), size=60)
    size = np.where(np.arange(60) < 30, 1e-3, 1.0)
    y = (truth[:, None] @ Z)[:, 0] + size[:, None] * rng.standard_normal((60, 12))
    fast, residual = simplex_regression(Z, y)
    exact = [simplex_regression_lp(Z[row], y[row]) for row in range(60)]
    lp_residual = np.array([misfit for _, misfit in exact])
    assert set(np.argsort(residual)[:30]) == set(np.argsort(lp_residual)[:30]) == set(range(30))
    difference = np.abs(np.array([v for v, _ in exact]) - fast)
    assert difference[:30].max() < 5e-3


def test_affine_residual_is_a_lower_bound_and_equal_inside():
    Z, y = problems(500, 3, 6, seed=5)
    affine = affine_regression(Z, y[:, None])
    v, residual = simplex_regression(Z, y)
    assert (affine.residual[:, 0] <= residual + 1e-12).all()
    inside = affine.weights[:, 0].min(axis=1) > 0
    assert inside.any()
    np.testing.assert_allclose(affine.weights[inside, 0], v[inside], atol=1e-12)


def test_covariance_is_that_of_the_weights():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((1, 3, 7))
    noise = rng.standard_normal((1, 40_000, 7))
    affine = affine_regression(Z, Z.mean(axis=1, keepdims=True) + noise)
    seen = np.cov(affine.weights[0].T)
    np.testing.assert_allclose(seen, affine.covariance[0], atol=0.02 * np.abs(seen).max())


def test_equal_tokens_share_their_weight():
    Z, _ = problems(1, 3, 6, seed=0)
    Z[0, 2] = Z[0, 1]
    v, residual = simplex_regression(Z, np.array([0.4, 0.3, 0.3]) @ Z[0][None])
    np.testing.assert_allclose(v, [[0.4, 0.3, 0.3]], atol=1e-6)
    assert residual[0] < 1e-9


@pytest.mark.parametrize("k", [2, 3, 6, 9])
def test_dropping_negative_weights_says_where_it_is_right(k):
    """Gradient steps find the optimum of any problem; dropping may not, and then says so."""
    rng = np.random.default_rng(k)
    Z = rng.standard_normal((500, k, 12)) @ np.diag(np.linspace(0.02, 1.0, 12) ** 2)
    y = rng.standard_normal((500, 12))
    gram, correlation = Z @ Z.swapaxes(1, 2), (y[:, None] @ Z.swapaxes(1, 2))[:, 0]
    start = affine_regression(Z, y[:, None]).weights[:, 0]
    dropped, optimal = simplex._by_dropping(gram, correlation, start)
    stepped = simplex._by_gradient(gram, correlation, start)

    def misfit(weights):
        return np.linalg.norm(y - (weights[:, None] @ Z)[:, 0], axis=1)

    assert np.allclose(dropped.sum(axis=1)[optimal], 1.0) and dropped.min() >= 0.0
    np.testing.assert_allclose(misfit(dropped)[optimal], misfit(stepped)[optimal], rtol=1e-9)
    # Nearly always for a few tokens; for many it is a try.
    assert optimal.mean() > 0.9 if k <= 3 else 0 < optimal.sum() < len(y)
    weights, residual = simplex_regression(Z, y)
    assert weights.min() >= 0.0
    np.testing.assert_allclose(residual, np.minimum(misfit(stepped), residual), rtol=1e-9)


@pytest.mark.parametrize("offset", [100.0, 1e5])
def test_what_all_rows_have_in_common_costs_no_digits(offset):
    Z, y = problems(2000, 3, 8, seed=4)
    weights, residual = simplex_regression(Z + offset, y + offset)
    expected, least = simplex_regression(Z, y)
    np.testing.assert_allclose(residual, least, rtol=1e-6)
    np.testing.assert_allclose(weights, expected, atol=1e-6)
