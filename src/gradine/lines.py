"""Records one by one in a file of JSON lines, so that a run that is stopped loses none of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from gradine.files import OutputError, check_regular, parse_json

__all__ = ["JsonLines"]

LONGEST_LINE = 16 * 2**20


class JsonLines:
    """A file with one JSON object a line, which need not be there yet.

    A line is written in one piece and at once. What was being written when a run was stopped is a
    torn line: reading passes over it, and writing begins a new one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lines = JsonLines(Path(folder, "trials.jsonl"))
    ...     _ = lines.append({"seed": 0})
    ...     _ = lines.append({"seed": (1, 2)})
    ...     print(lines.read())
    [{'seed': 0}, {'seed': [1, 2]}]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path)

    def read(self) -> list[dict[str, Any]]:
        """All records that are whole, in the order they were written."""
        if not self.path.exists():
            return []
        check_regular(self.path)
        records = []
        with self.path.open("rb") as file:
            # A line that is longer than any of ours is read in parts, which are no JSON.
            while line := file.readline(LONGEST_LINE):
                try:
                    record = parse_json(line)
                except ValueError:
                    continue
                if isinstance(record, dict):
                    records.append(record)
        return records

    def append(self, record: dict[str, Any]) -> dict[str, Any]:
        """Write one more record, and give it back as it will be read.

        NaN and infinity are written as Python does, and read back.
        """
        line = json.dumps(record) + "\n"
        try:
            with open(self.path, "a+b", opener=_of_its_own) as file:
                if self._torn(file):
                    line = "\n" + line
                file.write(line.encode("utf-8"))
        except OSError as error:
            raise OutputError(f"cannot write {self.path}: {error.strerror or error}") from error
        return json.loads(line)

    @staticmethod
    def _torn(file: Any) -> bool:
        """Whether the file ends in the middle of a line."""
        if not file.seek(0, os.SEEK_END):
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def _of_its_own(path: str, flags: int) -> int:
    """Open what is there itself, and not what a link leads to: that is not ours to change."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)
