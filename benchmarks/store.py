"""Results seed by seed in a JSON-lines file, so that a stopped run continues where it was."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from packaging.version import Version

import gradine
from gradine.engine import open_engine, run_all
from gradine.lines import JsonLines

__all__ = ["Store", "add_workers", "build_of"]

Work = Callable[[], dict[str, Any]]

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
    # Only the release: a development version counts commits, also those that change no source.
    return f"{Version(gradine.__version__).base_version}+{digest.hexdigest()[:12]}"


class Store:
    """Records by key (row, inputs, seed). The last record of a key counts.

    Those of another build are stale, unless ``any_build`` says that a table may take days: then
    they stand until they are measured again, and each says which build it is of. With ``workers``
    a sweep that says `ahead` what it will ask for is done by so many processes.
    """

    def __init__(
        self,
        path: Path,
        measured_by: Iterable[str],
        *,
        fresh: bool = False,
        any_build: bool = False,
        workers: int = 1,
    ) -> None:
        self._workers = workers
        self.path, self.build, self._any_build = path, build_of(measured_by), any_build
        self._records: dict[tuple[Any, ...], dict[str, Any]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if fresh:
            path.unlink(missing_ok=True)
        self._lines = JsonLines(path)
        for record in self._lines.read():
            self._remember(record)

    def _remember(self, record: dict[str, Any]) -> None:
        if self._any_build or record.get("build") == self.build:
            self._records[tuple(record["key"])] = record

    @property
    def builds(self) -> str:
        """Those that the records are of."""
        return ", ".join(sorted({record["build"] for record in self._records.values()}))

    def get(self, *key: Any) -> dict[str, Any] | None:
        return self._records.get(key)

    def ahead(self, works: Iterable[tuple[Work, tuple[Any, ...]]]) -> None:
        """Do side by side what the store does not have, of works and their keys.

        Each record is kept as it comes. With one worker nothing is done ahead: `once` does it.
        """
        if self._workers == 1:
            return
        missing = {key: work for work, key in works if self.get(*key) is None}
        keys = list(missing)
        with open_engine("pool", min(self._workers, max(1, len(keys)))) as engine:
            for place, record in run_all(_done, [missing[key] for key in keys], engine):
                self.put(record, *keys[place])

    def once(self, work: Work, *key: Any, needs: Iterable[str] = ()) -> dict[str, Any]:
        """The record of ``key``; ``work`` is done where there is none that has what it needs."""
        record = self.get(*key)
        if record is None or not set(needs) <= set(record):
            record = self.put(work(), *key)
        return record

    def put(self, record: dict[str, Any], *key: Any) -> dict[str, Any]:
        self._remember(self._lines.append({"build": self.build, "key": key, **record}))
        return self._records[key]


def _done(work: Work) -> dict[str, Any]:
    return work()


def add_workers(parser: argparse.ArgumentParser) -> None:
    """The option of a sweep whose trials may run side by side: none is timed against another."""
    parser.add_argument("--workers", type=int, default=1, help="trials side by side (default: 1)")
