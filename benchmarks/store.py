"""Results seed by seed in a JSON-lines file, so that a stopped run continues where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import gradine

__all__ = ["Store", "build_of"]

HERE = Path(__file__).parent
NOT_MEASURED = ("cli", "report")  # parts of the package that no result depends on


def build_of(measured_by: Iterable[str]) -> str:
    """The version and a digest of the sources that results depend on: others are stale.

    ``measured_by`` are the files of the benchmark that measure, named from its folder.
    """
    package = Path(gradine.__file__).parent
    learner = [
        path
        for path in sorted(package.rglob("*.py"))
        if path.relative_to(package).parts[0] not in NOT_MEASURED
    ]
    digest = hashlib.sha256()
    for path in [*learner, *(HERE / name for name in measured_by)]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{gradine.__version__}+{digest.hexdigest()[:12]}"


class Store:
    """Records by key (row, inputs, seed). The last record of a key counts.

    Those of another build are stale, unless ``any_build`` says that a table may take days: then
    they stand until they are measured again, and each says which build it is of.
    """

    def __init__(
        self,
        path: Path,
        measured_by: Iterable[str],
        *,
        fresh: bool = False,
        any_build: bool = False,
    ) -> None:
        self.path, self.build, self._any_build = path, build_of(measured_by), any_build
        self._records: dict[tuple[Any, ...], dict[str, Any]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if fresh:
            path.unlink(missing_ok=True)
        if path.exists():
            for line in path.read_text().splitlines():
                self._remember(line)

    def _remember(self, line: str) -> None:
        try:
            record = json.loads(line)
        except json.JSONDecodeError:  # the line that was being written when the run was stopped
            return
        if self._any_build or record.get("build") == self.build:
            self._records[tuple(record["key"])] = record

    def get(self, *key: Any) -> dict[str, Any] | None:
        return self._records.get(key)

    def once(
        self, work: Callable[[], dict[str, Any]], *key: Any, needs: Iterable[str] = ()
    ) -> dict[str, Any]:
        """The record of ``key``; ``work`` is done where there is none that has what it needs."""
        record = self.get(*key)
        if record is None or not set(needs) <= set(record):
            record = self.put(work(), *key)
        return record

    def put(self, record: dict[str, Any], *key: Any) -> dict[str, Any]:
        line = json.dumps({"build": self.build, "key": key, **record})
        # A stopped run may have left half a line; this one must not be glued to it.
        torn = self.path.exists() and not (self.path.read_bytes() or b"\n").endswith(b"\n")
        with self.path.open("a") as file:
            file.write(("\n" if torn else "") + line + "\n")
        self._remember(line)
        return self._records[key]
