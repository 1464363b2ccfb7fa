"""Who runs the blocks: the one seam through which a pass over the data goes."""

from gradine.engine.serial import BlockSource, choose_block_size, free_memory, reduce_blocks

__all__ = ["BlockSource", "choose_block_size", "free_memory", "reduce_blocks"]
