"""Anti-concentration and slices of the cube, against exact enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from gradine.theory.cube import (
    littlewood_offord,
    paley_zygmund,
    slice_mean_tail,
    slice_part_ratio,
    slice_ratio,
    small_ball,
)


def cube(d):
    return np.array(list(itertools.product((-1.0, 1.0), repeat=d)))


def most_within(values, width, *, closed):
    """The largest share of values in an interval of this half-width, wherever it is."""
    values = np.sort(np.round(values, 9))
    side = "right" if closed else "left"
    upto = np.searchsorted(values, values + 2 * width + (1e-9 if closed else -1e-9), side=side)
    return np.max(upto - np.arange(len(values))) / len(values)


@pytest.mark.parametrize("d", [1, 2, 5, 8, 11])
def test_no_interval_is_hit_too_often(d):
    for a in (np.ones(d), np.arange(1.0, d + 1), 1.0 + np.random.default_rng(d).random(d)):
        values = cube(d) @ a
        assert most_within(values, 1.0, closed=False) <= littlewood_offord(d) + 1e-12
        for width in (0.0, 0.5, 2.0):
            assert most_within(values, width, closed=True) <= small_ball(a, width)
    assert most_within(cube(d) @ np.ones(d), 1.0, closed=False) == littlewood_offord(d)  # attained


def test_large_cubes_are_like_their_asymptotics():
    assert littlewood_offord(10**6) == pytest.approx(math.sqrt(2 / (math.pi * 10**6)), rel=1e-5)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_polynomials_are_often_a_good_part_of_their_size(degree):
    x = cube(8)
    sets = [s for q in range(degree + 1) for s in itertools.combinations(range(8), q)]
    monomials = np.array([np.prod(x[:, list(s)], axis=1) for s in sets])
    rng = np.random.default_rng(degree)
    product = np.prod(1.0 + x[:, :degree], axis=1)[None]  # non-zero as rarely as can be
    for f in [*(rng.standard_normal((20, len(sets))) @ monomials), *product]:
        size = math.sqrt(np.mean(f**2))
        if degree == 1:
            f = f - np.mean(f)  # a linear form
            size = math.sqrt(np.mean(f**2))
        for share in (0.0, 0.3, 0.7, 1.0):
            assert np.mean(np.abs(f) >= share * size - 1e-9) >= paley_zygmund(degree, share)


@pytest.mark.parametrize(("tokens", "d"), [(1, 8), (2, 4), (3, 3)])
def test_forms_of_independent_tokens_do_better(tokens, d):
    """Linear in each token: the fourth moment that the bound rests on, and the bound."""
    rng = np.random.default_rng(tokens)
    flat = np.zeros((d,) * tokens)
    flat[(0,) * tokens] = 1.0
    forms = [*rng.standard_normal((20, *flat.shape)), np.ones_like(flat), flat]
    forms.append(np.ones((d,) * tokens) + 3.0 * flat)
    for A in forms:
        values = A
        for _ in range(tokens):  # all tokens, one after the other
            values = np.tensordot(values, cube(d), (0, 1))
        f = values.ravel()
        size = math.sqrt(np.mean(f**2))
        assert np.mean(f**4) <= 3.0**tokens * size**4 * (1.0 + 1e-12)
        for share in (0.0, 0.3, 0.5, 0.7, 1.0):
            least = paley_zygmund(tokens, share, independent=True)
            assert np.mean(np.abs(f) >= share * size - 1e-9) >= least


def test_the_moment_of_independent_tokens_is_nearly_attained():
    """Sums of signs have nearly 3, their product nearly 9: no smaller number will do."""
    d = 10
    f = np.outer(cube(d).sum(axis=1), cube(d).sum(axis=1)).ravel()
    assert np.mean(f**4) / np.mean(f**2) ** 2 == pytest.approx((3.0 - 2.0 / d) ** 2)
    assert paley_zygmund(2, independent=True) == 0.0625
    assert paley_zygmund(1) == paley_zygmund(1, independent=True) == 0.1875


def test_large_and_small_numbers():
    assert paley_zygmund(400) == 0.0 < paley_zygmund(300)
    assert paley_zygmund(0, 0.0) == 1.0
    assert slice_mean_tail(4, 2, 1e200) == slice_mean_tail(4, 2, math.inf) == 0.0
    assert small_ball([1e-200] * 4, 1e-200) == small_ball(np.ones(4), 1.0)
    assert small_ball(np.ones(4), math.inf) == 1.0
    assert slice_part_ratio(2000, 2000) == math.inf  # e^1996, about


@pytest.mark.parametrize("d", [1, 4, 9])
def test_a_slice_against_independent_coordinates(d):
    z = (cube(d) + 1) / 2
    weights = z.sum(axis=1)
    for w in range(d + 1):
        p = w / d
        independent = p**weights * (1 - p) ** (d - weights)
        # The likelihood ratio bounds every event; its largest value is that of {|z| = w} itself.
        count = math.comb(d, w)
        assert 1.0 / count <= slice_ratio(d, w) * independent[weights == w].min() + 1e-12
        for s in range(d + 1):
            for j in range(s + 1):
                chance = math.comb(d - s, w - j) / count if 0 <= w - j <= d - s else 0.0
                most = slice_part_ratio(d, s) * p**j * (1 - p) ** (s - j)
                assert chance <= most + 1e-12


def test_the_ratio_is_not_much_too_large():
    for d, w in ((10, 5), (30, 3), (50, 25)):
        truth = 1.0 / (math.comb(d, w) * (w / d) ** w * (1 - w / d) ** (d - w))
        assert truth <= slice_ratio(d, w) <= 1.2 * truth


@pytest.mark.parametrize(("d", "s"), [(6, 3), (20, 10), (20, 20), (30, 5)])
def test_means_on_a_slice(d, s):
    for w in range(d + 1):
        chances = [
            math.comb(w, j) * math.comb(d - w, s - j) / math.comb(d, s) for j in range(s + 1)
        ]
        for t in (0.0, 0.1, 0.25, 0.5):
            tail = sum(c for j, c in enumerate(chances) if j / s >= w / d + t - 1e-12)
            assert tail <= slice_mean_tail(d, s, t) + 1e-12


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: littlewood_offord(0), "dim is 0"),
        (lambda: small_ball([1.0], -1.0), "width is -1.0"),
        (lambda: paley_zygmund(2, 1.5), "share is 1.5"),
        (lambda: slice_ratio(4, 5), "weight is 5; expected at most dim = 4"),
        (lambda: slice_part_ratio(4, 5), "part is 5"),
        (lambda: slice_mean_tail(4, 5, 0.1), "part is 5"),
        (lambda: slice_mean_tail(4, 2, -0.1), "t is -0.1"),
    ],
)
def test_nonsense_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()
