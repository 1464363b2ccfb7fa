"""How much of the benchmark is run, and where its records are kept."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.store import Store

__all__ = ["Scope", "tell"]


@dataclass(frozen=True)
class Scope:
    """What the command line asked for."""

    scratch: Path
    quick: bool = False
    rows: tuple[int, ...] | None = None  #: of the table, counted from 1; None: all
    seeds: int | None = None  #: at most so many of everything that is repeated
    peers: bool = True
    fresh: bool = False
    workers: int = 1  #: trials side by side, where none is timed

    def store(self, part: str, measured_by: Sequence[str]) -> Store:
        path = self.scratch / f"exact-{part}.jsonl"
        return Store(path, measured_by, fresh=self.fresh, workers=self.workers)

    def repeats(self, full: int, quick: int) -> int:
        """How often something is repeated that a whole run repeats ``full`` times."""
        wanted = quick if self.quick else full
        return wanted if self.seeds is None else min(wanted, self.seeds)


def tell(where: str, record: dict[str, Any]) -> None:
    """A line for whoever waits; standard output is for the tables."""
    found = record.get("ours", record)
    said = [f"{where}: {found.get('status', '')}"]
    if found.get("theta_error") is not None:
        said.append(f"theta_error {found['theta_error']:.1e}")
    said.append(f"{found['seconds']:.2f} s")
    for name, rival in record.get("rivals", {}).items():
        if isinstance(rival, dict):
            time = f"{rival['seconds']:.2f} s" if rival["solved"] else f"loss {rival['loss']:.0e}"
            said.append(f"{name} {time}")
    print(", ".join(said), file=sys.stderr, flush=True)
