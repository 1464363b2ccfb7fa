"""What a zarr store may hold: codecs that make numbers of bytes, and chunks of the size they say.

A few bytes of a packed chunk can unpack to gigabytes, and a link in place of a chunk may lead to a
device that never ends: both are looked at before anything is unpacked.
"""

from __future__ import annotations

import bz2
import copy
import lzma
import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gradine.examples.stored import check_member
from gradine.files import check_regular
from gradine.memory import in_words

__all__ = ["Files", "Guard", "ZippedFiles", "check_codecs", "check_files"]

METADATA = ("zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata")
METADATA_BYTES = 4 * 2**20

#: Codecs of either version, without the "numcodecs." that some have in version 3.
HEADED = {"blosc", "lz4", "zstd"}  # their first bytes say what they unpack to
STREAMED: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(wbits=31),
    "zlib": zlib.decompressobj,
    "bz2": bz2.BZ2Decompressor,
    "lzma": lzma.LZMADecompressor,
}
FILTERS = {
    *("transpose", "shuffle", "delta", "bitround", "quantize", "fixedscaleoffset", "astype"),
    *("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"),
}
SHARDS = "sharding_indexed"
CODECS = {"bytes", "endian", SHARDS, *HEADED, *STREAMED, *FILTERS}
MOST_FILTERS = 4  # each may make its input longer

HEAD = 32  # bytes of a packed chunk that say what it unpacks to
PIECE = 2**20  # bytes that are unpacked at a time to be counted
ROOM = 2**16  # beyond its numbers, for what a codec writes around them
WIDER = 8  # filters may make single bytes of double numbers, and back
ZSTD = b"\x28\xb5\x2f\xfd"
NO_CHUNK = 2**64 - 1


class ZippedFiles:
    """The files in a zip, as its directory tells of them; it stays open."""

    def __init__(self, path: str) -> None:
        self._archive = zipfile.ZipFile(path)
        self._members = {member.filename: member for member in self._archive.infolist()}
        for name, member in self._members.items():
            try:
                check_member(member, Path(path).stat().st_size)
            except ValueError as error:
                raise ValueError(f"{name} {error}") from error

    @property
    def sizes(self) -> dict[str, int]:
        return {name: member.file_size for name, member in self._members.items()}

    def check(self, name: str) -> None:
        """``ValueError`` if a file unpacks to more than the directory says.

        zipfile unpacks all of it, two GiB at most, before it cuts off what is too much.
        """
        member = self._members[name]
        if member.compress_type == zipfile.ZIP_STORED:
            return
        longer = copy.copy(member)
        longer.file_size += 1
        counted = 0
        with self._archive.open(longer) as file:
            while piece := file.read(PIECE):
                counted += len(piece)
        if counted > member.file_size:
            raise ValueError(f"{name} is damaged: it unpacks to more than the zip says")


Files = Path | ZippedFiles | None


def check_files(address: str) -> Files:
    """Refuse a local store whose metadata are no plain small files, before zarr reads them.

    The answer is for `Guard`: the folder, or what a zip file holds; None elsewhere.
    """
    if "://" in address or not Path(address).exists():
        return None
    if Path(address).is_file():
        files = ZippedFiles(address)
        described = {
            name: size for name, size in files.sizes.items() if name.rpartition("/")[2] in METADATA
        }
    else:
        files = Path(address)
        paths = [path for name in METADATA for path in (files / name, *files.glob(f"*/{name}"))]
        for path in filter(Path.exists, paths):
            check_regular(path)
        described = {str(path): path.stat().st_size for path in paths if path.exists()}
    for name, size in described.items():
        if size > METADATA_BYTES:
            expected = f"expected at most {in_words(METADATA_BYTES)}"
            raise ValueError(f"{name} has {in_words(size)}; {expected}")
        if isinstance(files, ZippedFiles):
            files.check(name)
    return files


def check_codecs(metadata: dict[str, Any]) -> None:
    """Refuse codecs that are not known: numcodecs has one that runs what a file says."""
    given = [metadata.get(name) for name in ("codecs", "compressor", "filters")]
    names = list(_codec_names(given))
    for name in names:
        if name not in CODECS:
            raise ValueError(f"has codec {name!r}; expected one that makes numbers of bytes")
    packed = [name for name in names if name in HEADED or name in STREAMED]
    if len(packed) > 1:
        raise ValueError(f"is packed by {' and '.join(packed)}; expected one of them")
    if sum(name in FILTERS for name in names) > MOST_FILTERS or names.count(SHARDS) > 1:
        raise ValueError(f"has codecs {', '.join(names)}; expected fewer")


def _codec_names(value: Any) -> Iterator[str]:
    """Names of codecs, also of those within others."""
    if isinstance(value, dict):
        name = value.get("name", value.get("id"))
        if isinstance(name, str):
            yield name.removeprefix("numcodecs.")
        yield from _codec_names(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _codec_names(part)


class Guard:
    """Looks at the stored chunks of one array, each once; ``files`` is what `check_files` gave."""

    def __init__(self, array: Any, numbers: int, files: Files) -> None:
        metadata = array.metadata.to_dict()
        names = set(_codec_names([metadata.get(name) for name in ("codecs", "compressor")]))
        self._packing = next(iter(names & (HEADED | set(STREAMED))), None)
        self._store, self._path = array.store_path.store, array.store_path.path
        width = np.dtype(array.dtype).itemsize
        filters = names & FILTERS or metadata.get("filters")
        #: Bytes of a chunk, unpacked, and those of a file with one chunk or with a shard of them.
        self._most = numbers * width * (WIDER if filters else 1) + ROOM
        self._inside = math.prod(array.shards or ()) // math.prod(array.chunks)
        self._stored = 2 * self._most * max(self._inside if array.shards else 1, 1)
        self._sharding = _sharding(metadata) if array.shards else None
        self._files = files
        self._zipped = files.sizes if isinstance(files, ZippedFiles) else None
        self._seen: set[str] = set()

    async def size(self, key: str) -> int | None:
        """Bytes that are stored of a chunk; None if it is not there."""
        path = self._within(key)
        try:
            if isinstance(self._files, Path):
                check_regular(self._files / path)
            if self._zipped is not None:
                return self._zipped[path]
            return await self._store.getsize(path)
        except (FileNotFoundError, KeyError):
            return None

    async def check(self, key: str, size: int) -> None:
        """``ValueError`` if a chunk of so many bytes is not what it should be."""
        if key in self._seen:
            return
        if size > self._stored:
            most = in_words(self._stored)
            raise ValueError(f"has {in_words(size)} for chunk {key}; expected at most {most}")
        if isinstance(self._files, ZippedFiles):
            self._files.check(self._within(key))
        for start, stop in await self._packed(self._within(key), size):
            await self._check_packed(key, start, stop)
        self._seen.add(key)

    def _within(self, key: str) -> str:
        return f"{self._path}/{key}" if self._path else key

    async def _packed(self, path: str, size: int) -> list[tuple[int, int]]:
        """Where packed chunks are in a file; none where nothing is packed."""
        if self._packing is None:
            return []
        if self._sharding is None:
            return [(0, size)]
        length = 16 * self._inside + 4  # with its sum of four bytes
        start = 0 if self._sharding == "start" else max(size - length, 0)
        index = await self._read(path, start, start + length)
        if len(index) != length:
            raise ValueError("has a shard without its index")
        places = struct.unpack(f"<{2 * self._inside}Q", index[:-4])
        pairs = zip(places[::2], places[1::2], strict=True)
        return [(begin, min(begin + n, size)) for begin, n in pairs if begin < min(size, NO_CHUNK)]

    async def _check_packed(self, key: str, start: int, stop: int) -> None:
        path = self._within(key)
        headed = self._packing in HEADED
        data = await self._read(path, start, min(stop, start + HEAD) if headed else stop)
        size = _said(self._packing, data) if headed else _counted(self._packing, data, self._most)
        if size is None or size > self._most:
            told = "an unknown size" if size is None else in_words(size)
            most = in_words(self._most)
            raise ValueError(f"has chunk {key}, which unpacks to {told}; expected at most {most}")

    async def _read(self, path: str, start: int, stop: int) -> bytes:
        from zarr.abc.store import RangeByteRequest
        from zarr.core.buffer import default_buffer_prototype

        part = RangeByteRequest(start, stop)
        found = await self._store.get(path, default_buffer_prototype(), part)
        return b"" if found is None else found.to_bytes()


def _sharding(metadata: dict[str, Any]) -> str:
    """Where in a shard its index is; ``ValueError`` if it is not written as usual."""
    (codec,) = (codec for codec in metadata["codecs"] if codec["name"] == SHARDS)
    settings = codec["configuration"]
    if [part["name"] for part in settings["index_codecs"]] != ["bytes", "crc32c"]:
        raise ValueError("has an index of shards in unusual codecs; expected bytes and crc32c")
    return str(settings.get("index_location", "end"))


def _said(packing: str | None, head: bytes) -> int | None:
    """What the first bytes say that the rest unpacks to; None if they do not say."""
    if packing == "blosc":
        return struct.unpack("<I", head[4:8])[0] if len(head) >= 8 else 0
    if packing == "lz4":
        return struct.unpack("<I", head[:4])[0] if len(head) >= 4 else 0
    if not head.startswith(ZSTD) or len(head) < 6:
        return None
    described = head[4]
    alone = described >> 5 & 1
    width = (1 if alone else 0, 2, 4, 8)[described >> 6]
    start = 5 + (0 if alone else 1) + (0, 1, 2, 4)[described & 3]
    if width == 0:
        return None
    return int.from_bytes(head[start : start + width], "little") + (256 if width == 2 else 0)


def _counted(packing: str | None, data: bytes, most: int) -> int:
    """What a stream unpacks to, counted piece by piece until it is too much."""
    assert packing is not None
    total = 0
    while data and total <= most:
        stream = STREAMED[packing]()
        while not stream.eof and total <= most:
            piece = stream.decompress(data, PIECE)
            total += len(piece)
            data = getattr(stream, "unconsumed_tail", b"")
            if not piece and not data:
                return total  # cut short: its decoder will say so
        data = stream.unused_data
    return total
