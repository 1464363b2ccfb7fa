"""The clock by which learners are compared: processor time of this process.

With one thread it is what wall time would be on a machine that does nothing else; on one that is
busy it does not count what others take. With several threads it counts each of them, for the
learner and for its peers alike.
"""

from __future__ import annotations

import time

__all__ = ["clock"]

clock = time.process_time
