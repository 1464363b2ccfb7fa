"""What goes where: JSON and summaries to standard output, everything else to standard error."""

from __future__ import annotations

import errno
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import PurePath
from typing import Any

from gradine.files import OutputError, finite
from gradine.progress import tell

__all__ = [
    "BAD_INPUT",
    "DEFECT",
    "NOT_LEARNED",
    "PRINT_ELSEWHERE",
    "STOPPED",
    "Ending",
    "one_line",
    "print_json",
    "prints_for_people",
    "stdout_is_full",
    "tell",
    "tell_error",
    "with_next_step",
]

DEFECT = 1  # of the program itself: nothing that a user did
BAD_INPUT = 2
NOT_LEARNED = 3
STOPPED = 130  # what shells report for a command ended by Ctrl-C


class Ending(Exception):  # noqa: N818 (not learning is an answer, not an error)
    """Ends a command with an exit code and one line on standard error."""

    def __init__(self, code: int, line: str) -> None:
        super().__init__(line)
        self.code = code
        self.line = line


def tell_error(line: str) -> None:
    tell(f"gradine: {line}")


def print_json(value: dict[str, Any]) -> None:
    """The one JSON object of a command."""
    print(json.dumps(finite(value), allow_nan=False))


@contextmanager
def prints_for_people() -> Iterator[None]:
    """What functions of users print meanwhile goes to standard error."""
    with redirect_stdout(sys.stderr):
        yield


def one_line(error: BaseException) -> str:
    """What an exception has to say, without its line breaks.

    >>> one_line(FileNotFoundError(2, "No such file or directory", "data.npz"))
    'data.npz: No such file or directory'
    """
    format_message = getattr(error, "format_message", None)  # names the option of a usage error
    if format_message is not None:
        text = format_message()
    elif isinstance(error, MemoryError):
        text = f"not enough memory: {error}" if str(error) else "not enough memory"
    elif stdout_is_full(error):
        text = f"cannot write standard output: {getattr(error, 'strerror', None)}"
    elif isinstance(error, OSError) and not isinstance(error, OutputError) and error.filename:
        text = f"{error.filename}: {error.strerror or error}"
    else:
        text = str(error) or type(error).__name__
    return " ".join(line.strip() for line in text.splitlines() if line.strip())


def stdout_is_full(error: BaseException) -> bool:
    """Whether standard output is what could not be written: all else that is has a name."""
    return (
        isinstance(error, OSError)
        and not isinstance(error, OutputError)
        and not error.filename
        and error.errno in FULL
    )


#: How systems say that there is no room for what is written.
FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}

#: Which command writes a file that is missing, by the ending of its name.
WRITTEN_BY = {
    ".npz": "gradine sample writes examples",
    ".zarr": "gradine sample writes examples",
    ".safetensors": "gradine plant and gradine extract write layers",
}

#: How file systems behind addresses say which packages they lack.
NEEDED = re.compile(r"Install (\S+) to access|requires (.+) to be installed")
NAME = r"(?!and\b)\b[\w-]+"
#: What makes a command small enough for memory.
SMALLER = {
    "gradine plant": "give fewer --heads, or a smaller --dim",
    "gradine sample": "give a smaller --seq-len, or a smaller layer",
    "gradine hard": "give a smaller --dim",
    "gradine learn": "bound what blocks may take with --memory, or give fewer examples",
    "gradine query": "give fewer --heads, or a smaller --dim",
    "gradine demo": "give smaller --heads, --dim, --seq-len or --examples",
    "gradine map": "give smaller heads, dim, seq_len or examples",
    "gradine features": "try --quick",
}
NO_FILE = ": not a file"  # how lines end about pipes, devices and folders
TOO_FEW = "is too few"
PRINT_ELSEWHERE = "make room, or send it elsewhere"
REPLACE = "replace the run with --overwrite, or choose another --out"
NO_NPZ = "not an .npz file"  # what the reader says of other files


def with_next_step(line: str, error: BaseException, command: str) -> str:
    """What is wrong; what to do about it. Lines that say the latter themselves stay as they are.

    >>> error = FileNotFoundError("data.npz: no such file")
    >>> with_next_step(one_line(error), error, "gradine learn")
    'data.npz: no such file; gradine sample writes examples'
    >>> with_next_step("heads is 0; expected at least 1", ValueError(), "gradine plant")
    'heads is 0; expected at least 1'
    >>> line = 's3://bucket/d.zarr: Install s3fs to access S3'
    >>> with_next_step(line, ValueError(), "gradine learn")
    's3://bucket/d.zarr: Install s3fs to access S3; pip install s3fs'
    """
    if "; " in line:
        return line
    step = f"see {command} --help"
    if line.endswith("?"):  # a name that is none, and what it may have meant
        wrong, _, guess = line.rpartition(". ")
        return f"{wrong}; {guess[:1].lower()}{guess[1:]} (see {command} --help)"
    if needed := NEEDED.search(line):
        step = f"pip install {' '.join(re.findall(NAME, needed[1] or needed[2]))}"
    elif NO_NPZ in line and _named(line).suffix == ".safetensors":
        step = "of a layer, gradine sample makes examples, and so does --oracle"
    elif NO_NPZ in line:
        step = "expected X and Y by numpy.savez, or a folder with X.npy and Y.npy"
    elif line.endswith(NO_FILE):
        step = "expected a plain file, and no folder, pipe or device"
    elif isinstance(error, FileNotFoundError):
        step = WRITTEN_BY.get(_named(line).suffix, "check the path")
    elif isinstance(error, OutputError):
        step = "choose another --out"
    elif stdout_is_full(error):
        step = PRINT_ELSEWHERE
    elif isinstance(error, MemoryError):
        step = SMALLER.get(command, "it takes a smaller layer, or a larger machine")
    elif command == "gradine learn":
        step = _step_of_learn(line, error) or step
    elif command == "gradine query" and _is_of_another_run(error):
        step = REPLACE
    return f"{line.rstrip('.')}; {step}"


def _step_of_learn(line: str, error: BaseException) -> str | None:
    from gradine.examples import BlockError  # here: it brings numpy

    if isinstance(error, BlockError):
        return "mend the data, or leave such blocks out with --skip-bad-blocks"
    if TOO_FEW in line:
        return "give more examples, or a larger --examples-budget if there is one"
    return REPLACE if _is_of_another_run(error) else None


def _is_of_another_run(error: BaseException) -> bool:
    """Or of this one, and damaged."""
    from gradine.records import RecordError  # here: it brings numpy

    return isinstance(error, RecordError)


def _named(line: str) -> PurePath:
    """The file that a line begins with."""
    return PurePath(line.partition(": ")[0])
