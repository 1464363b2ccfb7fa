"""The certificate: the bound is Clopper-Pearson's, and the whole curve holds at once."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from gradine.certificate import EPS_GRID, certify, clopper_pearson, relative_errors


@pytest.mark.parametrize(("exceeding", "examples"), [(0, 50), (3, 200), (40, 100), (99, 100)])
def test_bound_is_where_the_binomial_tail_reaches_delta(exceeding, examples):
    p = clopper_pearson(exceeding, examples, 0.05)
    assert binom.cdf(exceeding, examples, p) == pytest.approx(0.05)


def test_nothing_is_bounded_when_all_exceed():
    assert clopper_pearson(10, 10, 0.05) == 1.0


def test_curve_covers_the_truth_as_often_as_it_says():
    """Errors with a known law: how often is the true curve below the certified one everywhere?"""
    rng = np.random.default_rng(0)
    exceed = np.array([min(1.0, -np.log10(eps) / 15) if eps < 1 else 0.0 for eps in EPS_GRID])
    held = [
        bool((exceed <= certify(10 ** (-15 * rng.random(100)), 0.9).p).all()) for _ in range(2000)
    ]
    # P(10^(-15 u) > eps) = P(u < -log10(eps) / 15): the law above.
    assert 0.9 <= np.mean(held) < 1.0


def test_curve_falls_with_eps_and_reads_back():
    certificate = certify(np.logspace(-9, -3, 500))
    assert (np.diff(certificate.p) <= 0).all()
    assert certificate.eps_at(0.5) == 5e-6
    assert certificate.eps_at(1e-9) == float("inf")
    assert certificate.examples == 500
    assert "at most" in certificate.sentence() and "99" in certificate.sentence()


def test_errors_that_are_not_numbers_exceed_everything():
    assert min(certify(np.full(100, np.nan)).p) == 1.0


def test_relative_errors_are_per_example():
    Y = np.ones((3, 2, 2))
    predicted = Y.copy()
    predicted[1] += 0.5
    np.testing.assert_allclose(relative_errors(predicted, Y), [0.0, 0.5, 0.0])


def test_an_output_below_the_floor_counts_as_large_as_the_floor():
    Y = np.zeros((2, 2, 2))
    Y[1] = 1.0
    predicted = Y + 1e-3
    assert relative_errors(predicted, Y)[0] > 1e100
    np.testing.assert_allclose(relative_errors(predicted, Y, floor=0.5), [4e-3, 1e-3])


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0, 2.0])
def test_impossible_confidence_is_refused(confidence):
    with pytest.raises(ValueError, match="confidence"):
        certify(np.zeros(10), confidence)


def test_no_examples_no_certificate():
    with pytest.raises(ValueError, match="errors is empty"):
        certify(np.zeros(0))
