"""The engine: every example once, in order, with progress; errors pass through."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradine.engine import reduce_blocks
from gradine.examples import ArrayExamples


def numbered(n, seq_len=2, dim=3):
    X = np.arange(n, dtype=float)[:, None, None] * np.ones((n, seq_len, dim))
    return ArrayExamples(X, -X)


@given(st.integers(1, 50), st.integers(1, 60))
def test_blocks_cover_everything_in_order(n, block_size):
    def kernel(X, Y, start):
        assert X[0, 0, 0] == start
        assert len(X) <= block_size
        np.testing.assert_array_equal(Y, -X)
        return X[:, 0, 0].tolist()

    progress = []
    merged = reduce_blocks(
        numbered(n),
        kernel,
        lambda a, b: a + b,  # concatenation shows the order
        block_size=block_size,
        on_block=lambda seen, so_far: progress.append((seen, len(so_far))),
    )
    assert merged == list(range(n))
    assert progress == [(min(s + block_size, n),) * 2 for s in range(0, n, block_size)]


def test_none_is_a_result_like_any_other():
    merges = []
    reduce_blocks(numbered(6), lambda *_: None, lambda a, b: merges.append((a, b)), block_size=2)
    assert merges == [(None, None), (None, None)]


def test_errors_of_a_kernel_stop_the_pass():
    started = []

    def kernel(X, Y, start):
        started.append(start)
        if start == 4:
            raise ValueError("example 4 is bad")

    with pytest.raises(ValueError, match="example 4 is bad"):
        reduce_blocks(numbered(10), kernel, lambda a, b: a, block_size=2)
    assert started == [0, 2, 4]


def test_block_size_must_be_positive():
    with pytest.raises(ValueError, match="block_size is 0"):
        reduce_blocks(numbered(3), lambda *_: 0, lambda a, b: a, block_size=0)
