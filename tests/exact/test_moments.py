"""The moment matrix: right as an operator, and it counts the heads of planted layers."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from gradine.exact.moments import MomentConfig, count_heads, moment_spectrum
from gradine.exact.operator import LowRank, _through_keys, moment_operator
from gradine.exact.results import Spectrum
from gradine.examples import ArrayExamples, FittingData, make_split
from gradine.inputs import plant, sample_inputs
from gradine.records import load_record, save_record

CONFIG = MomentConfig()


def fitting(X, Y, constant=False, **settings) -> FittingData:
    split = make_split(len(X), validation=0, certify=0)
    return FittingData(ArrayExamples(X, Y), split, constant, constant, **settings)


def planted(m, d, k, n, *, scale=2.0, kind="boolean", constant=False, rank=None, seed=0):
    layer = plant(m, d, scale, rank, seed=seed, constant=constant)
    X = sample_inputs(n, k, d, kind=kind, seed=seed + 1)
    return layer, fitting(X, layer(X), constant)


def worst_cosine(span, truth) -> float:
    """Cosine of the largest angle between two spans of equally many matrices."""
    basis = np.linalg.qr(truth.reshape(len(truth), -1).T)[0]
    return np.linalg.svd(span.reshape(len(span), -1) @ basis, compute_uv=False)[-1]


def brute_force(X, Y) -> np.ndarray:
    """M[c,a,b,e], by its definition: loops over rows and keys."""
    n, k, d = X.shape
    design = np.array(
        [[[*X[i, r], *(X[i].sum(0) - X[i, r]), 1.0] for r in range(k)] for i in range(n)]
    ).reshape(n * k, -1)
    R = Y.reshape(n * k, -1) - design @ np.linalg.lstsq(design, Y.reshape(n * k, -1))[0]
    R = R.reshape(Y.shape)
    M = np.zeros((d, Y.shape[2], d, d))
    for i in range(n):
        for r in range(k):
            keys = [X[i, j] for j in range(k) if j != r]
            C = sum(np.outer(x, x) for x in keys) / k - np.outer(sum(keys), sum(keys)) / k**2
            M += np.einsum("a,b,ce->cabe", R[i, r], X[i, r], C)
    pairs = (1 / k - 1 / k**2) ** 2 * (k - 1)
    return M / (n * k) / (pairs + (k - 1) * (k - 2) / k**4)


@pytest.fixture(scope="module")
def tiny():
    rng = np.random.default_rng(0)
    X = sample_inputs(60, 4, 3, kind="gaussian", seed=1)
    return X, rng.standard_normal((60, 4, 2)), rng


def test_operator_is_the_moment_and_its_transpose(tiny):
    X, Y, rng = tiny
    M, operator = brute_force(X, Y), moment_operator(fitting(X, Y), 0)
    B, A = rng.standard_normal((5, 3, 3)), rng.standard_normal((5, 3, 2))
    np.testing.assert_allclose(operator.apply(B), np.einsum("cabe,lbe->lca", M, B), atol=1e-8)
    np.testing.assert_allclose(operator.adjoint(A), np.einsum("cabe,lca->lbe", M, A), atol=1e-8)


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("k", [3, 9, 16])
def test_short_and_long_sequences_are_weighed_alike(k, normalised):
    """With and without scores, by the formula itself."""
    draw = np.random.default_rng(k).standard_normal
    rows, X, probes = draw((5, k, 2)), draw((5, k, 7)), draw((3, 2, 7))
    expected = np.zeros((5, k, 3, 7))
    for n, r, i in np.ndindex(5, k, 3):
        keys = np.delete(X[n], r, axis=0)
        scores = keys @ probes[i].T @ rows[n, r]
        expected[n, r, i] = (scores - normalised * scores.sum() / k) @ keys / k
    found = _through_keys(rows, X, probes, normalised).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_null_is_adjoint_too_and_differs_from_the_moment(tiny):
    X, Y, rng = tiny
    operator = moment_operator(fitting(X, Y), 0)
    B, A = rng.standard_normal((4, 3, 3)), rng.standard_normal((4, 3, 2))
    image, back = operator.apply(B, nulls=2), operator.adjoint(A, nulls=2)
    pairs = [np.sum(image * A, axis=(1, 2)), np.sum(back * B, axis=(1, 2))]
    np.testing.assert_allclose(*pairs, rtol=1e-10)
    np.testing.assert_allclose(image[:2], operator.apply(B)[:2], rtol=1e-10)
    assert np.linalg.norm(image[2:] - operator.apply(B)[2:]) > 0.1


def test_mirror_exchanges_two_indices(tiny):
    rng = tiny[2]
    part = LowRank(
        np.array([2.0, 1.0]), rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 3, 3))
    )
    M0 = np.einsum("i,ica,ibe->cabe", part.values, part.left, part.right)
    mirror, rho = M0.transpose(3, 1, 2, 0).copy(), 0.3
    for c in range(3):
        mirror[c, :, :, c] = (rho - 1.0) * M0[c, :, :, c]
    B, A = rng.standard_normal((5, 3, 3)), rng.standard_normal((5, 3, 4))
    np.testing.assert_allclose(part.mirror(B, rho), np.einsum("cabe,lbe->lca", mirror, B))
    np.testing.assert_allclose(part.mirror_adjoint(A, rho), np.einsum("cabe,lca->lbe", mirror, A))


@pytest.mark.parametrize("kind, rho", [("gaussian", 2.0), ("boolean", 0.25)])
def test_first_order_layer_has_a_moment_of_rank_m_after_its_mirror(kind, rho):
    """Y_r = x_r^T Theta C_r W exactly: M = M_0 + its mirror image, up to noise."""
    layer, k = plant(1, 4, 1.0, seed=2), 4
    X = sample_inputs(80_000, k, 4, kind=kind, seed=3)
    others = 1.0 - np.eye(k)
    scores = (X @ layer.theta[0] @ X.swapaxes(1, 2)) * others
    scores = others * (scores - scores.sum(axis=2, keepdims=True) / k) / k
    operator = moment_operator(fitting(X, scores @ X @ layer.w[0]), 0)
    M0 = LowRank(np.ones(1), layer.w, layer.theta)
    B = np.random.default_rng(0).standard_normal((3, 4, 4))
    direct = np.einsum("ica,ibe,lbe->lca", layer.w, layer.theta, B)
    error = operator.apply(B) - direct - M0.mirror(B, operator.rho)
    assert np.linalg.norm(error) < 0.15 * np.linalg.norm(direct)
    if kind == "gaussian":
        assert operator.rho == pytest.approx(rho, abs=0.05)


def test_heads_are_counted_by_no_more_examples_than_it_takes():
    layer = plant(2, 10, 2.0, seed=0)
    X = sample_inputs(4000, 4, 10, seed=1)
    data = fitting(X, layer(X), block_size=250)
    every = moment_spectrum(data, CONFIG, 0)
    some = moment_spectrum(data, replace(CONFIG, first_leg=4, certain=0.9), 0)
    assert some.heads == every.heads == 2 and some.confidence >= 0.9
    assert (some.examples, every.examples) == (1000, 4000)
    never = moment_spectrum(data, replace(CONFIG, first_leg=8, certain=2.0), 0)
    np.testing.assert_array_equal(never.values, every.values)


def test_block_size_does_not_matter():
    layer = plant(2, 6, 2.0, seed=0)
    X = sample_inputs(2000, 4, 6, seed=1)
    small, large = (
        moment_spectrum(fitting(X, layer(X), block_size=size), CONFIG, 0) for size in (37, 2000)
    )
    np.testing.assert_allclose(small.values, large.values, rtol=1e-10)
    assert small.heads == large.heads
    assert small.edge == pytest.approx(large.edge, rel=1e-10)


@pytest.mark.parametrize(
    "m, k, kind, constant",
    [
        (1, 4, "boolean", False),
        (3, 8, "boolean", False),
        (4, 4, "gaussian", False),
        (2, 2, "boolean", False),
        (3, 4, "gaussian", True),
        (2, 4, "boolean", True),
    ],
)
def test_heads_are_counted_and_their_spans_found(m, k, kind, constant):
    layer, data = planted(m, 10, k, 6000, kind=kind, constant=constant, seed=m)
    spectrum = moment_spectrum(data, CONFIG, 0)
    assert (spectrum.heads, spectrum.reason, spectrum.applies) == (m, "", True)
    assert spectrum.confidence > 0.9
    assert spectrum.theta_span.shape == (m, 10, 10)
    assert worst_cosine(spectrum.theta_span, layer.theta[:, :10, :10]) > 0.9
    assert worst_cosine(spectrum.w_span, layer.w[:, :10]) > 0.9


def test_heads_of_low_rank_are_told_from_their_mirror_image():
    layer, data = planted(4, 10, 4, 8000, rank=3, seed=2)
    spectrum = moment_spectrum(data, CONFIG, 0)
    assert spectrum.heads == 4
    assert worst_cosine(spectrum.theta_span, layer.theta) > 0.9


def test_rank_one_heads_are_not_counted_with_confidence():
    _, data = planted(1, 10, 4, 6000, rank=1, seed=1)
    spectrum = moment_spectrum(data, CONFIG, 0)
    assert spectrum.heads == 1 or spectrum.confidence < 0.5


def test_more_heads_than_probes():
    _, data = planted(6, 10, 4, 8000, seed=4)
    config = MomentConfig(probes=4, spare=2)
    assert moment_spectrum(data, config, 0).heads == 6


def test_a_large_bias_does_not_disturb():
    _, data = planted(2, 8, 4, 6000, seed=5)
    X, Y = data.examples.block(0, 6000)
    shifted = moment_spectrum(fitting(X, Y + 100.0), CONFIG, 0)
    plain = moment_spectrum(data, CONFIG, 0)
    np.testing.assert_allclose(shifted.values, plain.values, rtol=1e-4)
    assert shifted.heads == 2


def test_noise_has_no_heads():
    X = sample_inputs(4000, 4, 8, seed=0)
    Y = np.random.default_rng(1).standard_normal((4000, 4, 8))
    spectrum = moment_spectrum(fitting(X, Y), CONFIG, 0)
    assert spectrum.heads == 0
    assert "noise" in spectrum.reason
    assert spectrum.theta_span.shape == (0, 8, 8)


def test_where_moments_say_nothing():
    X = sample_inputs(100, 3, 4, seed=0)
    linear = moment_spectrum(fitting(X, 2.0 * X + 1.0), CONFIG, 0)
    assert not linear.applies and "linear" in linear.reason


def test_count_takes_the_last_clear_gap():
    uneven = np.array([9.0, 8.0, 3.0, 2.5, 0.8, 0.7, 0.6])
    assert count_heads(uneven, 0.1, CONFIG) == 4
    assert count_heads(uneven, 10.0, CONFIG) == 0
    assert count_heads(np.array([2.0, 1.9, 1.3, 1.25, 1.2]), 0.1, CONFIG) == 2


def test_memory_stays_far_below_the_matrix():
    d = 48
    layer = plant(2, d, 2.0, seed=0)
    X = sample_inputs(500, 3, d, seed=1)
    data = fitting(X, layer(X))
    operator = moment_operator(data, 0)
    probes = np.random.default_rng(0).standard_normal((8, d, d))
    tracemalloc.start()
    operator.adjoint(operator.apply(probes, 2), 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.25 * 8 * d**4


def test_spectrum_can_be_recorded(tmp_path):
    _, data = planted(1, 5, 3, 1000)
    for spectrum in (moment_spectrum(data, CONFIG, 0), Spectrum.not_applicable("why", 5, 5)):
        save_record(tmp_path / "spectrum", spectrum, "run")
        again = load_record(tmp_path / "spectrum", Spectrum, "run")
        assert again.heads == spectrum.heads
        np.testing.assert_array_equal(again.theta_span, spectrum.theta_span)
