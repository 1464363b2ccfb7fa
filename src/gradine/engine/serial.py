"""The engine that needs nothing: blocks one after another in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["BlockSource", "choose_block_size", "free_memory", "reduce_blocks"]

Array = NDArray[np.float64]
Partial = TypeVar("Partial")

BLOCK_BYTES = 64 * 2**20  # what one block and the temporaries of its kernel may occupy
TEMPORARIES = 8  # a kernel's working memory, in multiples of the block it works on


class BlockSource(Protocol):
    """What a pass needs to know of the examples (``gradine.examples.Examples`` has it all)."""

    @property
    def n(self) -> int: ...
    @property
    def seq_len(self) -> int: ...
    @property
    def dim(self) -> int: ...
    @property
    def out_dim(self) -> int: ...
    def block(self, start: int, stop: int) -> tuple[Array, Array]: ...


def reduce_blocks(
    examples: BlockSource,
    kernel: Callable[[Array, Array, int], Partial],
    merge: Callable[[Partial, Partial], Partial],
    *,
    block_size: int,
    on_block: Callable[[int, Partial], None] | None = None,
) -> Partial:
    """One pass over all examples: ``kernel(X, Y, start)`` for each block, merged in order.

    The kernel sees X (b, k, d) and Y (b, k, d_out) and the index of its first example; it is a
    plain callable over arrays, so that any executor can run it. Partial results are merged in
    the order of the blocks, never of their completion: every engine gives the same bits.
    ``on_block(seen, merged)`` hears of progress after each merge.

    >>> from gradine.examples import ArrayExamples
    >>> data = ArrayExamples(np.ones((10, 2, 3)), np.ones((10, 2, 1)))
    >>> reduce_blocks(data, lambda X, Y, start: len(X), lambda a, b: a + b, block_size=4)
    10
    """
    if block_size < 1:
        raise ValueError(f"block_size is {block_size}; expected at least 1")
    if examples.n < 1:
        raise ValueError("examples has no example; expected at least one")
    results = _partial_results(examples, kernel, block_size)
    seen, merged = next(results)
    if on_block is not None:
        on_block(seen, merged)
    for seen, partial in results:
        merged = merge(merged, partial)
        if on_block is not None:
            on_block(seen, merged)
    return merged


def _partial_results(
    examples: BlockSource, kernel: Callable[[Array, Array, int], Partial], block_size: int
) -> Iterator[tuple[int, Partial]]:
    """For each block in order: how many examples have been seen, and what the kernel made."""
    for start in range(0, examples.n, block_size):
        stop = min(start + block_size, examples.n)
        yield stop, kernel(*examples.block(start, stop), start)


def free_memory() -> int:
    """Bytes of memory that nobody uses just now; two GiB where the system does not tell."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 2**31


def choose_block_size(examples: BlockSource, memory_bytes: int = BLOCK_BYTES) -> int:
    """How many examples a block may hold so that it and its temporaries fit ``memory_bytes``.

    >>> from gradine.examples import ArrayExamples
    >>> data = ArrayExamples(np.ones((10, 2, 3)), np.ones((10, 2, 1)))
    >>> choose_block_size(data), choose_block_size(data, memory_bytes=2048)
    (10, 3)
    """
    if memory_bytes < 1:
        raise ValueError(f"memory_bytes is {memory_bytes}; expected a positive number of bytes")
    per_example = 8 * examples.seq_len * (examples.dim + examples.out_dim) * (1 + TEMPORARIES)
    return max(1, min(examples.n, memory_bytes // per_example))
