"""Zarr stores: the same blocks as from arrays, and one clear line for stores that lie."""

from __future__ import annotations

import json
import pickle
import sys
import uuid

import numpy as np
import pytest

from gradine.examples import BlockError, ZarrExamples, open_examples, write_zarr
from gradine.examples.source import ArrayExamples

zarr = pytest.importorskip("zarr")

X = np.random.default_rng(0).normal(size=(50, 3, 4))
Y = np.random.default_rng(1).normal(size=(50, 3, 2))


def write_store(store, X=X, Y=Y, chunks=16, version=3, **options):
    group = zarr.open_group(store, mode="w", zarr_format=version)
    for label, array in (("X", X), ("Y", Y)):
        rows = (min(chunks, len(array)), *array.shape[1:])
        group.create_array(label, data=array, chunks=rows, **options)
    return store


def local(tmp_path, **options):
    return write_store(str(tmp_path / "data.zarr"), **options)


def same_blocks(examples, X=X, Y=Y):
    for start, stop in [(0, 50), (0, 16), (16, 20), (20, 33), (33, 34), (2, 5), (40, 50), (5, 45)]:
        block_X, block_Y = examples.block(start, stop)
        np.testing.assert_array_equal(block_X, X[start:stop])
        np.testing.assert_array_equal(block_Y, Y[start:stop])
        assert block_X.dtype == np.float64 and block_X.flags.c_contiguous


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("chunks", [1, 7, 16, 50])
def test_blocks_of_a_folder(tmp_path, version, chunks):
    examples = open_examples(local(tmp_path, chunks=chunks, version=version))
    assert isinstance(examples, ZarrExamples) and examples.piece == chunks
    assert (examples.n, examples.seq_len, examples.dim, examples.out_dim) == (50, 3, 4, 2)
    same_blocks(examples)
    same_blocks(pickle.loads(pickle.dumps(examples)))
    assert len(pickle.dumps(examples)) < 500


def test_blocks_of_shards_and_of_short_numbers(tmp_path):
    store = str(tmp_path / "shards.zarr")
    group = zarr.open_group(store, mode="w")
    signs = np.sign(X).astype(np.int8)
    group.create_array("X", data=signs, chunks=(8, 3, 4), shards=(16, 3, 4))
    group.create_array("Y", data=Y.astype(">f4"), chunks=(5, 1, 2))
    same_blocks(open_examples(store), signs, Y.astype(np.float32))


def test_blocks_of_a_zip_file_and_of_addresses(tmp_path):
    with zarr.storage.ZipStore(tmp_path / "data.zarr.zip", mode="w") as store:
        write_store(store)
    same_blocks(open_examples(tmp_path / "data.zarr.zip"))
    same_blocks(pickle.loads(pickle.dumps(open_examples(tmp_path / "data.zarr.zip"))))
    same_blocks(open_examples(f"file://{local(tmp_path)}"))
    address = f"memory://{uuid.uuid4().hex}/data.zarr"
    write_store(zarr.storage.FsspecStore.from_url(address))
    same_blocks(open_examples(address))
    same_blocks(pickle.loads(pickle.dumps(open_examples(address))))


def test_what_was_written_is_read(tmp_path):
    blocks = {"X": np.split(X, [3, 20, 21]), "Y": np.split(Y, [44])}
    write_zarr(tmp_path / "new.zarr", {"X": X.shape, "Y": Y.shape}, blocks)
    same_blocks(open_examples(tmp_path / "new.zarr"))
    with pytest.raises(OSError, match=r"new\.zarr: it exists already"):
        write_zarr(tmp_path / "new.zarr", {"X": X.shape, "Y": Y.shape}, blocks)
    zeros = {"X": [np.zeros_like(X)], "Y": [np.zeros_like(Y)]}  # chunks like these are written, too
    write_zarr(tmp_path / "zeros.zarr", {"X": X.shape, "Y": Y.shape}, zeros)
    assert not open_examples(tmp_path / "zeros.zarr").block(0, 50)[1].any()
    assert {path.name for path in tmp_path.iterdir()} == {"new.zarr", "zeros.zarr"}


def test_chunks_begin_where_blocks_do(tmp_path):
    long = np.ones((40_000, 3, 4))
    write_zarr(
        tmp_path / "long.zarr", {"X": long.shape, "Y": long.shape}, {"X": [long], "Y": [long]}
    )
    examples = open_examples(tmp_path / "long.zarr")
    assert examples.block_size() == ArrayExamples(long, long).block_size() == 32_768
    assert examples.piece == examples.block_size()


def edited(path, change):
    metadata = json.loads(path.read_text())
    change(metadata)
    path.write_text(json.dumps(metadata))


V3 = "X/zarr.json"
V2 = "X/.zarray"
PICKLE = {"id": "pickle"}
LIES = [
    (3, V3, {"shape": [60, 3, 4]}, "X has shape .* and Y .*; expected the same number"),
    (3, V3, {"shape": [50, 3]}, "X "),
    (3, V3, {"shape": [50, 1, 4]}, "expected the same number of examples and of tokens"),
    (3, V3, {"shape": [-50, 3, 4]}, "X "),
    (3, V3, {"data_type": "bool", "fill_value": False}, "X has dtype bool; expected real numbers"),
    (3, V3, {"data_type": "complex128", "fill_value": [0, 0]}, "X has dtype complex128"),
    (3, V3, {"data_type": "string", "fill_value": ""}, "X "),
    (3, V3, {"data_type": "nonsense"}, "X "),
    (3, V3, {"codecs": [{"name": "python_code"}]}, "X "),
    (3, V3, {"codecs": []}, "X "),
    (3, V3, {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 3, 4]}}}, "X "),
    (3, V3, {"zarr_format": 9}, "X "),
    (2, V2, {"dtype": "|O"}, "X "),
    (2, V2, {"dtype": "|O", "filters": [PICKLE]}, "X "),
    (2, V2, {"dtype": "<M8[s]"}, "X "),
    (2, V2, {"filters": [PICKLE]}, "X "),
    (2, V2, {"compressor": PICKLE}, "X .*pickle"),
    (2, V2, {"compressor": {"id": "base64"}}, "X has codec 'base64'; expected one that makes"),
    (2, V2, {"shape": "many"}, "X "),
]


@pytest.mark.parametrize(("version", "file", "lie", "message"), LIES)
def test_metadata_that_lies_is_refused_in_one_line(tmp_path, version, file, lie, message):
    store = local(tmp_path, version=version)
    edited(tmp_path / "data.zarr" / file, lambda metadata: metadata.update(lie))
    with pytest.raises(ValueError, match=message) as caught:
        open_examples(store)
    assert str(caught.value).startswith(f"{store}: ") and "\n" not in str(caught.value)


def test_no_code_is_run(tmp_path):
    """A chunk that is a pickle, behind a codec that would load it."""
    store = local(tmp_path, version=2, chunks=50)
    edited(tmp_path / "data.zarr" / V2, lambda metadata: metadata.update(compressor=PICKLE))
    loud = type("Loud", (), {"__reduce__": lambda self: (open, (str(tmp_path / "ran"), "w"))})
    (tmp_path / "data.zarr" / "X" / "0.0.0").write_bytes(pickle.dumps(loud()))
    with pytest.raises(ValueError, match=r"X .*pickle"):
        open_examples(store).block(0, 50)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("version", [2, 3])
def test_more_examples_than_chunks_are_named(tmp_path, version):
    store = local(tmp_path, version=version)
    for label in "XY":
        file = tmp_path / "data.zarr" / label / ("zarr.json" if version == 3 else ".zarray")
        edited(file, lambda metadata: metadata["shape"].__setitem__(0, 10**13))
    examples = open_examples(store)
    np.testing.assert_array_equal(examples.block(0, 48)[0], X[:48])
    with pytest.raises(
        BlockError, match=r"data\.zarr: examples 64:80: X has no chunk (c/4/0/0|4\.)"
    ):
        examples.block(64, 80)


def test_damaged_and_missing_chunks_are_named(tmp_path):
    store = local(tmp_path)
    chunks = tmp_path / "data.zarr" / "Y" / "c"
    (chunks / "1" / "0" / "0").write_bytes(b"nonsense")
    (chunks / "2" / "0" / "0").unlink()
    examples = open_examples(store)
    examples.block(0, 16)
    for start, stop, reason in [(16, 20, "Y "), (30, 40, "Y has no chunk c/2/0/0")]:
        with pytest.raises(BlockError, match=rf"examples {start}:{stop}: {reason}"):
            examples.block(start, stop)


def test_chunks_beyond_the_memory_are_refused(tmp_path):
    wide = np.ones((50, 30, 40))
    store = local(tmp_path, X=wide, Y=wide, chunks=50)
    assert open_examples(store, memory=5_000_000).n == 50
    expected = "X has chunks of 50 examples, 480 kB; expected at most 250 kB"
    with pytest.raises(ValueError, match=expected):
        open_examples(store, memory=2_000_000)
    for shape in ([10**12, 30, 40], [50, 10**6, 10**6]):  # chunks larger than any memory
        edited(
            tmp_path / "data.zarr" / V3,
            lambda metadata, shape=shape: metadata["chunk_grid"].update(
                configuration={"chunk_shape": shape}
            ),
        )
        with pytest.raises(ValueError, match=rf"X has chunks of {shape[0]} examples, .* TB"):
            open_examples(store)


def test_what_is_no_store_is_said_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"memory://none\.zarr: no zarr group"):
        open_examples("memory://none.zarr")
    with pytest.raises(ValueError, match="nowhere"):
        open_examples("nowhere://data.zarr")
    (tmp_path / "empty.zarr").mkdir()
    with pytest.raises((ValueError, FileNotFoundError), match=r"empty\.zarr: "):
        open_examples(tmp_path / "empty.zarr")
    (tmp_path / "broken.zip").write_bytes(b"no zip")
    with pytest.raises(ValueError, match=r"broken\.zip: not a readable zarr store"):
        open_examples(tmp_path / "broken.zip")
    zarr.open_group(str(tmp_path / "other.zarr"), mode="w").create_array("inputs", data=X)
    with pytest.raises(ValueError, match="holds inputs; expected arrays X and Y"):
        open_examples(tmp_path / "other.zarr")


def test_a_missing_extra_says_which_to_install(tmp_path, monkeypatch):
    store = local(tmp_path)
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ValueError, match=r"data\.zarr: .*install gradine\[zarr\]"):
        open_examples(store)
