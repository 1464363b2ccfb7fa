"""Archives that lie: members of zips, and chunks of stores, that unpack to more than they say."""

from __future__ import annotations

import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from gradine.examples import open_examples
from tests.test_hostile import X, npy


def test_members_of_a_zip_that_are_not_called_npy(tmp_path):
    with zipfile.ZipFile(tmp_path / "data.npz", "w") as archive:
        archive.writestr("X", npy(X))
        archive.writestr("Y.npy", npy(X))
    with pytest.raises(ValueError, match=r"data.npz: holds X, Y; expected arrays X and Y"):
        open_examples(tmp_path / "data.npz")


def test_a_zip_whose_directory_lies_before_the_file(tmp_path):
    np.savez(tmp_path / "data.npz", X=X, Y=X)
    data = bytearray((tmp_path / "data.npz").read_bytes())
    at = data.rindex(b"PK\5\6") + 16
    data[at : at + 4] = b"\xff\xff\xff\x7f"
    (tmp_path / "data.npz").write_bytes(data)
    with pytest.raises(ValueError, match=r"data\.npz"):
        open_examples(tmp_path / "data.npz")


def directory_says(path: Path, name: str, packed: int, unpacked: int | None = None) -> None:
    """Let the directory of a zip say other sizes of a member."""
    data = bytearray(path.read_bytes())
    at = data.rindex(name.encode()) - 46  # its name follows 46 bytes of its entry
    assert data[at : at + 4] == b"PK\1\2"
    data[at + 20 : at + 24] = packed.to_bytes(4, "little")
    if unpacked is not None:
        data[at + 24 : at + 28] = unpacked.to_bytes(4, "little")
    path.write_bytes(data)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_zip_whose_directory_lies_about_what_a_member_takes(tmp_path, save):
    path = tmp_path / "data.npz"
    save(path, X=X, Y=X)
    directory_says(path, "X.npy", 3 * 2**30)
    with pytest.raises(ValueError, match=r"data\.npz: X is damaged \(3221225472 bytes in a file"):
        open_examples(path)


def test_plain_members_of_a_zip_that_grow(tmp_path):
    np.savez(tmp_path / "data.npz", X=X, Y=X)
    directory_says(tmp_path / "data.npz", "X.npy", 100, 2**30)
    with pytest.raises(ValueError, match=r"X is damaged \(100 bytes that are not packed"):
        open_examples(tmp_path / "data.npz")


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_that_zipfile_unpacks_without_bound(tmp_path, packing):
    with zipfile.ZipFile(tmp_path / "data.npz", "w", packing) as archive:
        for name in ("X.npy", "Y.npy"):
            archive.writestr(name, npy(X))
    with pytest.raises(ValueError, match=r"X is packed by method 1\d; expected stored or deflated"):
        open_examples(tmp_path / "data.npz")


def test_a_store_in_a_zip_whose_directory_lies(tmp_path):
    zarr = pytest.importorskip("zarr")
    path = tmp_path / "data.zarr.zip"
    with zarr.storage.ZipStore(path, mode="w") as store:
        group = zarr.open_group(store, mode="w")
        for label in ("X", "Y"):
            group.create_array(label, data=X)
    directory_says(path, "X/c/0/0/0", 3 * 2**30)
    with pytest.raises(ValueError, match=r"data\.zarr\.zip: .*X/c/0/0/0 is damaged"):
        open_examples(path)


@pytest.mark.parametrize("name", ["X/c/0/0/0", "X/zarr.json"])
def test_a_store_in_a_zip_that_unpacks_to_more_than_its_directory_says(tmp_path, name):
    zarr = pytest.importorskip("zarr")
    path = tmp_path / "data.zarr.zip"
    with zarr.storage.ZipStore(path, mode="w", compression=zipfile.ZIP_DEFLATED) as store:
        group = zarr.open_group(store, mode="w")
        for label in ("X", "Y"):
            group.create_array(label, data=X, compressors=None)
    np.testing.assert_array_equal(open_examples(path).block(0, len(X))[0], X)
    with zipfile.ZipFile(path) as archive:
        files = {member: archive.read(member) for member in archive.namelist()}
    bomb = files[name] + b"\0" * 2**26
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in files.items():
            archive.writestr(member, bomb if member == name else content)
        packed = archive.getinfo(name).compress_size
    directory_says(path, name, packed, len(files[name]))
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"X\S+ is damaged|Bad CRC-32 for file 'X"):
        open_examples(path).block(0, len(X))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**24


@pytest.mark.parametrize("codec", ["gzip", "zstd", "blosc"])
@pytest.mark.parametrize("sharded", [False, True])
def test_a_chunk_that_unpacks_to_more_than_it_should(tmp_path, codec, sharded):
    zarr = pytest.importorskip("zarr")
    from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

    packing = {"gzip": GzipCodec(), "zstd": ZstdCodec(), "blosc": BloscCodec()}[codec]
    for name, rows in (("small", 8), ("bomb", 2**17)):
        group = zarr.open_group(str(tmp_path / f"{name}.zarr"), mode="w")
        for label in ("X", "Y"):
            shards = (rows, 3, 2) if sharded else None
            group.create_array(
                label,
                data=np.ones((rows, 3, 2)),
                chunks=(rows, 3, 2),
                shards=shards,
                compressors=[packing],
            )
    small = tmp_path / "small.zarr" / "Y" / "c" / "0" / "0" / "0"
    assert open_examples(tmp_path / "small.zarr").block(0, 8)[1].shape == (8, 3, 2)
    small.write_bytes((tmp_path / "bomb.zarr" / "Y" / "c" / "0" / "0" / "0").read_bytes())
    with pytest.raises(ValueError, match=r"unpacks to .* MB|unpacks to .* kB"):
        open_examples(tmp_path / "small.zarr").block(0, 8)


def test_metadata_and_chunks_of_a_store_that_never_end(tmp_path):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(tmp_path / "data.zarr"), mode="w")
    for label in ("X", "Y"):
        group.create_array(label, data=X, chunks=X.shape)
    chunk = tmp_path / "data.zarr" / "Y" / "c" / "0" / "0" / "0"
    chunk.unlink()
    chunk.symlink_to("/dev/zero")
    with pytest.raises(ValueError, match="not a file"):
        open_examples(tmp_path / "data.zarr").block(0, 6)
    metadata = tmp_path / "data.zarr" / "X" / "zarr.json"
    metadata.unlink()
    metadata.symlink_to("/dev/zero")
    with pytest.raises(ValueError, match=r"zarr\.json: not a file"):
        open_examples(tmp_path / "data.zarr")
