"""Ridge regression in blocks: every way of solving it gives what normal equations give."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from gradine.features.design import Design, RidgeConfig
from gradine.features.maps import AttentionMap
from gradine.features.ridge import best_alpha, fit_ridge, fit_within

#: Small blocks, so that there are several; the second never forms a Gram matrix.
DENSE = RidgeConfig(block_bytes=20_000, kept_bytes=20_000)
ITERATIVE = RidgeConfig(block_bytes=20_000, dense=1, spectral=1, sample=(60, 60))


def problem(n, heads, offset=0.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5, 4))
    X /= np.linalg.norm(X, axis=2, keepdims=True)
    features = AttentionMap.draw(heads, 4, "identity", "relu", rng)
    Y = np.mean((X[:, 1:] @ rng.standard_normal((4, 2))) ** 2, axis=1) + offset
    return features, X, Y + 0.05 * rng.standard_normal(Y.shape)


def explicit(features, X, Y, alpha, centered):
    """Coefficients, predictions, and the trace of the smoother, by dense linear algebra."""
    A, b = features(X), Y
    if centered:
        A, b = A - A.mean(axis=0), b - b.mean(axis=0)
    inverse = np.linalg.solve(A.T @ A + alpha * np.eye(A.shape[1]), A.T)
    C = inverse @ b
    return C, A @ C + (Y - b), np.trace(A @ inverse) + centered


@pytest.mark.parametrize("config", [DENSE, ITERATIVE], ids=["dense", "iterative"])
@pytest.mark.parametrize(("n", "heads"), [(80, 40), (300, 20)], ids=["wide", "tall"])
@pytest.mark.parametrize("centered", [False, True])
def test_all_ways_agree_with_normal_equations(config, n, heads, centered):
    features, X, Y = problem(n, heads, offset=5.0 if centered else 0.0)
    found = fit_ridge(Design(features, X, config, centered), Y, 0.1)
    C, outputs, _ = explicit(features, X, Y, 0.1, centered)
    np.testing.assert_allclose(found.coefficients, C, atol=1e-6 * np.abs(C).max())
    np.testing.assert_allclose(
        features(X) @ found.coefficients + found.intercept, outputs, atol=1e-7
    )
    ways = {"dense": "dual" if n < 5 * heads else "primal", "iterative": "iterative"}
    assert found.method == ways["dense" if config is DENSE else "iterative"]


@pytest.mark.parametrize(("n", "heads"), [(80, 40), (300, 20)], ids=["wide", "tall"])
@pytest.mark.parametrize("centered", [False, True])
def test_cross_validation_is_the_formula(n, heads, centered):
    features, X, Y = problem(n, heads)
    alphas = np.logspace(-3, 2, 8)
    found, errors = best_alpha(Design(features, X, DENSE, centered), Y, alphas)
    expected = []
    for alpha in alphas:
        _, outputs, trace = explicit(features, X, Y, alpha, centered)
        expected.append(n * np.sum((Y - outputs) ** 2) / (n - trace) ** 2)
    np.testing.assert_allclose(errors, expected, rtol=1e-6)
    assert found.alpha == alphas[np.argmin(expected)]
    probed, near = best_alpha(Design(features, X, ITERATIVE, centered), Y, alphas)
    np.testing.assert_allclose(near[alphas > 0.05], errors[alphas > 0.05], rtol=0.2)
    assert probed.method == "iterative"


def test_a_bound_on_the_norm_is_kept_and_used():
    features, X, Y = problem(300, 20)
    design = Design(features, X, DENSE, False)
    free = fit_within(design, Y, 1e9)
    for radius in (0.1, 1.0):
        found = fit_within(design, Y, radius)
        assert np.linalg.norm(found.coefficients) == pytest.approx(radius, rel=1e-9)
        again = fit_ridge(design, Y, found.alpha)
        np.testing.assert_allclose(found.coefficients, again.coefficients, atol=1e-8)
    assert np.linalg.norm(free.coefficients) < 1e9
    left = [np.sum((design.times(f.coefficients) - Y) ** 2) for f in (free, found)]
    assert left[0] < left[1]


def test_features_are_kept_where_that_is_allowed():
    features, X, Y = problem(300, 20)
    answers = []
    for allowed in (10_000, 2**20):
        config = replace(ITERATIVE, kept_bytes=allowed)
        dense = Design(features, X, replace(DENSE, kept_bytes=allowed), True)
        answers.append(fit_ridge(dense, Y, 0.1).coefficients)
        design = Design(features, X, config, True)
        answers.append(fit_ridge(design, Y, 0.1).coefficients)
        assert design.keep(np.float32) == (allowed > 10_000)
        assert design.sample.rows.nbytes <= allowed
    for answer in answers[1:]:
        np.testing.assert_allclose(answer, answers[0], atol=1e-6 * np.abs(answer).max())


def test_features_are_never_all_in_memory():
    features, X, Y = problem(300, 20)
    sizes = []

    class Watched:
        def __init__(self, inner):
            self.inner, self.n_features, self.group = inner, inner.n_features, inner.group

        def numbers(self, tokens):
            return self.inner.numbers(tokens)

        def part(self, start, stop):
            return Watched(self.inner.part(start, stop))

        def __call__(self, block):
            found = self.inner(block)
            sizes.append(found.nbytes)
            return found

    for n in (300, 60):
        for config in (DENSE, replace(ITERATIVE, kept_bytes=20_000)):
            fit_ridge(Design(Watched(features), X[:n], config, True), Y[:n], 0.1)
    assert max(sizes) <= 20_000 and len(sizes) > 20


def test_alphas_too_small_for_single_precision_are_said():
    features, X, Y = problem(200, 60)  # fewer examples than features
    config = replace(ITERATIVE, sample=(40, 40))
    with pytest.warns(ConvergenceWarning, match="too small for so many features"):
        fit_ridge(Design(features, X, config, True), Y, 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_ridge(Design(features, X, config, True), Y, 0.01)


@pytest.mark.parametrize(("n", "heads"), [(250, 100), (500, 20)], ids=["wide", "tall"])
def test_probes_choose_the_alpha_that_eigenvalues_choose(n, heads):
    features, X, Y = problem(n, heads)
    alphas = 10.0 ** np.arange(-6.0, 3.0, 0.5)
    exact, errors = best_alpha(Design(features, X, DENSE, True), Y, alphas)
    config = replace(ITERATIVE, sample=(100, 100))
    found, near = best_alpha(Design(features, X, config, True), Y, alphas)
    assert abs(np.log10(found.alpha / exact.alpha)) <= 0.51
    seen = np.isfinite(near)
    assert seen.sum() >= 5 and not seen.all()  # what rises, or cannot be solved, is left out
    np.testing.assert_allclose(near[seen], errors[seen], rtol=0.5)


def test_many_keys_take_no_more_memory_than_is_allowed():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 201, 2))
    features = AttentionMap.draw(10, 2, "zero", "relu", rng)
    design = Design(features, X, RidgeConfig(block_bytes=200_000, kept_bytes=0), True)
    rows = [part.stop - part.start for part, _ in design.blocks(np.float64)]
    assert max(rows) * 10 * 200 * 8 <= 200_000 and sum(rows) == 50  # logits, not features


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
@pytest.mark.parametrize("config", [DENSE, ITERATIVE], ids=["dense", "iterative"])
def test_features_that_overflow_are_refused(config):
    features, X, Y = problem(60, 4)
    with pytest.raises(ValueError, match="overflow: scale X down"):
        fit_ridge(Design(features, 1e160 * X, config, True), Y, 0.1)


def test_a_norm_of_zero_is_the_mean():
    features, X, Y = problem(60, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fit_within(Design(features, X, DENSE, True), Y, 0.0)
    assert not found.coefficients.any() and np.allclose(found.intercept, Y.mean(axis=0))


def test_a_bound_on_the_norm_says_where_it_ends():
    features, X, Y = problem(60, 4)
    with pytest.raises(ValueError, match="expected at most 1: choose alpha instead"):
        fit_within(Design(features, X, ITERATIVE, True), Y, 1.0)
