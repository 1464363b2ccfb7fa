"""`gradine` and `python -m gradine`: the command line, which can be stopped at any moment."""

import io
import os
import signal
import sys
import warnings
from typing import Any

__all__ = ["main"]

#: How batch systems, containers and terminals end a command.
ENDINGS = (signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    """Run one command; Ctrl-C while modules load, or while the process ends, is no traceback."""
    _open_standard_streams()
    if not sys.warnoptions:  # nobody asked: numbers that overflow are told of in the answer's terms
        sys.warnoptions.append("ignore::RuntimeWarning")  # worker processes get these, too
        warnings.simplefilter("ignore", RuntimeWarning)
    os.environ["MPLBACKEND"] = "agg"  # pictures go to files, whatever a shell is set up for
    # Nothing is at stake yet, or any more; and an exception within an import leads anywhere.
    signal.signal(signal.SIGINT, _leave)
    from gradine.cli import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    for ending in ENDINGS:  # as Ctrl-C, unless whoever started us wants it ignored, as nohup does
        if signal.getsignal(ending) == signal.SIG_DFL:
            signal.signal(ending, signal.default_int_handler)
    try:
        code = run()
    finally:
        signal.signal(signal.SIGINT, _leave)
    return _with_all_printed(code)


def _with_all_printed(code: int) -> int:
    """The exit code, once standard output has all of it; a disk may be full behind it, too."""
    from gradine.cli.console import BAD_INPUT, PRINT_ELSEWHERE, tell_error

    try:
        sys.stdout.flush()
    except OSError as error:
        # What is left goes nowhere: Python would try again at the end, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if code != BAD_INPUT:  # which may have been this
            tell_error(f"cannot write standard output: {error.strerror}; {PRINT_ELSEWHERE}")
        return code or BAD_INPUT
    return code


def _open_standard_streams() -> None:
    """What was closed is open on nothing: no file may get the number of a stream we print to."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest free number
    sys.stdin = sys.stdin or io.TextIOWrapper(io.FileIO(0, closefd=False))
    sys.stdout = sys.stdout or io.TextIOWrapper(io.FileIO(1, "w", closefd=False))
    sys.stderr = sys.stderr or io.TextIOWrapper(io.FileIO(2, "w", closefd=False))


def _leave(*_: Any) -> None:
    os.write(2, b"gradine: stopped\n")
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
