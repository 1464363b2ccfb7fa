"""The split: held-out examples stay out, and gathering them is exact."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradine.examples import ArrayExamples, Split, held_out_sizes, make_split, take


@given(
    st.integers(1, 300),
    st.integers(0, 100),
    st.integers(0, 100),
    st.integers(0, 1000),
    st.integers(1, 64),
)
def test_every_example_has_exactly_one_use(n, validation, certify, seed, size):
    made = make_split(n, validation=validation, certify=certify, seed=seed)
    assert len(made.validation) == min(validation, n // 5)
    assert len(made.certify) == min(certify, n // 5)
    fit = [start + made.fit_rows(start, min(start + size, n)) for start in range(0, n, size)]
    everything = np.concatenate([*fit, made.validation, made.certify])
    np.testing.assert_array_equal(np.sort(everything), np.arange(n))
    assert sum(map(len, fit)) == made.n_fit
    assert (np.diff(made.validation) > 0).all()
    assert (np.diff(made.certify) > 0).all()


@pytest.mark.parametrize(
    ("n", "validation", "certify"),
    [
        (274, 54, 54),  # more than 0.6 of them would have to certify: nothing is gained
        (275, 22, 165),
        (500, 67, 165),
        (824, 131, 165),
        (825, 165, 165),  # a fifth is enough
        (20_000, 2000, 2000),
    ],
)
def test_where_a_fifth_is_too_little_as_many_certify_as_it_takes(n, validation, certify):
    assert held_out_sizes(n, 2000, 2000, 0.2, least_certify=165) == (validation, certify)
    made = make_split(n, least_certify=165)
    assert (len(made.validation), len(made.certify)) == (validation, certify)


def test_fewer_certify_if_that_was_asked_for():
    assert held_out_sizes(500, 40, 60, 0.2, least_certify=165) == (40, 60)


def test_seed_decides():
    first, same, other = (make_split(1000, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.certify, same.certify)
    assert (first.certify != other.certify).any()


def test_bad_splits_are_refused():
    with pytest.raises(ValueError, match="disjoint"):
        Split(10, np.array([1, 2]), np.array([2, 3]), 0)
    with pytest.raises(ValueError, match="below n = 10"):
        Split(10, np.array([1, 2]), np.array([10]), 0)
    with pytest.raises(ValueError, match="certify is -1"):
        make_split(10, certify=-1)


class Counting(ArrayExamples):
    """Remembers the longest block it was asked for."""

    longest = 0

    def block(self, start, stop):
        self.longest = max(self.longest, stop - start)
        return super().block(start, stop)


@given(st.lists(st.integers(0, 99), unique=True), st.integers(1, 120))
def test_take_gathers_in_small_blocks(indices, size):
    X = np.arange(600.0).reshape(100, 3, 2)
    examples = Counting(X, -X[..., :1])
    taken_X, taken_Y = take(examples, sorted(indices), size)
    np.testing.assert_array_equal(taken_X, X[sorted(indices)])
    np.testing.assert_array_equal(taken_Y, -X[sorted(indices)][..., :1])
    assert examples.longest <= size


def test_take_leaves_out_pieces_without_a_wanted_example():
    X = np.arange(60_000.0).reshape(10_000, 3, 2)
    examples = Counting(X, X)
    examples.piece = 8
    np.testing.assert_array_equal(
        take(examples, [3, 9, 5000, 5007, 9999])[0][:, 0, 0], [18, 54, 30000, 30042, 59994]
    )
    assert examples.longest == 8


@pytest.mark.parametrize("indices", [[3, 1], [-1, 2], [5, 100], [[1, 2]]])
def test_take_refuses_other_indices(indices):
    examples = ArrayExamples(np.ones((100, 2, 2)), np.ones((100, 2, 2)))
    with pytest.raises(ValueError, match=r"^indices"):
        take(examples, indices)


def test_fitting_examples_by_rank_are_those_that_are_left():
    split = make_split(200, validation=30, certify=40, seed=3)
    everything = split.fit_rows(0, 200)
    np.testing.assert_array_equal(split.fitted(np.arange(split.n_fit)), everything)
    np.testing.assert_array_equal(split.fitted(np.array([0, 5, 129])), everything[[0, 5, 129]])
