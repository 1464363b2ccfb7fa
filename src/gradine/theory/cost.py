"""What learning costs on this machine: two quick measurements of it, times a model of the work.

A run is sums of large matrix products and of very many small calls. Both are timed here, for some
hundredths of a second, and multiplied by how much of each a learner takes, which was measured. It
is an order of magnitude, no more: how often a fit has to start again is a matter of chance.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gradine.exact.config import ExactConfig
from gradine.sculpt.config import SculptConfig
from gradine.theory.needs import pattern_bound, unknowns_bound

__all__ = ["Cost", "Machine", "exact_cost", "measure_machine", "sculpt_cost"]

SIDE = 768  # of the matrices whose product is timed
#: Small calls of a fit, and its passes over the rows by (m d)^2: with plenty of equations, and
#: where penalties are annealed because there are few.
CALLS, PASSES = 2.5e5, 70.0
FEW_CALLS, FEW_PASSES = 1.5e6, 1000.0
#: Six phases: small calls' time for each row and pass; products of the programs, in d^6; seconds of
#: the search in small calls.
ROW_CALLS, PROGRAM_FLOPS, SEARCH_CALLS = 12.0, 1.4e4, 7e5
BASE_BYTES = 110 * 2**20  # the program itself, with its libraries
COPIES = 6  # of the matrix of slab normals, in the solvers


@dataclass(frozen=True)
class Machine:
    """How fast products and calls are."""

    flops: float  #: multiplications and additions per second, in a large float32 product
    call: float  #: seconds of a small numpy call


@dataclass(frozen=True)
class Cost:
    """What a run is expected to take."""

    seconds: float
    memory: int  #: bytes


@lru_cache(maxsize=1)
def measure_machine() -> Machine:
    """Time a product and small calls; the best of a few tries counts, once for a process.

    >>> machine = measure_machine()
    >>> machine.flops > 1e7 and 1e-8 < machine.call < 1e-2
    True
    """
    A = np.ones((SIDE, SIDE), dtype=np.float32)
    small = np.ones(16)

    def calls() -> None:
        for _ in range(500):
            np.add(small, small)

    product, call = _best(lambda: A @ A), _best(calls) / 500
    return Machine(flops=2.0 * SIDE**3 / product, call=call)


def _best(work: Callable[[], object], tries: int = 5) -> float:
    taken = []
    for _ in range(tries):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return max(min(taken), 1e-9)


def exact_cost(
    heads: int,
    dim: int,
    seq_len: int,
    out_dim: int,
    fitted: int,
    examples: int,
    machine: Machine,
    config: ExactConfig | None = None,
) -> Cost:
    """Of the exact learner, given the heads: ``fitted`` of all ``examples`` are under fit.

    >>> machine = Machine(flops=4e10, call=1e-6)
    >>> cost = exact_cost(4, 16, 8, 16, 64, 304, machine)
    >>> 0.02 < cost.seconds < 1.0, cost.memory > 2**20
    (True, True)
    """
    config = ExactConfig() if config is None else config
    m, d, k = heads, dim, seq_len
    bound = unknowns_bound(m, d, k, out_dim)
    used = min(fitted, math.ceil(config.examples_per_bound * bound))
    plenty = used >= config.plenty * max(bound, pattern_bound(m, d, k, out_dim))
    calls, passes = (CALLS, PASSES) if plenty else (FEW_CALLS, FEW_PASSES)
    seconds = calls * machine.call + passes * 2.0 * used * k * (m * d) ** 2 / machine.flops
    features = 8 * used * k * m * (3 * k + 3 * d + 2 * out_dim)
    return Cost(seconds, BASE_BYTES + _data_bytes(examples, k, d, out_dim) + features)


def sculpt_cost(
    heads: int,
    dim: int,
    seq_len: int,
    out_dim: int,
    examples: int,
    machine: Machine,
    config: SculptConfig | None = None,
) -> Cost:
    """Of the six phases and the polish on ``examples``.

    >>> machine = Machine(flops=4e10, call=1e-6)
    >>> 1.0 < sculpt_cost(2, 16, 4, 16, 60_000, machine).seconds < 60.0
    True
    """
    config = SculptConfig() if config is None else config
    passes = 3  # carving, carving again, and a pass for the rest
    seconds = passes * ROW_CALLS * machine.call * examples * seq_len
    seconds += PROGRAM_FLOPS * dim**6 / (machine.flops / 2.0)  # these are in double precision
    seconds += SEARCH_CALLS * machine.call * (heads > 1)
    slabs = int(config.slabs_per_unknown * dim**2) * dim**2 * 8 * COPIES
    return Cost(seconds, BASE_BYTES + _data_bytes(examples, seq_len, dim, out_dim) + slabs)


def _data_bytes(examples: int, k: int, d: int, out_dim: int) -> int:
    return 8 * examples * k * (d + out_dim)
