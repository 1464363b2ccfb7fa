"""Batches from an iterator: spooled whole, checked one by one, or nothing is left behind."""

from __future__ import annotations

import gc
import pickle

import numpy as np
import pytest

from gradine.examples import BlockError, FolderExamples, from_batches

X = np.random.default_rng(0).normal(size=(50, 3, 4))
Y = np.random.default_rng(1).normal(size=(50, 3, 2))
CUTS = [4, 5, 31]


def batches(X=X, Y=Y):
    return zip(np.split(X, CUTS), np.split(Y, CUTS), strict=True)


@pytest.mark.parametrize("given", [None, 3])
def test_what_is_no_iterable_is_refused(given):
    with pytest.raises(ValueError, match=f"batches is {given}; expected an iterable of"):
        from_batches(given)


def test_batches_become_a_folder(tmp_path):
    examples = from_batches(batches(), tmp_path / "data")
    for source in (
        examples,
        FolderExamples(tmp_path / "data"),
        pickle.loads(pickle.dumps(examples)),
    ):
        np.testing.assert_array_equal(source.block(0, 50)[0], X)
        np.testing.assert_array_equal(source.block(3, 33)[1], Y[3:33])
    np.testing.assert_array_equal(np.load(tmp_path / "data" / "X.npy"), X)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    with pytest.raises(OSError, match="exists already"):
        from_batches(batches(), tmp_path / "data")


def test_a_temporary_folder_goes_with_its_examples():
    examples = from_batches(batches())
    folder = examples.path
    assert (folder / "X.npy").exists() and examples.block(49, 50)[1].shape == (1, 3, 2)
    del examples
    gc.collect()
    assert not folder.parent.exists()


def test_the_first_batch_sets_the_types(tmp_path):
    pairs = [(X[:9].astype(np.float32), Y[:9]), (np.sign(X[9:]).astype(np.int8), Y[9:])]
    examples = from_batches(pairs, tmp_path / "data")
    assert np.load(tmp_path / "data" / "X.npy", mmap_mode="r").dtype == np.float32
    np.testing.assert_array_equal(examples.block(9, 50)[0], np.sign(X[9:]))
    with pytest.raises(BlockError, match="batch 1: X has dtype float64; expected float32, as the"):
        from_batches([(X[:9].astype(np.float32), Y[:9]), (X[9:], Y[9:])])


def nan_in_example_seven():
    bad = Y.copy()
    bad[7, 1, 0] = np.nan
    return batches(Y=bad)


BAD = [
    (nan_in_example_seven, r"examples 5:31: batch 2: Y has a NaN or infinite value in example 2$"),
    (lambda: [(X, Y), (X[:, :2], Y[:, :2])], "examples 50:100: batch 1: X has shape .*3, 4"),
    (lambda: [(X, Y), (X, Y[:7])], "batch 1: X has shape .*expected the same number"),
    (lambda: [(X, Y), (X, Y[..., :1])], r"batch 1: Y has shape \(50, 3, 1\); expected \(b, 3, 2\)"),
    (lambda: [(X, Y), (X.astype(object), Y)], "batch 1: X has dtype object"),
    (lambda: [(X, Y), 3], "batch 1: "),
]


@pytest.mark.parametrize(("make", "message"), BAD)
def test_a_bad_batch_is_named_and_nothing_is_left(tmp_path, make, message):
    with pytest.raises(BlockError, match=message):
        from_batches(make(), tmp_path / "data")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("make", "message"), BAD)
def test_a_bad_batch_is_left_out_if_that_is_asked(tmp_path, make, message):
    examples = from_batches(make(), tmp_path / "data", bad_blocks="skip")
    [block] = examples.left_out
    assert examples.n == 24 if make is nan_in_example_seven else examples.n == 50
    assert block.stop - block.start in (0, 26, 50)


def test_an_iterator_that_fails_leaves_nothing(tmp_path):
    def failing():
        yield X, Y
        raise RuntimeError("the stream broke")

    with pytest.raises(RuntimeError, match="the stream broke"):
        from_batches(failing(), tmp_path / "data")
    with pytest.raises(ValueError, match="batches has no batch"):
        from_batches([], tmp_path / "data")
    with pytest.raises(ValueError, match="bad_blocks is 'keep'"):
        from_batches(batches(), bad_blocks="keep")
    assert list(tmp_path.iterdir()) == []
