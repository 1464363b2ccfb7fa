"""Who runs the work: the one seam for passes over the data, and for independent pieces of work."""

from gradine.engine.pool import LostWorkerError, one_thread, run_all, usable_cores
from gradine.engine.serial import BlockSource, choose_block_size, free_memory, reduce_blocks

__all__ = [
    "BlockSource",
    "LostWorkerError",
    "choose_block_size",
    "free_memory",
    "one_thread",
    "reduce_blocks",
    "run_all",
    "usable_cores",
]
