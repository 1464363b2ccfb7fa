"""Results seed by seed in a JSON-lines file, so that a stopped run continues where it was."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import gradine

__all__ = ["Store", "build_of"]

HERE = Path(__file__).parent
MEASURED_BY = ("control.py", "instances.py", "peer.py", "trial.py")


def build_of() -> str:
    """The version and a digest of the sources that results depend on: others are stale."""
    package = Path(gradine.__file__).parent
    digest = hashlib.sha256()
    for path in [*sorted(package.rglob("*.py")), *(HERE / name for name in MEASURED_BY)]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{gradine.__version__}+{digest.hexdigest()[:12]}"


class Store:
    """Records by (row, inputs, seed), of this build alone. The last record of a key counts."""

    def __init__(self, path: Path, *, fresh: bool = False) -> None:
        self.path, self.build = path, build_of()
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
        if record.get("build") == self.build:
            self._records[tuple(record["key"])] = record

    def get(self, *key: Any) -> dict[str, Any] | None:
        return self._records.get(key)

    def put(self, record: dict[str, Any], *key: Any) -> dict[str, Any]:
        line = json.dumps({"build": self.build, "key": key, **record})
        # A stopped run may have left half a line; this one must not be glued to it.
        torn = self.path.exists() and not (self.path.read_bytes() or b"\n").endswith(b"\n")
        with self.path.open("a") as file:
            file.write(("\n" if torn else "") + line + "\n")
        self._remember(line)
        return self._records[key]
