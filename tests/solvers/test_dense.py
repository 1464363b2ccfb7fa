"""Dense Levenberg-Marquardt: it ends at the minimum, from far away and with variables that hardly
matter."""

from __future__ import annotations

import numpy as np

from gradine.solvers.dense import dense_least_squares


def test_linear_problems_end_where_lstsq_does(rng):
    A, y = rng.standard_normal((30, 5)), rng.standard_normal(30)
    fit = dense_least_squares(lambda x: (A @ x - y, lambda: A), np.zeros(5))
    best = np.linalg.lstsq(A, y, rcond=None)[0]
    np.testing.assert_allclose(fit.x, best, rtol=1e-9)
    assert np.isclose(fit.residual, np.sqrt(np.mean((A @ best - y) ** 2)))


def rosenbrock(x):
    jacobian = np.array([[-20 * x[0], 10.0], [-1.0, 0]])
    return np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]]), lambda: jacobian


def test_a_curved_valley():
    fit = dense_least_squares(rosenbrock, np.array([-1.2, 1.0]))
    np.testing.assert_allclose(fit.x, [1.0, 1.0], rtol=1e-12)
    assert dense_least_squares(rosenbrock, np.array([-1.2, 1.0]), steps=2).residual > 1e-3


def test_a_variable_that_does_nothing_stays_where_it_is():
    fit = dense_least_squares(
        lambda x: (x[:1] - 3.0, lambda: np.array([[1.0, 0.0]])), np.array([0.0, 7.0])
    )
    np.testing.assert_allclose(fit.x, [3.0, 7.0])


def bent(x, t, small):
    """A large sigmoid and a small one, and the derivatives for where they turn."""
    rates = 0.5 * (1.0 + np.tanh(0.5 * (t[:, None] - x)))
    sizes = np.array([1.0, small])
    return rates @ sizes, -rates * (1.0 - rates) * sizes


def test_in_one_unit_a_small_part_waits_for_the_large_one():
    t, truth, small = np.linspace(-6, 6, 60), np.array([1.5, -1.0]), 1e-5
    y = bent(truth, t, small)[0]

    def problem(x):
        value, jacobian = bent(x, t, small)
        return value - y, lambda: jacobian

    start = np.zeros(2)
    together = dense_least_squares(problem, start, one_unit=True)
    np.testing.assert_allclose(together.x, truth, atol=1e-8)
    each = dense_least_squares(problem, start)
    assert np.abs(each.x - truth).max() > 100.0  # the small one was sent away
