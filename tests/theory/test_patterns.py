"""Predicted chances of matched patterns and of large margins, against real heads and tokens."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from scipy.special import ndtr

from benchmarks.tails import HEADS, pattern_rows, simulated
from gradine.theory import patterns
from gradine.theory.patterns import margin_probability, matched_probability


def test_chances_over_a_grid_are_right_to_a_factor_of_two():
    rows = pattern_rows(sizes=((2, 6), (3, 10), (5, 12)), scales=(1.0, 4.0), rows=9_600)
    assert len(rows) == len(HEADS) * 3 * 2 and max(HEADS) == 8
    compared = 0
    for row in rows:
        for name in ("matched", "margin"):
            predicted, seen = row[name], row[f"{name}_seen"]
            if seen >= 5e-5:  # rarer events are a matter of chance in so small a simulation
                compared += 1
                assert 0.5 <= predicted / seen <= 2.0, row
    assert compared >= 40


def two_tokens(m, d, s, tau, mu):
    """Chances over two tokens that differ in h signs, the logits' difference on a fine grid."""
    z = np.linspace(-8.0, 8.0, 20_001)
    density = np.exp(-(z**2) / 2.0)
    density /= density.sum()
    matched = margin = 0.0
    for h in range(d + 1):
        spread = 2.0 * s * math.sqrt(h / d)
        p = 1.0 / (1.0 + np.exp(-spread * z))
        upto = np.concatenate([[0.0], np.cumsum(density)])
        near = upto[np.searchsorted(p, p + tau, "right")] - upto[np.searchsorted(p, p - tau)]
        said = np.minimum(p, 1.0 - p) >= 0.01
        chance = math.comb(d, h) / 2**d
        matched += chance * np.sum(density * said * near ** (m - 1))
        margin += chance * 2.0 * ndtr(-mu / spread) ** m if h else 0.0
    return matched, margin


@pytest.mark.parametrize("m", [1, 2, 4, 8])
@pytest.mark.parametrize(("d", "s"), [(6, 8.0), (6, 1.0), (8, 2.0), (10, 4.0), (40, 3.0)])
def test_two_tokens_are_summed_over_signs_that_differ(m, d, s):
    """Equal tokens, of probability 2^-d, are most of it for many heads: no draw may miss them."""
    matched, margin = two_tokens(m, d, s, 0.1, 1.5)
    assert matched_probability(m, 2, d, s, 0.1) == pytest.approx(matched, rel=0.01)
    assert margin_probability(m, 2, d, s, 1.5) == pytest.approx(margin, rel=1e-9)


def test_two_tokens_that_need_not_say_anything():
    whole = matched_probability(1, 2, 6, 8.0, 0.1, informative=False)
    assert whole == pytest.approx(1.0, abs=1e-6)
    assert matched_probability(3, 2, 6, 8.0, 0.1, informative=False) > 2.0 * matched_probability(
        3, 2, 6, 8.0, 0.1
    )


def all_grams_of_three(d):
    """Gram matrices of three tokens and their chances: by how many coordinates a token is alone."""
    for alone in itertools.product(range(d + 1), repeat=3):
        together = d - sum(alone)
        if together >= 0:
            X = np.repeat(np.ones((3, 3)) - 2.0 * np.eye(3), alone, axis=1)
            X = np.hstack([np.ones((3, together)), X])
            ways = math.factorial(d) / math.prod(map(math.factorial, (together, *alone)))
            yield alone, X @ X.T / d, ways / 4**d


@pytest.mark.parametrize("s", [1.0, 6.0])
def test_three_tokens_over_all_gram_matrices(s):
    """Rare sequences are drawn on purpose: their weights must give what all of them together do."""
    d, rng = 6, np.random.default_rng(1)
    grams = list(all_grams_of_three(d))
    assert sum(chance for _, _, chance in grams) == pytest.approx(1.0)
    margins = patterns._wins(np.array([G for _, G, _ in grams]), 2.0 / s)
    chances = np.array([chance for _, _, chance in grams])
    for m in (1, 4, 8):
        exact = 3.0 * chances @ margins**m
        assert margin_probability(m, 3, d, s, 2.0) == pytest.approx(exact, rel=0.15)
    matched = dict.fromkeys((1, 4, 8), 0.0)
    for alone, G, chance in grams:
        if list(alone) == sorted(alone):  # the same for other orders of the tokens
            values, vectors = np.linalg.eigh(G)
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            logits = s * rng.standard_normal((1_000, 3)) @ root.T
            p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
            orders = len(set(itertools.permutations(alone)))
            for m in matched:
                matched[m] += orders * chance * patterns._matched(p, m, 0.1, 0.01)
    for m, exact in matched.items():
        assert matched_probability(m, 3, d, s, 0.1) == pytest.approx(exact, rel=0.25)


def test_orthants():
    """Independent logits: each token is the largest as often, whatever their number."""
    for k in (3, 5, 12, 24):
        assert patterns._wins(np.eye(k)[None], 0.0)[0] == pytest.approx(1.0 / k, rel=0.06)


def test_more_heads_than_nodes():
    assert matched_probability(300, 3, 384, 3.0, 0.2) < 1e-12
    assert matched_probability(300, 3, 384, 0.01, 0.2) == pytest.approx(1.0)  # uniform attention
    many = [matched_probability(m, 4, 16, 0.3, 0.2) for m in (8, 32, 33, 128, 512)]
    assert many == sorted(many, reverse=True) and many[-1] > 0.0


def test_long_sequences_take_no_time():
    began = time.process_time()
    for k in (32, 256):
        assert 0.0 < matched_probability(2, k, 64, 3.0, 0.1) < 1.0
        assert 0.0 < margin_probability(2, k, 64, 3.0, 1.0) < 1.0
    assert time.process_time() - began < 6.0  # 2.7 s for 24 tokens alone, before


def test_limits():
    assert margin_probability(3, 1, 4, 2.0, 5.0) == 1.0  # one token has no rival
    assert matched_probability(3, 1, 4, 2.0, 0.1, informative=False) == 1.0
    assert matched_probability(3, 1, 4, 2.0, 0.1) == 0.0  # and says nothing
    assert margin_probability(2, 3, 8, 2.0, math.inf) == margin_probability(2, 2, 8, 2, 1e9) == 0.0
    wide = matched_probability(3, 3, 8, 2.0, 0.999, informative=False)
    assert wide == pytest.approx(1.0, abs=1e-3)
    assert margin_probability(2, 3, 8, 500.0, 0.1) == pytest.approx(3 * (1 / 3) ** 2, rel=0.15)
    narrow = [matched_probability(m, 3, 8, 2.0, 0.05) for m in (1, 2, 3, 4)]
    assert narrow == sorted(narrow, reverse=True)


def test_same_answer_again():
    assert matched_probability(2, 3, 8, 2.0, 0.1) == matched_probability(2, 3, 8, 2.0, 0.1)
    first, again = (simulated(3, 8, 2.0, rows=500, seed=4) for _ in range(2))
    assert first == again and np.isfinite(list(first.values())).all()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: matched_probability(0, 3, 8, 2.0, 0.1), "heads is 0"),
        (lambda: matched_probability(2, 3, 8, 2.0, 1.5), "tolerance is 1.5"),
        (lambda: margin_probability(2, 3, 8, -2.0, 1.0), "scale is -2.0"),
        (lambda: margin_probability(2, 3, 8, 2.0, -1.0), "margin is -1.0"),
        (lambda: margin_probability(2, 2.5, 8, 2.0, 1.0), "seq_len is 2.5"),  # type: ignore[arg-type]
    ],
)
def test_nonsense_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()
