"""Examples by seed: the same for any boundaries, on any worker, of any number."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradine.engine import open_engine
from gradine.examples import GeneratedExamples, generated, survey, take
from gradine.inputs import plant
from gradine.queries.asking.oracle import as_oracle

LAYER = plant(heads=2, dim=5, scale=3.0, seed=1, out_dim=3, constant=True)
N = 1000
WHOLE = {
    kind: GeneratedExamples(LAYER, N, 3, kind, seed=7, noise=0.1).block(0, N)
    for kind in ("boolean", "gaussian")
}


def doubled(X):
    return 2.0 * X[..., :2]


@pytest.mark.parametrize("kind", ["boolean", "gaussian"])
@given(st.lists(st.integers(1, N - 1), unique=True, max_size=6))
def test_any_boundaries_give_the_same_examples(kind, cuts):
    examples = GeneratedExamples(LAYER, N, 3, kind, seed=7, noise=0.1)
    edges = [0, *sorted(cuts), N]
    blocks = [examples.block(a, b) for a, b in itertools.pairwise(edges)]
    for whole, parts in zip(WHOLE[kind], zip(*blocks, strict=True), strict=True):
        np.testing.assert_array_equal(whole, np.concatenate(parts))


def test_more_examples_begin_with_fewer_and_seeds_differ():
    first = GeneratedExamples(LAYER, 300, 3, seed=7).block(0, 300)
    more = GeneratedExamples(LAYER, 10**12, 3, seed=7)
    np.testing.assert_array_equal(first[0], more.block(0, 300)[0])
    np.testing.assert_array_equal(first[1], more.block(0, 300)[1])
    other = GeneratedExamples(LAYER, 300, 3, seed=8).block(0, 300)
    assert 0.4 < (first[0] != other[0]).mean() < 0.6
    far = more.block(10**12 - 256, 10**12)[0]
    assert 0.4 < (first[0][:256] != far).mean() < 0.6


@pytest.mark.parametrize("kind", ["boolean", "gaussian"])
def test_inputs_are_independent_and_labels_are_those_of_the_layer(kind):
    examples = GeneratedExamples(LAYER, 40_000, 3, kind, seed=3)
    assert survey(examples).kind == kind
    X, Y = examples.block(100, 900)
    np.testing.assert_allclose(Y, LAYER(X), rtol=1e-12, atol=1e-13)
    assert X.flags.c_contiguous and X.dtype == Y.dtype == np.float64
    # Granules do not repeat each other, nor do bits of one word.
    rows = examples.block(0, 2048)[0].reshape(2048, -1)
    assert len(np.unique(rows, axis=0)) > 1900


def test_noise_is_of_the_size_asked_for_and_not_that_of_the_inputs():
    plain = GeneratedExamples(LAYER, 20_000, 3, "gaussian", seed=3)
    noisy = GeneratedExamples(LAYER, 20_000, 3, "gaussian", seed=3, noise=0.5)
    (X, Y), (same_X, with_noise) = plain.block(0, 20_000), noisy.block(0, 20_000)
    np.testing.assert_array_equal(X, same_X)
    noise = with_noise - Y
    assert noise.std() == pytest.approx(0.5, rel=0.02)
    assert abs(np.corrcoef(noise[..., 0].ravel(), X[..., 0].ravel())[0, 1]) < 0.03


def test_long_sequences_come_in_small_granules(monkeypatch):
    monkeypatch.setattr(generated, "GRANULE_NUMBERS", 100)
    examples = GeneratedExamples(LAYER, 50, 3, seed=1)
    assert examples.piece == 4
    np.testing.assert_array_equal(examples.block(0, 50)[0][13:21], examples.block(13, 21)[0])


def test_single_examples_are_cheap():
    calls = []

    def counting(X):
        calls.append(len(X))
        return X

    examples = GeneratedExamples(counting, 10**9, 3, dim=4)
    calls.clear()
    take(examples, [5, 10**6, 10**6 + 3, 10**8])
    assert len(calls) == 3


def test_single_examples_are_made_by_the_workers():
    """A sample that is spread over all examples costs nearly a pass; this process must not make
    them on its own while others wait."""
    examples = GeneratedExamples(LAYER, 20_000, 3, seed=7, noise=0.1)
    wanted = np.sort(np.random.default_rng(0).choice(20_000, 700, replace=False))
    here = take(examples, wanted)
    examples._read = None  # pyright: ignore[reportAttributeAccessIssue] (workers have their own)
    with open_engine("pool", 2) as engine:
        there = take(examples, wanted, 512, engine)
    for a, b in zip(here, there, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("labels", ["layer", "file", "function", "name"])
def test_a_pickled_source_is_a_description(tmp_path, labels):
    LAYER.save(tmp_path / "layer.safetensors")
    sources = {
        "layer": (LAYER, None),
        "file": (tmp_path / "layer.safetensors", None),
        "function": (doubled, 5),
        "name": ("numpy:negative", 5),
    }
    source, dim = sources[labels]
    examples = GeneratedExamples(source, 10**6, 3, "gaussian", seed=2, noise=0.1, dim=dim)
    shipped = pickle.dumps(examples)
    assert len(shipped) < 3000
    again = pickle.loads(shipped)
    for mine, theirs in zip(examples.block(700, 990), again.block(700, 990), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_another_process_makes_the_same_examples(tmp_path):
    examples = GeneratedExamples("numpy:tanh", 10**6, 3, "gaussian", seed=2, dim=4)
    (tmp_path / "shipped").write_bytes(pickle.dumps(examples))
    code = (
        f"import pickle, sys; sys.path[:0] = {sys.path!r}\n"
        f"X, Y = pickle.load(open({str(tmp_path / 'shipped')!r}, 'rb')).block(300, 777)\n"
        "sys.stdout.buffer.write(X.tobytes() + Y.tobytes())"
    )
    X, Y = examples.block(300, 777)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert found == X.tobytes() + Y.tobytes()


def test_an_oracle_that_fails_is_named():
    with pytest.raises(ValueError, match=r"os:getcwd failed: TypeError: .*takes no arguments"):
        GeneratedExamples("os:getcwd", 100, 3, dim=4)


def test_an_oracle_labels_too():
    oracle = as_oracle(lambda X: X[..., :1], dim=4)
    examples = GeneratedExamples(oracle, 100, 3)
    X, Y = examples.block(10, 20)
    assert examples.out_dim == 1 and np.array_equal(Y, X[..., :1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": 0}, "n is 0"),
        ({"seq_len": 1}, "seq_len is 1"),
        ({"kind": "uniform"}, "kind is 'uniform'; expected one of boolean, gaussian"),
        ({"seed": -1}, "seed is -1"),
        ({"noise": -1.0}, "noise is -1"),
        ({"noise": float("nan")}, "noise is nan"),
        ({"dim": 4}, "dim is 4; expected 5"),
        ({"labels": doubled}, "doubled: dim is not given"),
        ({"labels": 3, "dim": 4}, "labels is int; expected an AttentionLayer"),
        ({"labels": "nowhere:f", "dim": 4}, "no module nowhere"),
        ({"labels": np.ravel, "dim": 4}, r"ravel: answer \(3072,\); expected \(256, 3, d_out\)"),
    ],
)
def test_misuse_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        GeneratedExamples(**({"labels": LAYER, "n": 10, "seq_len": 3} | change))
