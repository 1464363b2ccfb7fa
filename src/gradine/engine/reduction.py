"""One pass over the examples: a kernel for each block, merged in the order of the blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from gradine.engine.bookmark import Bookmark
from gradine.engine.serial import BlockSource, Engine, Kernel
from gradine.engine.threads import one_thread

__all__ = ["reduce_blocks"]

Partial = TypeVar("Partial")


def reduce_blocks(
    examples: BlockSource,
    kernel: Kernel[Partial],
    merge: Callable[[Partial, Partial], Partial],
    *,
    block_size: int,
    between: tuple[int, int] | None = None,
    engine: Engine | None = None,
    bookmark: Bookmark | None = None,
    until: float | None = None,
    on_block: Callable[[int, Partial], None] | None = None,
) -> Partial:
    """One pass over the examples: ``kernel(X, Y, start)`` for each block, merged in order.

    The kernel sees X (b, k, d) and Y (b, k, d_out) and the index of its first example. It is a
    plain callable over arrays, picklable if the ``engine`` is not this process. Blocks depend on
    the data and ``block_size`` alone; each is computed by one thread, and partial results are
    merged in the order of the blocks, never of their completion: every engine gives the same bits.

    ``between`` limits the pass to some examples; ``bookmark`` keeps what is done, for a run that
    is resumed; after the time ``until``, by `time.monotonic`, no block is begun but the first.
    ``on_block(seen, merged)`` hears of progress after each merge.

    >>> import numpy as np
    >>> from gradine.examples import ArrayExamples
    >>> data = ArrayExamples(np.ones((10, 2, 3)), np.ones((10, 2, 1)))
    >>> reduce_blocks(data, lambda X, Y, start: len(X), lambda a, b: a + b, block_size=4)
    10
    """
    if block_size < 1:
        raise ValueError(f"block_size is {block_size}; expected at least 1")
    if examples.n < 1:
        raise ValueError("examples has no example; expected at least one")
    first, last = between or (0, examples.n)
    ranges = [(at, min(at + block_size, last)) for at in range(first, last, block_size)]
    done, ended, merged = (bookmark and bookmark.load(len(ranges))) or (0, False, _NOTHING)
    if ended or done == len(ranges):
        return merged  # pyright: ignore[reportReturnType]
    with one_thread():
        for partial in (engine or Engine()).blocks(examples, kernel, ranges[done:], until=until):
            merged = partial if done == 0 else merge(merged, partial)  # pyright: ignore
            done += 1
            if on_block is not None:
                on_block(ranges[done - 1][1], merged)
            if bookmark is not None:
                bookmark.passed(done, merged)
    if bookmark is not None:
        bookmark.ended(done, merged)
    return merged  # pyright: ignore[reportReturnType]


_NOTHING: Any = None
