"""What goes where: JSON and summaries to standard output, everything else to standard error."""

from __future__ import annotations

import json
import re
from pathlib import PurePath
from typing import Any

from gradine.files import OutputError, finite
from gradine.progress import tell

__all__ = [
    "BAD_INPUT",
    "DEFECT",
    "NOT_LEARNED",
    "STOPPED",
    "Ending",
    "one_line",
    "print_json",
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
    elif isinstance(error, OSError) and not isinstance(error, OutputError) and error.filename:
        text = f"{error.filename}: {error.strerror or error}"
    else:
        text = str(error) or type(error).__name__
    return " ".join(line.strip() for line in text.splitlines() if line.strip())


#: Which command writes a file that is missing, by the ending of its name.
WRITTEN_BY = {
    ".npz": "gradine sample writes examples",
    ".zarr": "gradine sample writes examples",
    ".safetensors": "gradine plant and gradine extract write layers",
}

#: How file systems behind addresses say which packages they lack.
NEEDED = re.compile(r"Install (\S+) to access|requires (.+) to be installed")
NAME = r"(?!and\b)\b[\w-]+"
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
    elif NO_NPZ in line:
        step = "expected X and Y by numpy.savez, or a folder with X.npy and Y.npy"
    elif isinstance(error, FileNotFoundError):
        name = PurePath(line.partition(": ")[0])
        step = WRITTEN_BY.get(name.suffix, "check the path")
    elif isinstance(error, OutputError):
        step = "choose another --out"
    elif isinstance(error, MemoryError):
        step = "give fewer examples, or bound what blocks may take with --memory where there is one"
    return f"{line.rstrip('.')}; {step}"
