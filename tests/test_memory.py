"""Memory: sizes in words, and blocks that depend on the examples and on what is allowed alone."""

from __future__ import annotations

import numpy as np
import pytest

from gradine.exact.workshop import Workshop
from gradine.examples import ArrayExamples, FittingData, GeneratedExamples
from gradine.fit import LearnConfig
from gradine.inputs import plant, sample_inputs
from gradine.learn import learn
from gradine.memory import chunk_bytes, examples_in_block, installed_memory, kept_bytes, parse_size

GIB = 2**30


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("4096", 4096), ("2GB", 2 * 10**9), ("2 GiB", 2 * GIB), ("0.5g", 5 * 10**8)],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "2XB", "1e9", "2iB", "nan", "two"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match=r"memory is .*; expected a size such as 2GB or 512MiB"):
        parse_size(text)
    with pytest.raises(ValueError, match="memory is 0"):
        parse_size("0GB")
    for text in ("9" * 400, "9999999TB"):
        with pytest.raises(ValueError, match=f"memory is '{text}'; expected at most 1000000TB"):
            parse_size(text)


def test_blocks_follow_from_the_shape_and_the_memory():
    sizes = [examples_in_block(10**9, 72, memory) for memory in (2 * GIB, GIB, GIB // 16)]
    assert sizes == [8192, 4096, 256]
    assert examples_in_block(10**9, 72) == 8192  # as for 2 GiB
    assert examples_in_block(100, 72) == 100
    assert chunk_bytes() == chunk_bytes(2 * GIB) == GIB // 4
    assert kept_bytes(GIB, 0.5) == GIB // 2
    X = np.ones((9000, 3, 12))
    examples = GeneratedExamples(plant(2, 12), 10**9, 3)
    assert ArrayExamples(X, X).block_size(GIB) == examples.block_size(GIB) == 4096


def test_memory_too_small_for_one_example_is_refused_by_name():
    X = np.ones((100, 3, 12))
    config = LearnConfig(memory=100_000)
    with pytest.raises(ValueError, match=r"memory is 100 kB; expected at least 166 kB, as one"):
        learn(X, X, config=config)
    with pytest.raises(ValueError, match="memory is 0"):
        learn(X, X, config=LearnConfig(memory=0))


def workshop(memory):
    layer = plant(2, 8, 3.0, seed=1)
    X = sample_inputs(3000, 3, 8, seed=2)
    config = LearnConfig()
    data = FittingData(ArrayExamples(X, layer(X)), config.split(3000, 0), memory=memory)
    return Workshop(data, data.split.n_fit, None, config.exact, 0, lambda name, kind, work: work())


def test_a_learner_keeps_no_more_than_allowed():
    each = 8 * 3 * 2 * (3 * 3 + 3 * 8 + 2 * 8)
    few, all_of_them = workshop(2_000_000), workshop(10**9)
    assert len(few.task(2, None, count=3000).X) == int(0.3 * 2_000_000 / each)
    assert len(all_of_them.task(2, None, count=1700).X) == 1700
    expected = r"memory is 50 kB; expected at least .* kB, as no fit means anything with fewer than"
    with pytest.raises(ValueError, match=expected):
        workshop(50_000).task(2, None)


def test_blocks_of_one_example_do():
    """Some of them have nothing to fit."""
    X = sample_inputs(400, 2, 2, "gaussian", seed=1)
    fit = learn(X, plant(1, 2, 2.0, seed=1)(X), 1, config=LearnConfig(memory=32 * 576))
    assert fit.config.memory // 32 == 576 and fit.learned


@pytest.mark.parametrize("method", ["exact", "sculpt"])
def test_sequences_too_long_for_this_machine_are_refused(method, monkeypatch):
    """The file is small; attention is not, as it grows with the square of the tokens."""
    monkeypatch.setattr("gradine.memory.installed_memory", lambda: GIB)
    X = np.random.default_rng(0).standard_normal((300, 4000, 1))
    expected = (
        "memory is 1.07 GB, all of this machine; expected at least 1.28 GB, as one example of 4000 "
        "tokens takes 384 MB in a fit"
    )
    with pytest.raises(ValueError, match=expected):
        learn(X, X, 1, method)


def test_a_fit_that_the_machine_has_no_room_for_is_refused(monkeypatch):
    monkeypatch.setattr("gradine.memory.installed_memory", lambda: 50_000)
    with pytest.raises(ValueError, match="memory is 50 kB, all of this machine; expected at least"):
        workshop(None).task(2, None)


@pytest.mark.parametrize(("limit", "expected"), [("max", None), ("4096", 4096), ("9" * 19, None)])
def test_a_container_may_have_less_memory_than_its_machine(tmp_path, monkeypatch, limit, expected):
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    monkeypatch.setattr("gradine.memory.CONTAINER_LIMITS", (tmp_path / "none",))
    machine = installed_memory()
    limits = (tmp_path / "none", tmp_path / "memory.max")
    monkeypatch.setattr("gradine.memory.CONTAINER_LIMITS", limits)
    assert installed_memory() == (expected or machine)
