"""One source of blocks: the same answer from arrays, files, a store and an iterator."""

from __future__ import annotations

import numpy as np
import pytest

from gradine.examples import (
    ArrayExamples,
    FolderExamples,
    GeneratedExamples,
    from_batches,
    open_examples,
    write_zarr,
)
from gradine.fit import LearnConfig
from gradine.inputs import plant
from gradine.learn import learn_examples

pytest.importorskip("zarr")

TRUTH = plant(heads=1, dim=6, scale=3.0, seed=1)
MADE = GeneratedExamples(TRUTH, 8000, 3, seed=2)


def test_every_source_gives_the_same_answer(tmp_path):
    X, Y = MADE.block(0, MADE.n)
    np.savez(tmp_path / "data.npz", X=X, Y=Y)
    pairs = [(X[i : i + 999], Y[i : i + 999]) for i in range(0, len(X), 999)]
    shapes, blocks = {"X": X.shape, "Y": Y.shape}, {"X": [X], "Y": [Y]}
    write_zarr(tmp_path / "data.zarr", shapes, blocks)
    sources = [
        MADE,
        ArrayExamples(X, Y),
        open_examples(tmp_path / "data.npz"),
        open_examples(tmp_path / "data.zarr"),
        from_batches(iter(pairs), tmp_path / "folder"),
        FolderExamples(tmp_path / "folder"),
    ]
    config = LearnConfig(memory=256 * 2**20)  # several blocks
    assert MADE.block_size(config.memory) == 2048
    fits = [learn_examples(source, heads=1, config=config) for source in sources]
    assert all(fit.learned for fit in fits)
    for fit in fits[1:]:
        assert fit.layer.theta.tobytes() == fits[0].layer.theta.tobytes()
        assert fit.layer.w.tobytes() == fits[0].layer.w.tobytes()
        assert fit.certificate == fits[0].certificate


def test_learning_without_bad_blocks_is_learning_from_the_others(tmp_path):
    X, Y = MADE.block(0, MADE.n)
    spoilt = Y.copy()
    spoilt[2500] = np.inf
    config = LearnConfig(bad_blocks="skip")
    fit = learn_examples(ArrayExamples(X, spoilt), heads=1, config=config)
    kept = np.r_[0:2048, 3072:8000]
    same = learn_examples(ArrayExamples(X[kept], Y[kept]), heads=1, config=config)
    assert fit.learned and fit.examples_used == same.examples_used == 6976
    assert fit.layer.theta.tobytes() == same.layer.theta.tobytes()
    result = fit.to_dict()
    assert (result["skipped_blocks"], result["skipped_examples"]) == (1, 1024)
    assert same.to_dict()["skipped_blocks"] == 0
    with pytest.raises(ValueError, match=r"arrays: examples 0:8000: Y has a NaN .* example 2500"):
        learn_examples(ArrayExamples(X, spoilt))
    with pytest.raises(ValueError, match="bad_blocks is 'keep'; expected 'stop' or 'skip'"):
        learn_examples(ArrayExamples(X, Y), config=LearnConfig(bad_blocks="keep"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"block_size": 0}, "block_size is 0; expected"),
        ({"memory": 0}, "memory is 0; expected"),
        ({"time_budget": "5"}, "time_budget is '5'; expected a finite number above 0, or None"),
    ],
)
def test_settings_that_make_no_sense_are_named(settings, message):
    X = np.ones((400, 3, 2))
    with pytest.raises(ValueError, match=message):
        learn_examples(ArrayExamples(X, X), config=LearnConfig(**settings))
    with pytest.raises(ValueError, match="engine is 'pool'; expected None or"):
        learn_examples(ArrayExamples(X, X), engine="pool")
