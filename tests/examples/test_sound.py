"""Bad blocks: named, or left out the same way in every pass, whatever the size of blocks."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest

from gradine.engine import FailedBlockError
from gradine.examples import (
    ArrayExamples,
    BlockError,
    FolderExamples,
    survey,
    take,
    without_bad_blocks,
)

N, PIECE = 5000, 1024


def with_bad(*examples):
    X = np.arange(N * 4.0).reshape(N, 2, 2)
    Y = np.ones((N, 2, 1))
    Y[list(examples)] = np.nan
    return X, Y


class Unreadable(ArrayExamples):
    """One of its examples cannot be read."""

    lost = 3000

    def _read(self, start, stop):
        if start <= self.lost < stop:
            raise OSError(5, "the disk says no")
        return super()._read(start, stop)


@pytest.mark.parametrize("size", [1, 300, 1024, 2048, 5000, None])
def test_what_is_left_out_does_not_depend_on_blocks(size):
    X, Y = with_bad(1500, 1700, 4999)
    examples = without_bad_blocks(Unreadable(X, Y), size)
    assert [(block.start, block.stop) for block in examples.left_out] == [
        (1024, 2048),
        (2048, 3072),
        (4096, 5000),
    ]
    reasons = [block.reason for block in examples.left_out]
    assert reasons[0] == "Y has a NaN or infinite value in example 1500"
    assert "the disk says no" in reasons[1]
    kept = np.r_[0:1024, 3072:4096]
    assert examples.n == len(kept)
    for start, stop in [(0, examples.n), (1000, 1030), (1024, 1025), (5, 9), (2000, 2048)]:
        np.testing.assert_array_equal(examples.block(start, stop)[0], X[kept][start:stop])
    np.testing.assert_array_equal(
        take(examples, [0, 1023, 1024, 2047])[0], X[kept][[0, 1023, 1024, 2047]]
    )
    again = pickle.loads(pickle.dumps(without_bad_blocks(ArrayExamples(X, Y))))
    assert again.left_out == without_bad_blocks(ArrayExamples(X, Y)).left_out


def test_sound_examples_stay_as_they_are():
    examples = ArrayExamples(*with_bad())
    assert without_bad_blocks(examples) is examples
    assert survey(examples).left_out == () and survey(examples).skipped == 0


def test_the_survey_counts_what_is_left():
    X, Y = with_bad(1500)
    seen = survey(without_bad_blocks(ArrayExamples(X, Y)))
    assert (seen.n, seen.skipped, len(seen.left_out)) == (N - PIECE, PIECE, 1)
    np.testing.assert_allclose(seen.x_mean, np.delete(X, range(1024, 2048), 0).mean(axis=(0, 1)))


def test_nothing_left_is_an_error_that_names_the_first():
    X, Y = with_bad(*range(N))
    with pytest.raises(BlockError, match="arrays: examples 0:1024: Y has a NaN"):
        without_bad_blocks(ArrayExamples(X, Y))


def test_a_block_that_cannot_be_read_is_named_with_its_source(tmp_path):
    X, Y = with_bad()
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "Y.npy", Y)
    examples = FolderExamples(tmp_path)
    survey(examples)
    os.truncate(tmp_path / "Y.npy", 1000)  # was sound when it was surveyed
    with pytest.raises(BlockError, match=r"examples 4000:5000: .*Y\.npy: changed while being read"):
        examples.block(4000, 5000)
    (tmp_path / "Y.npy").unlink()
    with pytest.raises(FailedBlockError, match=r"examples 0:5000 failed 2 times: .*Y\.npy"):
        survey(examples, block_size=5000)
    error = BlockError("data", without_bad_blocks(Unreadable(X, Y)).left_out[0])
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
