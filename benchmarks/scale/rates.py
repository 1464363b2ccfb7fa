"""Rows screened in a second by one core, and by two workers against one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

import gradine
from gradine.engine import Engine, one_thread, open_engine, reduce_blocks
from gradine.examples import Examples
from gradine.sculpt.certify import Screening, Slabs
from gradine.sculpt.config import SculptConfig

__all__ = ["Screen", "core_rate", "product_rate", "screening", "speedups", "timed"]

SIZE = 1500  # of the square matrices whose product is the yardstick
TRIES = 5
ROUNDS = 5  # of passes by every engine


class Screen:
    """Phase 2 on whole blocks: what a worker does with each of them."""

    def __init__(self, screening: Screening) -> None:
        self.screening = screening

    def __call__(self, X: Any, Y: Any, start: int) -> Slabs:
        return self.screening(X, Y)


def screening(truth: gradine.AttentionLayer) -> Screen:
    """With the true sum: what is measured does not depend on how good it is."""
    config = SculptConfig()
    wanted = int(config.slabs_per_unknown * truth.dim**2)
    return Screen(Screening(truth.w.sum(axis=0), truth.dim, wanted, config))


def product_rate() -> float:
    """Floating-point operations a second of one large product of doubles by one thread."""
    matrix = np.random.default_rng(0).standard_normal((SIZE, SIZE))
    with one_thread():
        best = min(timed(lambda: matrix @ matrix) for _ in range(TRIES))
    return 2.0 * SIZE**3 / best


def operations(seq_len: int, dim: int, out_dim: int) -> float:
    """Of the products that screening an example cannot do without: X W, its Gram matrix, and the
    correlations of the outputs with it."""
    return 2.0 * seq_len * out_dim * (dim + 2 * seq_len)


def core_rate(examples: Examples, kernel: Screen, block: int) -> dict[str, float]:
    """Examples a second in this process, with and without making or reading them."""
    X, Y = examples.block(0, block)
    with one_thread():
        reading = min(timed(lambda: examples.block(0, block)) for _ in range(TRIES))
        screened = min(timed(lambda: kernel(X, Y, 0)) for _ in range(TRIES))
    rows, flops = examples.seq_len, operations(examples.seq_len, examples.dim, examples.out_dim)
    return {
        "rows_a_second": rows * block / screened,
        "rows_a_second_with_reading": rows * block / (screened + reading),
        "share_of_product_rate": flops * block / screened / product_rate(),
    }


def speedups(
    examples: Examples,
    kernel: Screen,
    block: int,
    kinds: Sequence[str] = ("pool", "dask"),
    numbers: Sequence[int] = (1, 2),
) -> dict[str, float]:
    """Seconds of one pass with so many workers of each kind, which are there already.

    The best of several rounds, in each of which all have their turn: machines that measure are
    shared, and are slow for all or for none.
    """
    found: dict[str, list[float]] = {}
    with ExitStack() as stack:
        crews = {
            f"{kind}_{workers}": stack.enter_context(open_engine(kind, workers))
            for kind in kinds
            for workers in numbers
        }
        for engine in crews.values():
            _pass(examples, kernel, block, engine, blocks=2 * engine.workers)  # they start
        for _ in range(ROUNDS):
            for name, engine in crews.items():
                seconds = timed(lambda crew=engine: _pass(examples, kernel, block, crew))
                found.setdefault(name, []).append(seconds)
    return {name: min(each) for name, each in found.items()}


def _pass(
    examples: Examples, kernel: Screen, block: int, engine: Engine, blocks: int | None = None
) -> Slabs:
    last = examples.n if blocks is None else min(examples.n, blocks * block)
    return reduce_blocks(
        examples,
        kernel,
        kernel.screening.merged,
        block_size=block,
        engine=engine,
        between=(0, last),
    )


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
