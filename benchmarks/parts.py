"""A benchmark in parts, each of which can be measured anew while the others stay.

A part is a module with TITLE, MEASURED_BY, ``measure(store, quick)`` and ``page(content)``. Results
are kept run by run in results/scratch, so that a run that was stopped goes on; a change of the
sources starts over. A part that takes an hour may have ANY_BUILD: then results stay beside the
figures until --fresh, and the page names the builds that they are of. Each part has its own figures
in a JSON file, and all of them make one page.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.store import Store, add_workers

__all__ = ["Parts"]

RESULTS = Path(__file__).parent / "results"
SCRATCH = RESULTS / "scratch"


@dataclass(frozen=True)
class Parts:
    """The parts of ``python -m benchmarks.NAME``, and the title of their page."""

    name: str
    title: str
    about: str
    modules: dict[str, ModuleType]

    def main(self, arguments: Sequence[str] | None = None) -> int:
        options = self._parse(arguments)
        out: Path = options.out
        out.parent.mkdir(parents=True, exist_ok=True)
        content: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
        for name in options.parts:
            part, began = self.modules[name], time.perf_counter()
            kept = getattr(part, "ANY_BUILD", False)
            path = (out.parent if kept else options.scratch) / f"{self.name}-{name}.jsonl"
            store = Store(
                path,
                part.MEASURED_BY,
                fresh=options.fresh,
                any_build=kept,
                workers=options.workers,
            )
            threads = os.environ.get("OMP_NUM_THREADS", "as many as cores")
            figures = part.measure(store, options.quick)
            content[name] = figures | {"build": store.builds, "threads": threads}
            print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
        text = self.page(content)
        print(text)
        out.with_suffix(".md").write_text(text)
        out.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")
        return 0

    def page(self, content: dict[str, Any]) -> str:
        """All parts that there are figures of."""
        pages = [f"# {self.title}"]
        for name, part in self.modules.items():
            if name in content:
                build, threads = content[name]["build"], content[name]["threads"]
                told = f"`python -m benchmarks.{self.name} {name}`; build {build}; "
                told += f"{os.cpu_count()} cores, threads for linear algebra: {threads}."
                pages.append(f"## {part.TITLE}\n\n{part.page(content[name])}\n\n{told}")
        return "\n\n".join(pages) + "\n"

    def _parse(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        names = ", ".join(self.modules)
        parser = argparse.ArgumentParser(f"benchmarks.{self.name}", description=self.about)
        parser.add_argument("parts", nargs="*", help=f"of {names} (default: all)")
        parser.add_argument("--quick", action="store_true", help="a little of everything")
        parser.add_argument("--out", type=Path, help="JSON file; the page goes beside it as .md")
        parser.add_argument("--scratch", type=Path, default=SCRATCH, help="where runs are kept")
        parser.add_argument("--fresh", action="store_true", help="forget results of earlier runs")
        add_workers(parser)
        options = parser.parse_args(arguments)
        if not set(options.parts) <= set(self.modules):
            parser.error(f"parts are {' '.join(options.parts)}; expected some of {names}")
        options.parts = options.parts or list(self.modules)
        # What is quick goes where nobody takes it for the kept figures.
        folder = options.scratch if options.quick else RESULTS
        options.out = options.out or folder / f"{self.name}.json"
        return options
