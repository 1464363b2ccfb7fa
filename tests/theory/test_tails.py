"""Tail bounds hold against exact enumeration of small cubes and against simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from gradine.theory.tails import (
    BERRY_ESSEEN,
    berry_esseen,
    bilinear_quantile,
    bilinear_tail,
    hoeffding_tail,
    quadratic_quantile,
    quadratic_tail,
)

LEVELS = np.linspace(0.1, 4.0, 14)  # in standard deviations


def cube(d):
    return np.array(list(itertools.product((-1.0, 1.0), repeat=d)))


def matrices(d):
    """Spread out, of rank one, one entry, and with nothing but a diagonal."""
    rng = np.random.default_rng(d)
    u = rng.standard_normal(d)
    single = np.zeros((d, d))
    single[0, 1] = 2.0
    return [rng.standard_normal((d, d)), np.outer(u, u), np.ones((d, d)), single, np.eye(d)]


@pytest.mark.parametrize("a", [np.ones(12), np.arange(1.0, 11.0), 2.0 ** -np.arange(10)])
def test_linear_forms_all_signs(a):
    values = cube(len(a)) @ a
    for t in LEVELS * np.linalg.norm(a):
        assert np.mean(values >= t - 1e-9) <= hoeffding_tail(a, t)
    # The distribution function jumps: look at both sides of every jump.
    points = np.unique(np.round(values, 9))
    gaussian = np.array([0.5 * math.erfc(-p / np.linalg.norm(a) / math.sqrt(2)) for p in points])
    upto = np.array([np.mean(values <= p + 1e-9) for p in points])
    below = np.array([np.mean(values < p - 1e-9) for p in points])
    worst = max(np.abs(upto - gaussian).max(), np.abs(below - gaussian).max())
    assert worst <= berry_esseen(a)


@pytest.mark.parametrize("which", range(5))
@pytest.mark.parametrize("d", [2, 5, 6])
def test_bilinear_forms_all_signs(which, d):
    A = matrices(d)[which]
    values = (cube(d) @ A @ cube(d).T).ravel()
    for t in LEVELS * np.linalg.norm(A):
        assert np.mean(values >= t - 1e-9) <= bilinear_tail(A, t)
    for delta in (0.3, 0.05, 1e-3):
        assert np.mean(values > bilinear_quantile(A, delta)) <= delta


@pytest.mark.parametrize("which", range(5))
@pytest.mark.parametrize("d", [2, 6, 11])
def test_quadratic_forms_all_signs(which, d):
    A = matrices(d)[which]
    values = np.einsum("ni,ij,nj->n", cube(d), A, cube(d)) - np.trace(A)
    for t in LEVELS * np.linalg.norm(A):
        assert np.mean(values >= t - 1e-9) <= quadratic_tail(A, t)
        assert np.mean(-values >= t - 1e-9) <= quadratic_tail(-A, t)
    for delta in (0.3, 0.05, 1e-3):
        assert np.mean(values > quadratic_quantile(A, delta) + 1e-9) <= delta


def test_planted_heads_by_simulation():
    rng = np.random.default_rng(0)
    Theta = rng.standard_normal((32, 32))
    Theta *= 3.0 / np.linalg.norm(Theta)
    x, y = rng.choice([-1.0, 1.0], (2, 40_000, 32))
    logits = np.einsum("ni,ij,nj->n", x, Theta, y)
    own = np.einsum("ni,ij,nj->n", x, Theta, x) - np.trace(Theta)
    for t in 3.0 * LEVELS:
        assert np.mean(logits >= t) <= bilinear_tail(Theta, t)
        assert np.mean(own >= t) <= quadratic_tail(Theta, t)
    # Not by being trivial: at three standard deviations the bound says something.
    assert bilinear_tail(Theta, 9.0) < 0.15 and quadratic_tail(Theta, 9.0) < 0.3


def test_the_operator_norm_is_needed():
    """The tests above can fail: without the operator norm the tail of rank one is too light."""
    A, t = np.ones((6, 6)), 36.0  # all signs alike in both tokens, or opposite in both
    chance = np.mean((cube(6) @ A @ cube(6).T).ravel() >= t)
    assert chance == 2 / 4**6 and math.exp(-(t**2) / (2.0 * np.sum(A**2))) < chance
    assert chance <= bilinear_tail(A, t)


@pytest.mark.parametrize("tail", [bilinear_tail, quadratic_tail])
def test_far_away_and_for_huge_and_tiny_numbers(tail):
    A = np.array([[1.0, 2.0], [2.0, -1.0]])
    assert tail(A, math.inf) == tail(A, 1e200) == tail(np.zeros((2, 2)), 1e-300) == 0.0
    assert tail(A, 1e-200) == tail(1e307 * A, 1e-20) == 1.0
    for size in (1e-200, 1e150, 1e300):
        assert tail(size * A, size * 3.0) == pytest.approx(tail(A, 3.0), rel=1e-12)
    assert bilinear_quantile(1e200 * A, 0.1) == pytest.approx(1e200 * bilinear_quantile(A, 0.1))
    assert quadratic_quantile(1e-200 * A, 0.1) == pytest.approx(1e-200 * quadratic_quantile(A, 0.1))


def test_linear_forms_far_away_and_for_huge_and_tiny_numbers():
    assert hoeffding_tail([1.0], math.inf) == hoeffding_tail([1.0], 1e200) == 0.0
    assert hoeffding_tail([1e-200], 1.0) == 0.0 and hoeffding_tail([1e200], 1.0) == 1.0
    assert hoeffding_tail([3e-200, 4e-200], 5e-200) == pytest.approx(math.exp(-0.5))
    assert berry_esseen([1e-200, 2e-200]) == pytest.approx(berry_esseen([1.0, 2.0]))
    assert berry_esseen([1e200, 2e200]) == pytest.approx(berry_esseen([1.0, 2.0]))


def test_constants_are_the_ones_of_the_papers():
    a = np.array([1.0, 2.0])
    assert berry_esseen(a) == pytest.approx(0.56 * 9.0 / 5.0**1.5)
    assert berry_esseen(np.ones(4)) == pytest.approx(0.469 / 2.0)
    assert berry_esseen(np.ones(4), alike=False) == pytest.approx(BERRY_ESSEEN / 2.0)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: hoeffding_tail([0.0], 1.0), "a has shape"),
        (lambda: hoeffding_tail([1.0], -1.0), "t is -1.0"),
        (lambda: hoeffding_tail([1.0], math.nan), "t is nan"),
        (lambda: bilinear_tail([1.0], 1.0), "A has shape"),
        (lambda: quadratic_tail(np.ones((2, 3)), 1.0), "square matrix"),
        (lambda: bilinear_quantile(np.eye(2), 1.0), "delta is 1.0"),
        (lambda: berry_esseen(np.ones((2, 2))), "a has shape"),
        (lambda: quadratic_tail(np.full((2, 2), np.nan), 1.0), "finite"),
    ],
)
def test_nonsense_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()
