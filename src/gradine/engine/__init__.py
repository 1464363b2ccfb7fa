"""Who runs the work: the one seam for passes over the data, and for independent pieces of work."""

from gradine.engine.bookmark import BOOKMARK_PATTERN, BOOKMARKS, Bookmark, Bookmarks
from gradine.engine.choice import ENGINES, open_engine
from gradine.engine.cluster import LostSchedulerError
from gradine.engine.crew import LostWorkerError
from gradine.engine.pool import Pool
from gradine.engine.reduction import reduce_blocks
from gradine.engine.serial import (
    BlockSource,
    Engine,
    FailedBlockError,
    check_engine,
    run_all,
    time_is_up,
)
from gradine.engine.threads import one_thread, usable_cores

__all__ = [
    "BOOKMARKS",
    "BOOKMARK_PATTERN",
    "ENGINES",
    "BlockSource",
    "Bookmark",
    "Bookmarks",
    "Engine",
    "FailedBlockError",
    "LostSchedulerError",
    "LostWorkerError",
    "Pool",
    "check_engine",
    "one_thread",
    "open_engine",
    "reduce_blocks",
    "run_all",
    "time_is_up",
    "usable_cores",
]
