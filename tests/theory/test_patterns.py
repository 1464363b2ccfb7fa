"""Predicted chances of matched patterns and of large margins, against real heads and tokens."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.tails import pattern_rows, simulated
from gradine.theory.patterns import margin_probability, matched_probability


def test_chances_over_a_grid_are_right_to_a_factor_of_two():
    rows = pattern_rows(sizes=((2, 8), (3, 10), (5, 12)), scales=(1.0, 3.0, 6.0), rows=6_000)
    assert len(rows) == 4 * 3 * 3
    compared = 0
    for row in rows:
        for name in ("matched", "margin"):
            predicted, seen = row[name], row[f"{name}_seen"]
            if seen >= 1e-5:  # rarer events are a matter of chance in so small a simulation
                compared += 1
                assert 0.5 <= predicted / seen <= 2.0, row
    assert compared >= 64


def test_two_tokens_by_quadrature():
    """One head, two tokens: the logit difference given w agreements is Gaussian."""
    d, s, mu = 12, 2.0, 1.5
    exact = 0.0
    for w in range(d + 1):
        overlap = 2.0 * w / d - 1.0
        spread = s * math.sqrt(2.0 * (1.0 - overlap))
        chance = math.erfc(mu / spread / math.sqrt(2.0)) if spread else 0.0
        exact += math.comb(d, w) / 2**d * chance
    assert margin_probability(1, 2, d, s, mu) == pytest.approx(exact, rel=0.03)


def test_limits():
    assert margin_probability(3, 1, 4, 2.0, 5.0) == 1.0  # one token has no rival
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
