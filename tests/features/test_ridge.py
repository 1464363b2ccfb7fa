"""Ridge regression in blocks: every way of solving it gives what normal equations give."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from gradine.features.design import Design, RidgeConfig
from gradine.features.maps import AttentionMap
from gradine.features.ridge import LEAST_FREE, best_alpha, fit_ridge, fit_within

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
    """Coefficients, predictions, and the diagonal of the smoother, by dense linear algebra."""
    A, b = features(X), Y
    if centered:
        A, b = A - A.mean(axis=0), b - b.mean(axis=0)
    inverse = np.linalg.solve(A.T @ A + alpha * np.eye(A.shape[1]), A.T)
    C = inverse @ b
    return C, A @ C + (Y - b), np.diag(A @ inverse) + centered / len(A)


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


@pytest.mark.parametrize(("n", "heads"), [(80, 40), (300, 20), (101, 20)])
@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.filterwarnings("ignore:the smallest alpha")
def test_cross_validation_leaves_out_one_example_at_a_time(n, heads, centered):
    features, X, Y = problem(n, heads)
    alphas = np.logspace(-1, 2, 8)
    small_blocks = replace(DENSE, block_bytes=8 * 8 * n)  # one output at a time
    found, errors = best_alpha(Design(features, X, small_blocks, centered), Y, alphas)
    for i in (0, 5):
        left_out = []
        for k in range(n):
            others = np.arange(n) != k
            C, outputs, _ = explicit(features, X[others], Y[others], alphas[i], centered)
            intercept = outputs[0] - features(X[others][:1])[0] @ C
            left_out.append(Y[k] - features(X[k : k + 1])[0] @ C - intercept)
        np.testing.assert_allclose(errors[i], np.mean(np.square(left_out), axis=0), rtol=1e-6)
    np.testing.assert_array_equal(found.alpha, alphas[np.argmin(errors, axis=0)])
    for j in range(2):  # each output is fitted as if it were alone
        alone = fit_ridge(Design(features, X, DENSE, centered), Y[:, j : j + 1], found.alpha[j])
        expected = alone.coefficients[:, 0]
        np.testing.assert_allclose(
            found.coefficients[:, j], expected, atol=1e-7 * np.abs(expected).max()
        )


@pytest.mark.parametrize(("n", "heads"), [(80, 40), (300, 20)], ids=["wide", "tall"])
@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.filterwarnings("ignore:the smallest alpha")
def test_cross_validation_by_probes_is_the_formula(n, heads, centered):
    features, X, Y = problem(n, heads)
    alphas = np.logspace(-1, 2, 6)
    found, errors = best_alpha(Design(features, X, ITERATIVE, centered), Y, alphas)
    for alpha, error in zip(alphas, errors, strict=True):
        _, outputs, diagonal = explicit(features, X, Y, alpha, centered)
        expected = n * np.sum((Y - outputs) ** 2, axis=0) / (n - diagonal.sum()) ** 2
        assert np.isinf(error).all() or error == pytest.approx(expected, rel=0.2)
    assert found.method == "iterative" and np.isfinite(errors).all(axis=1).sum() >= 3


@pytest.mark.parametrize("config", [DENSE, replace(DENSE, kept_bytes=2**20), ITERATIVE])
@pytest.mark.parametrize(("n", "heads"), [(80, 40), (200, 8)], ids=["wide", "tall"])
@pytest.mark.parametrize("centered", [False, True])
def test_counts_are_equal_examples(config, n, heads, centered):
    features, X, Y = problem(n, heads)
    counts = np.random.default_rng(1).integers(1, 4, n)
    found = fit_ridge(Design(features, X, config, centered, counts.astype(float)), Y, 0.1)
    C, outputs, _ = explicit(features, X.repeat(counts, 0), Y.repeat(counts, 0), 0.1, centered)
    np.testing.assert_allclose(found.coefficients, C, atol=1e-6 * np.abs(C).max())
    fitted = (features(X) @ found.coefficients + found.intercept).repeat(counts, 0)
    np.testing.assert_allclose(fitted, outputs, atol=1e-6)


@pytest.mark.parametrize("config", [DENSE, replace(DENSE, kept_bytes=2**20)])
@pytest.mark.parametrize(("n", "heads"), [(60, 30), (120, 8)], ids=["wide", "tall"])
def test_equal_examples_are_left_out_together(config, n, heads):
    features, X, Y = problem(n, heads)
    counts, alphas = np.random.default_rng(1).integers(1, 4, n), np.array([0.01, 1.0])
    design = Design(features, X, config, True, counts.astype(float))
    _, errors = best_alpha(design, Y, alphas)
    total = np.zeros(2)
    for k in range(n):
        others = np.where(np.arange(n) == k, 0, counts)
        some, targets = X.repeat(others, 0), Y.repeat(others, 0)
        C, outputs, _ = explicit(features, some, targets, 0.01, True)
        intercept = outputs[0] - features(some[:1])[0] @ C
        total += counts[k] * (Y[k] - features(X[k : k + 1])[0] @ C - intercept) ** 2
    np.testing.assert_allclose(errors[0], total / counts.sum(), rtol=1e-6)


@pytest.mark.parametrize("config", [DENSE, ITERATIVE], ids=["dense", "iterative"])
def test_alphas_that_leave_nothing_free_must_be_much_better(config, monkeypatch):
    features, X, _ = problem(60, 80)
    alphas = 10.0 ** np.arange(-2.0, 3.0, 0.5)
    Y = X[:, 1:].mean(axis=1)[:, :1]  # no noise: the smaller alpha is, the better
    answers = []
    for doubt in (1.0, 1e9):
        monkeypatch.setattr("gradine.features.ridge.DOUBT", doubt)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            answers.append(best_alpha(Design(features, X, config, True), Y, alphas))
    (small, errors), (large, same) = answers
    np.testing.assert_array_equal(errors, same)
    free = [1.0 - np.mean(explicit(features, X, Y, a, True)[2]) for a in (small.alpha, large.alpha)]
    assert free[0] < LEAST_FREE < 1.1 * free[1]


def test_the_smallest_alpha_is_said_to_be_at_the_edge():
    features, X, Y = problem(300, 20)
    alphas = np.array([1e3, 1e5])
    with pytest.warns(UserWarning, match="smallest alpha of those tried, 1.0e"):
        best_alpha(Design(features, X, DENSE, True), Y, alphas)
    with warnings.catch_warnings():  # all alphas are as good for nothing
        warnings.simplefilter("error")
        found, _ = best_alpha(Design(features, X, DENSE, True), 0.0 * Y, alphas)
    assert (found.alpha == 1e5).all()


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
    assert np.abs(np.log10(found.alpha / exact.alpha)).max() <= 0.51
    seen = np.isfinite(near).all(axis=1)
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
