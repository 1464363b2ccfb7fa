"""Processes that are struck at random moments: what the benchmarks of faults and kills share."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["Forked", "interrupted", "killed", "struck"]

LOOK = 0.02  # seconds between two looks at a process


def struck(
    process: Any,
    strike: Callable[[Any], bool],
    wait: float,
    begun: Callable[[], bool] = lambda: True,
) -> bool:
    """Strike so many seconds after a process has begun; whether it was there to be struck."""
    done = False
    while process.poll() is None and not done:
        if begun():
            time.sleep(wait)
            done = strike(process)
        time.sleep(LOOK)
    return done


def killed(process: Any) -> bool:
    """Kill -9; whether it was that which ended the process."""
    process.kill()
    return process.wait() == -signal.SIGKILL


def interrupted(process: Any) -> bool:
    """Ctrl-C; whether there was a process to hear of it."""
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGINT)
        return True
    return False


class Forked:
    """A function in a process of its own, which begins with all that is loaded here; it has as much
    of `subprocess.Popen` as is needed here. What it says goes to ``log``."""

    def __init__(self, work: Callable[[], int], log: Path) -> None:
        self._code: int | None = None
        # What comes before the work has begun is not for it to answer.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        self.pid = os.fork()
        if self.pid == 0:
            self._run(work, log)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def _run(self, work: Callable[[], int], log: Path) -> None:
        code = 1
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(said, 1)
            os.dup2(said, 2)
            code = work()
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def poll(self) -> int | None:
        return self._ended(os.WNOHANG)

    def wait(self) -> int:
        code = self._ended(0)
        assert code is not None
        return code

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def _ended(self, how: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, how)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code
