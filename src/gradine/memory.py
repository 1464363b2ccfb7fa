"""How much memory a run may take: the one place that decides.

What a block and a learner may take follows from the memory that was allowed, never from what
happens to be free: with any number of workers the same data and settings give the same blocks, and
so the same answer. Where nothing was allowed, blocks are those of 2 GiB on every machine, and a
learner may keep its share of what the machine has: only where it could use more examples than
that, under noise, does a larger machine fit more of them.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

from gradine.checks import whole_number

__all__ = [
    "allowed_bytes",
    "check_kept",
    "chunk_bytes",
    "examples_in_block",
    "in_words",
    "installed_memory",
    "kept_bytes",
    "parse_size",
]

BLOCK_BYTES = 64 * 2**20  # of a block and the temporaries of its kernel, where nothing is said
BLOCK_SHARE = 32  # of the memory allowed, such a block takes one part in so many
TEMPORARIES = 8  # a kernel's working memory, in multiples of the block it works on
CHUNK_SHARE = 8  # the same for one row of chunks of a store, which can only be read as a whole

MOST_BYTES = 10**18  # more than any machine has, and no more than whole numbers of numpy hold

#: Where Linux tells a container what it may take, in the newer way and in the older one.
CONTAINER_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)

SIZE = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>[kMGT]?)(?P<binary>i?)B?", re.IGNORECASE)
POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str) -> int:
    """Bytes that a size such as 2GB, 512MiB or 1000000 stands for.

    >>> parse_size("2GB"), parse_size("512MiB"), parse_size("1.5 kB")
    (2000000000, 536870912, 1500)
    """
    found = SIZE.fullmatch(text.strip())
    if found is None or (found["binary"] and not found["unit"]):
        raise ValueError(f"memory is {text!r}; expected a size such as 2GB or 512MiB")
    base = 1024 if found["binary"] else 1000
    size = float(found["number"]) * base ** POWERS[found["unit"].lower()]
    if size > MOST_BYTES:
        raise ValueError(f"memory is {text!r}; expected at most {MOST_BYTES // 10**12}TB")
    return whole_number("memory", int(size), 1)


def in_words(size: float) -> str:
    """A number of bytes for a message.

    >>> in_words(256 * 2**20), in_words(1200)
    ('268 MB', '1.2 kB')
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def examples_in_block(n: int, numbers: int, memory: int | None = None) -> int:
    """Examples in a block, of n with so many numbers each, where ``memory`` bytes are allowed.

    A power of two, or n: it depends on the shape of the examples and on the memory alone, so that
    sums over blocks have the same bits from every source, and blocks begin where chunks do.

    >>> examples_in_block(5000, 9), examples_in_block(5000, 9, memory=32 * 2**20)
    (5000, 1024)
    """
    each = 8 * numbers * (1 + TEMPORARIES)
    allowed = _block_bytes(memory) // each
    if allowed < 1:
        raise ValueError(
            f"memory is {in_words(memory or BLOCK_SHARE * BLOCK_BYTES)}; expected at least "
            f"{in_words(BLOCK_SHARE * each)}, as one example has {numbers} numbers"
        )
    return n if n <= allowed else 1 << (allowed.bit_length() - 1)


def allowed_bytes(memory: int | None = None) -> int:
    """The memory that blocks go by; None: what nothing else was said for.

    >>> in_words(allowed_bytes())
    '2.15 GB'
    """
    return BLOCK_SHARE * _block_bytes(memory)


def chunk_bytes(memory: int | None = None) -> int:
    """What a source may hold that cannot be read in smaller parts; None: 256 MiB."""
    return _block_bytes(memory) * BLOCK_SHARE // CHUNK_SHARE


def kept_bytes(memory: int | None, share: float) -> int:
    """What a learner may keep; None: that share of the memory that the machine has."""
    return int(share * (installed_memory() if memory is None else memory))


def check_kept(memory: int | None, share: float, needed: float, why: str) -> None:
    """``ValueError`` if a learner, with its share of the memory, cannot keep what it needs.

    >>> check_kept(1000, 0.5, 600, "so it is")
    Traceback (most recent call last):
    ValueError: memory is 1 kB; expected at least 1.2 kB, as so it is
    """
    if needed <= kept_bytes(memory, share):
        return
    there = f"{in_words(installed_memory())}, all of this machine" if memory is None else ""
    raise ValueError(
        f"memory is {there or in_words(memory or 0)}; expected at least "
        f"{in_words(math.ceil(needed / share))}, as {why}"
    )


def _block_bytes(memory: int | None) -> int:
    return BLOCK_BYTES if memory is None else memory // BLOCK_SHARE


def installed_memory() -> int:
    """Bytes that this machine, or the container that this runs in, has; two GiB where it is not
    told."""
    try:
        installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        installed = 2**31
    return min([installed, *_limits()])


def _limits() -> list[int]:
    """Of the container, where there are any: one of them is written as the word max."""
    found = []
    for path in CONTAINER_LIMITS:
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
        if text.isdecimal() and int(text) > 0:
            found.append(int(text))
    return found
