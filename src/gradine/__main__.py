"""`gradine` and `python -m gradine`: the command line, which can be stopped at any moment."""

import os
import signal
import sys
from typing import Any

__all__ = ["main"]


def main() -> int:
    """Run one command; Ctrl-C while modules load, or while the process ends, is no traceback."""
    # Nothing is at stake yet, or any more; and an exception within an import leads anywhere.
    signal.signal(signal.SIGINT, _leave)
    from gradine.cli import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return run()
    finally:
        signal.signal(signal.SIGINT, _leave)
        sys.stdout.flush()


def _leave(*_: Any) -> None:
    os.write(2, b"gradine: stopped\n")
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
