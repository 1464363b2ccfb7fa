"""Target functions against their formulas, and how complex they are said to be."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import roots_chebyt, roots_gegenbauer

from gradine.features import complexity as bounds
from gradine.features.complexity import complexity, complexity_from_below
from gradine.features.harmonics import kernel_eigenvalue, plain_components, term_eigenvalues
from gradine.features.kernel import kernel, relu_coefficients
from gradine.features.maps import AttentionMap
from gradine.features.targets import correlation, gamma_mixture, on_sphere, powers


def test_tokens_are_uniform_on_the_sphere():
    X = on_sphere(4000, 2, 5, seed=3)
    np.testing.assert_allclose(np.linalg.norm(X, axis=2), 1.0, atol=1e-12)
    np.testing.assert_allclose(np.cov(X[:, 1].T), np.eye(5) / 5, atol=0.02)


def test_targets_are_their_formulas():
    X = on_sphere(4, 3, 6)
    plain, mixed = correlation(3, 6, seed=1, direction_power=2), gamma_mixture(0.5, 6, seed=1)
    for n in range(4):
        query, keys = X[n, 0], X[n, 1:]
        expected = np.mean([(query @ x) ** 3 * (plain.beta @ x) ** 2 for x in keys])
        assert plain(X)[n] == pytest.approx(expected, rel=1e-12)
        expected = np.mean([(query @ mixed.matrix @ x) * (mixed.beta @ x) for x in keys])
        assert mixed(X)[n] == pytest.approx(expected, rel=1e-12)
    S = (mixed.matrix - np.eye(6)) / 0.5
    assert np.linalg.norm(S) == pytest.approx(np.sqrt(6.0))
    np.testing.assert_allclose(gamma_mixture(0.0, 6, seed=1)(X), correlation(1, 6, seed=1)(X))


@pytest.mark.parametrize("mean", ["zero", "identity"])
def test_the_kernel_is_that_of_many_heads(mean):
    z = on_sphere(20, 1, 4)
    rows = AttentionMap.draw(40_000, 4, mean, "relu", np.random.default_rng(0))(z)
    K = kernel(z, z, mean)
    np.testing.assert_allclose(rows @ rows.T / 40_000, K, atol=0.03 * K.max())
    assert np.linalg.eigvalsh(K).min() > -1e-10


def test_the_kernel_follows_the_scale_of_the_matrices():
    z = on_sphere(20, 1, 4)
    heads = AttentionMap.draw(40_000, 4, "identity", "relu", np.random.default_rng(0), 0.2)
    K = kernel(z, z, "identity", 0.2)
    np.testing.assert_allclose(heads(z) @ heads(z).T / 40_000, K, atol=0.03 * K.max())


def test_the_series_of_the_identity_mean_is_its_quadrature(monkeypatch):
    z = on_sphere(60, 1, 4, seed=1)
    by_series = kernel(z, z, "identity")
    single = kernel(z.astype(np.float32), z.astype(np.float32), "identity")
    monkeypatch.setattr("gradine.features.kernel.CLOSE", -1.0)
    np.testing.assert_allclose(by_series, kernel(z, z, "identity"), atol=1e-12)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, by_series, atol=1e-5)


@pytest.mark.parametrize(("power", "degrees"), [(1, (0, 1)), (3, (0, 1)), (0, (0, 1))])
def test_bounds_with_the_identity_mean_are_norms_of_functions_that_near(power, degrees):
    """The sum of phi_l that the bound is of: as near as was asked for, and points show no more."""
    dim, error, sigma, terms = 8, 0.05, 1.0, bounds.BLURRED_TERMS
    component = (degrees, 1.0 / dim)  # the mean square of <beta, x>
    bound = bounds._blurred(power, (component,), dim, 0.5).norm(error) * dim
    share = term_eigenvalues(*degrees, dim, terms)
    z = on_sphere(40_000, 1, dim, seed=1)
    t = np.sum(z[:, 0] * z[:, 1], axis=1)
    basis = np.sqrt(share)[:, None] * relu_coefficients(t, sigma, terms)
    gram, cross = basis @ basis.T / len(t), basis @ t**power / len(t)
    ridges = np.geomspace(1e-12, 1e3, 300)
    solutions = [np.linalg.solve(gram + ridge * np.eye(terms), cross) for ridge in ridges]
    near = [
        np.mean((v @ basis - t**power) ** 2) <= error * np.mean(t ** (2 * power)) for v in solutions
    ]
    v = solutions[np.flatnonzero(near)[-1]]
    assert bound == pytest.approx(float(v @ v), rel=0.1)
    some = z[:300]
    beta = np.eye(dim)[0]
    values = np.sqrt(dim) * (v @ basis)[:300] * (some[:, 1] @ beta)
    K = kernel(some, some, "identity")
    assert values @ np.linalg.solve(K, values) <= float(v @ v) * (1.0 + 1e-6)


def test_complexity_with_the_identity_mean_does_not_grow_with_the_dimension():
    for power in (1, 2, 3):
        near, far = (complexity(correlation(power, d), d, "identity", 0.1) for d in (20, 80))
        assert far < 1.2 * near  # 4 times the dimension
        assert 4.0 * far < complexity(correlation(power, 80), 80, "zero", 0.1)
    tight, loose = (complexity(correlation(1, 16), 16, "identity", e) for e in (0.01, 0.1))
    assert tight > 3.0 * loose


def test_the_identity_mean_helps_up_to_some_gamma():
    ratios = [
        complexity(gamma_mixture(g, 32, seed=1), 32, "zero", 0.1)
        / complexity(gamma_mixture(g, 32, seed=1), 32, "identity", 0.1)
        for g in (0.0, 0.5, 4.0)
    ]
    plain = complexity(correlation(1, 32), 32, "identity", 0.1)
    assert complexity(gamma_mixture(0.0, 32), 32, "identity", 0.1) == pytest.approx(plain)
    assert ratios[0] > 4.0 and ratios[0] > ratios[1] > 1.0 > ratios[2]


def test_high_powers_have_a_complexity():
    assert np.isfinite(complexity(powers(50, 16), 16))
    assert complexity(correlation(50, 16), 16) > 1e14


@pytest.mark.parametrize("dim", [2, 5, 16])
def test_eigenvalues_are_those_of_the_kernel(dim):
    """By quadrature over both inner products, and the kernel itself for pairs that have them."""
    a, weights = roots_gegenbauer(100, 0.5 * dim - 1.0) if dim > 2 else roots_chebyt(100)
    weights = weights / weights.sum()
    first, other = np.eye(dim)[0], np.sqrt(1.0 - a**2)[:, None] * np.eye(dim)[1]
    turned = a[:, None] * first + other
    right = np.stack(np.broadcast_arrays(turned[:, None], turned[None]), axis=2)
    K = kernel(np.array([[first, first]]), right.reshape(-1, 2, dim), "zero").reshape(100, 100)
    legendre = [np.ones(100), a]
    for k in range(1, 4):
        legendre.append(((2 * k + dim - 2) * a * legendre[k] - k * legendre[k - 1]) / (k + dim - 2))
    for k, one in enumerate(legendre):
        for m, two in enumerate(legendre):
            wanted = (weights * one) @ K @ (weights * two)
            assert kernel_eigenvalue(k, m, dim) == pytest.approx(wanted, rel=1e-4, abs=1e-10)


@pytest.mark.parametrize("target", [powers(4, 6), correlation(2, 6, direction_power=2)])
def test_components_are_parts_of_the_mean_square(target):
    """Degrees of the query by projection of random pairs that share a key."""
    p, q = target.correlation_power, target.direction_power
    found = plain_components(p, q, 6)
    z = on_sphere(400_000, 1, 6, seed=2)
    assert sum(found.values()) == pytest.approx(np.mean(target(z) ** 2), rel=0.03)
    again = z.copy()
    again[:, 0] = on_sphere(400_000, 1, 6, seed=3)[:, 0]
    constant = sum(square for (k, _), square in found.items() if k == 0)
    assert constant == pytest.approx(np.mean(target(z) * target(again)), rel=0.05)
    again[:, 0], again[:, 1] = z[:, 0], on_sphere(400_000, 1, 6, seed=3)[:, 0]
    constant = sum(square for (_, m), square in found.items() if m == 0)
    assert constant == pytest.approx(np.mean(target(z) * target(again)), rel=0.1)


def test_the_least_complexity_is_that_of_a_function_that_near():
    """The same function by the kernel of 1,500 pairs: as near, and of about that norm."""
    dim, error = 3, 0.1
    for target in (powers(2, dim), correlation(1, dim), gamma_mixture(1.0, dim)):
        z = on_sphere(1500, 1, dim, seed=5)
        values, vectors = np.linalg.eigh(kernel(z, z, "zero") / len(z))
        parts = vectors.T @ target(z) / np.sqrt(len(z))
        ridges = np.geomspace(1e-4, 1e1, 500)
        shrunk = ridges[:, None] / (np.maximum(values, 0.0) + ridges[:, None])
        left = np.sum((parts * shrunk) ** 2, axis=1) / np.sum(parts**2)
        ridge = ridges[np.flatnonzero(left <= error)[-1]]
        by_points = np.sum(parts**2 * values / (values + ridge) ** 2)
        assert complexity(target, dim, error=error) == pytest.approx(by_points, rel=0.1)


@pytest.mark.parametrize(
    "target", [powers(1, 3), powers(2, 3), correlation(1, 3), gamma_mixture(1, 3)]
)
def test_complexity_lies_above_what_points_show_and_near_it(target):
    below = [complexity_from_below(target, 3, points=points) for points in (100, 400, 800)]
    above = complexity(target, 3)
    assert below[0] < below[1] < below[2] * (1.0 + 1e-6)
    assert 0.98 * above < below[2] < above * (1.0 + 1e-6)


def test_complexity_of_correlations_grows_with_a_power_of_the_dimension():
    for power in (1, 2, 3):
        near, far = (complexity(correlation(power, d), d) for d in (100, 200))
        assert np.log2(far / near) == pytest.approx(power, abs=0.1)
    near, far = (complexity(powers(3, d), d) for d in (100, 200))
    assert far == pytest.approx(near, rel=0.05)  # |x|^2 = 1 saves ever less


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_mean_square_of_a_mixture_given_the_inner_product(sign):
    dim, rng = 4, np.random.default_rng(1)
    R, beta = rng.standard_normal((dim, dim)), np.eye(dim)[1]
    R += sign * R.T  # much of it along z, or none
    R -= np.trace(R) / dim * np.eye(dim)
    pairs = on_sphere(400_000, 1, dim, seed=4)
    query, key = pairs[:, 0], pairs[:, 1]
    z, squares = np.sum(query * key, axis=1), (np.sum(query @ R * key, axis=1) * (key @ beta)) ** 2
    design = np.stack([np.ones_like(z), z**2, z**4], axis=1)
    fitted = np.linalg.lstsq(design, squares / squares.mean(), rcond=None)[0]
    np.testing.assert_allclose(fitted, [*bounds._square_given(R, beta), 0.0], atol=0.06)
    assert sign * fitted[1] > 0.2  # far more than the tolerance


def test_complexity_of_mixtures():
    plain, mixed = gamma_mixture(0.0, 8, seed=2), gamma_mixture(2.0, 8, seed=2)
    assert complexity(plain, 8) == pytest.approx(complexity(correlation(1, 8), 8))
    assert complexity(mixed, 8) > 3.0 * complexity(plain, 8)
    with pytest.raises(ValueError, match="known for powers of 1 and 1"):
        complexity(gamma_mixture(2.0, 8, power=2), 8)


def test_a_target_knows_no_example_of_the_same_seed():
    X = on_sphere(5, 4, 6, seed=3)
    beta = correlation(1, 6, seed=3).beta
    assert np.abs(X.reshape(-1, 6) @ beta).max() < 0.99


@pytest.mark.parametrize(
    ("work", "named"),
    [
        (lambda: powers(1.5, 4), "degree is 1.5"),
        (lambda: powers(-1, 4), "degree is -1"),
        (lambda: powers(2, 0), "dim is 0"),
        (lambda: correlation(1, 4, direction_power=-1), "direction_power is -1"),
        (lambda: gamma_mixture(np.nan, 4), "gamma is nan"),
        (lambda: complexity(powers(1, 8), 16), "dim is 16; the target is one of 8"),
        (lambda: complexity_from_below(powers(1, 4), 4, "other", 10), "mean is 'other'"),
        (lambda: complexity(powers(1, 4), 4, "other", 0.1), "mean is 'other'"),
        (lambda: complexity(powers(1, 4), 4, "identity"), "error is 0 and dim 4"),
        (lambda: complexity(powers(1, 1), 1), "error is 0 and dim 1"),
        (lambda: complexity(powers(1, 4), 4, error=1.0), "error is 1 and dim 4"),
        (lambda: complexity(powers(51, 4), 4), "powers are 0 and 51"),
    ],
)
def test_bad_targets_are_named(work, named):
    with pytest.raises(ValueError, match=named):
        work()


@pytest.mark.parametrize(
    "X",
    [
        on_sphere(3, 2, 4),
        on_sphere(3, 2, 5)[:, 0],
        on_sphere(3, 2, 5)[:, :1],
        [["a"]],
        np.full((2, 3, 5), "a"),
    ],
)
@pytest.mark.parametrize("target", [powers(2, 5), gamma_mixture(1.0, 5)])
def test_targets_say_what_they_take(target, X):
    with pytest.raises(ValueError, match=r"X has shape \(.*expected numbers \(n, N \+ 1, 5\)"):
        target(X)
    X = on_sphere(3, 2, 5)
    np.testing.assert_array_equal(target(X.tolist()), target(X))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: gamma_mixture("a", 4), "gamma is 'a'; expected a finite number"),
        (lambda: gamma_mixture(float("nan"), 4), "gamma is nan; expected a finite number"),
        (lambda: on_sphere(-1, 2, 4), "n is -1; expected a whole number of at least 0"),
        (lambda: on_sphere(2, 0, 4), "n_keys is 0; expected a whole number of at least 1"),
        (lambda: on_sphere(2, 2, 0), "dim is 0; expected a whole number of at least 1"),
        (lambda: powers(2, 0), "dim is 0; expected a whole number of at least 1"),
    ],
)
def test_arguments_that_make_no_sense_are_said(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_the_package_knows_its_names():
    import gradine
    from gradine import features

    assert features.on_sphere is on_sphere and features.targets.powers is features.powers
    assert features.complexity.complexity is complexity
    assert features.FlatTokens is gradine.FlatTokens
    assert set(features.__all__) <= set(dir(features))
    assert all(hasattr(features, name) for name in features.__all__)
    with pytest.raises(AttributeError, match=r"'gradine\.features' has no attribute 'nothing'"):
        features.nothing  # noqa: B018
