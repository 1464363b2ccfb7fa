"""Sources of examples: the same blocks from every source, one clear line for every bad file."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from gradine.examples import ArrayExamples, FolderExamples, NpzExamples, open_examples, stored

X = np.random.default_rng(0).normal(size=(9, 3, 4))
Y = np.random.default_rng(1).normal(size=(9, 3, 2))


def write_folder(path, X=X, Y=Y):
    path.mkdir(exist_ok=True)
    np.save(path / "X.npy", X)
    np.save(path / "Y.npy", Y)
    return path


def write_npz(path, save=np.savez, **arrays):
    save(path, **(arrays or {"X": X, "Y": Y}))
    return path


def every_source(tmp_path, X=X, Y=Y):
    yield ArrayExamples(X, Y)
    yield open_examples(write_folder(tmp_path / "folder", X, Y))
    yield open_examples(write_npz(tmp_path / "plain.npz", X=X, Y=Y))
    yield open_examples(write_npz(tmp_path / "packed.npz", np.savez_compressed, X=X, Y=Y))


def test_every_source_gives_the_same_blocks(tmp_path):
    kinds = set()
    for examples in every_source(tmp_path):
        kinds.add(type(examples))
        assert (examples.n, examples.seq_len, examples.dim, examples.out_dim) == (9, 3, 4, 2)
        for start, stop in [(0, 9), (2, 5), (8, 9)]:
            block_X, block_Y = examples.block(start, stop)
            np.testing.assert_array_equal(block_X, X[start:stop])
            np.testing.assert_array_equal(block_Y, Y[start:stop])
        for start, stop in [(3, 3), (-1, 2), (0, 10)]:
            with pytest.raises(ValueError, match="expected a non-empty range"):
                examples.block(start, stop)
    assert kinds == {ArrayExamples, FolderExamples, NpzExamples}


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<f2", "i1", ">i4", "u2"])
def test_numbers_of_every_kind_become_contiguous_float64(tmp_path, dtype):
    numbers = np.arange(9 * 3 * 4).reshape(9, 3, 4).astype(dtype)
    for examples in every_source(tmp_path, X=numbers):
        block, _ = examples.block(1, 7)
        assert block.dtype == np.float64
        assert block.flags.c_contiguous
        np.testing.assert_array_equal(block, np.arange(108.0).reshape(9, 3, 4)[1:7])


def test_plain_npz_is_not_loaded_and_packed_is(tmp_path):
    plain, packed = list(every_source(tmp_path))[2:]
    assert isinstance(plain._X, stored.StoredArray)
    assert isinstance(packed._X, stored.LoadedArray)


def test_strided_arrays_are_read_in_their_order():
    turned = np.asfortranarray(X)
    np.testing.assert_array_equal(ArrayExamples(turned, Y).block(2, 6)[0], X[2:6])


BAD_ARRAYS = [
    (X[0], Y, "X has shape"),
    (X, Y[..., None], "Y has shape"),
    (X[:0], Y[:0], "X has shape"),
    (X[:5], Y, "expected the same number"),
    (X[:, :2], Y, "expected the same number"),
    (X[:, :1], Y[:, :1], "expected at least 2"),
    (X.astype(complex), Y, "X.* has dtype complex128"),
    (X, Y > 0, "Y.* has dtype bool"),
    (X, Y.astype(str), "Y.* has dtype <U"),
    (X.astype(object), Y, "X.*(has dtype object|not a readable)"),
]


@pytest.mark.parametrize(("bad_X", "bad_Y", "message"), BAD_ARRAYS)
def test_bad_arrays_are_refused_by_every_source(tmp_path, bad_X, bad_Y, message):
    folder = write_folder(tmp_path / "folder", bad_X, bad_Y)
    plain = write_npz(tmp_path / "plain.npz", X=bad_X, Y=bad_Y)
    packed = write_npz(tmp_path / "packed.npz", np.savez_compressed, X=bad_X, Y=bad_Y)
    with pytest.raises(ValueError, match=message):
        ArrayExamples(bad_X, bad_Y)
    for path in (folder, plain, packed):
        with pytest.raises(ValueError, match=message) as caught:
            open_examples(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_fortran_order_on_disk_is_refused(tmp_path):
    folder = write_folder(tmp_path / "folder", X=np.asfortranarray(X))
    with pytest.raises(ValueError, match=r"X\.npy: is in Fortran order"):
        open_examples(folder)


def test_missing_files(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.npz: no such file"):
        open_examples(tmp_path / "none.npz")
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "folder" / "X.npy", X)
    with pytest.raises(FileNotFoundError, match=r"Y\.npy: no such file"):
        open_examples(tmp_path / "folder")


def test_what_is_no_path_is_named(tmp_path):
    for value in (None, 3, True, [], {}, b"data.npz", "", X, (X, Y), object()):
        with pytest.raises(ValueError, match=r"^path is .*; expected an \.npz file, a folder"):
            open_examples(value)
    with pytest.raises(ValueError, match=r"holds no examples; expected X\.npy and Y\.npy, or a st"):
        open_examples(tmp_path)


def test_wrong_names_are_listed(tmp_path):
    path = write_npz(tmp_path / "data.npz", inputs=X, Y=Y)
    with pytest.raises(ValueError, match=r"data\.npz: holds Y, inputs; expected arrays X and Y"):
        open_examples(path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_cut_anywhere_is_refused(tmp_path, save):
    data = write_npz(tmp_path / "data.npz", save).read_bytes()
    cut = tmp_path / "cut.npz"
    for length in [*range(0, len(data), 61), len(data) - 1]:
        cut.write_bytes(data[:length])
        with pytest.raises(ValueError, match=r"cut\.npz: "):
            open_examples(cut)


def test_npy_cut_anywhere_is_refused(tmp_path):
    folder = write_folder(tmp_path / "folder")
    data = (folder / "X.npy").read_bytes()
    for length in [*range(0, len(data), 37), len(data) - 1]:
        (folder / "X.npy").write_bytes(data[:length])
        with pytest.raises(ValueError, match=r"X\.npy: is (truncated|not a readable)"):
            open_examples(folder)


def test_member_whose_header_promises_too_much_is_refused(tmp_path):
    header_lies = (tmp_path / "lie.npy").open("w+b")
    np.lib.format.write_array_header_1_0(
        header_lies, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 3, 4)}
    )
    header_lies.write(bytes(100))
    header_lies.seek(0)
    data = header_lies.read()
    header_lies.close()
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        path = tmp_path / "lie.npz"
        with zipfile.ZipFile(path, "w", compression) as archive:
            archive.writestr("X.npy", data)
            archive.writestr("Y.npy", data)
        with pytest.raises(ValueError, match=r"lie\.npz: X is truncated: 100 bytes"):
            open_examples(path)


def test_packed_arrays_beyond_the_limit_are_refused(tmp_path, monkeypatch):
    path = write_npz(tmp_path / "data.npz", np.savez_compressed)
    monkeypatch.setattr(stored, "MAX_UNPACKED_BYTES", 500)
    with pytest.raises(
        ValueError, match=r"X unpacks to 992 bytes, expected at most 500; .*\(np\.savez\)"
    ):
        open_examples(path)


def test_damaged_packed_member_is_refused(tmp_path):
    path = write_npz(tmp_path / "data.npz", np.savez_compressed)
    data = bytearray(path.read_bytes())
    data[200] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"data\.npz: X "):
        open_examples(path)


def test_file_that_shrinks_while_open_is_an_error_not_a_crash(tmp_path):
    folder = write_folder(tmp_path / "folder")
    examples = open_examples(folder)
    os.truncate(folder / "X.npy", 200)
    with pytest.raises(ValueError, match="changed while being read"):
        examples.block(0, 9)


MEASURE = """
import sys, psutil
from gradine.examples import open_examples
examples = open_examples(sys.argv[1])
before = psutil.Process().memory_info().rss
peak = before
for start in range(0, examples.n, 500):
    examples.block(start, min(start + 500, examples.n))
    peak = max(peak, psutil.Process().memory_info().rss)
print(peak - before)
"""


@pytest.mark.parametrize("form", ["folder", "npz"])
def test_reading_all_of_a_large_file_stays_small(tmp_path, form):
    large = np.ones((20_000, 10, 32))  # 51 MB, twice
    write = write_folder if form == "folder" else write_npz
    path = write(tmp_path / ("data" if form == "folder" else "data.npz"), X=large, Y=large)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    answer = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert int(answer.stdout) < 16 * 2**20
