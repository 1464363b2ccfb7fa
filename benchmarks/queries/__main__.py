"""What learning by queries reaches and what it costs: `python -m benchmarks.queries [part ...]`.

Results are kept run by run in results/scratch, so that a run that was stopped goes on; a change of
the sources starts over. Each part has its own figures in results/queries.json, and all of them
make the page results/queries.md: a part that is measured anew leaves those of the others.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.queries import defences, design, minilm, planted
from benchmarks.store import Store

__all__ = ["PARTS", "main"]

RESULTS = Path(__file__).parent.parent / "results"
SCRATCH = RESULTS / "scratch"

#: A part is a module with TITLE, MEASURED_BY, ``measure(store, quick)`` and ``page(content)``.
PARTS: dict[str, ModuleType] = {
    "planted": planted,
    "minilm": minilm,
    "design": design,
    "defences": defences,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    out: Path = options.out
    out.parent.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    for name in options.parts:
        part, began = PARTS[name], time.perf_counter()
        store = Store(
            options.scratch / f"queries-{name}.jsonl", part.MEASURED_BY, fresh=options.fresh
        )
        threads = os.environ.get("OMP_NUM_THREADS", "as many as cores")
        figures = part.measure(store, options.quick)
        content[name] = figures | {"build": store.build, "threads": threads}
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    text = page(content)
    print(text)
    out.with_suffix(".md").write_text(text)
    out.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")
    return 0


def page(content: dict[str, Any]) -> str:
    """All parts that there are figures of."""
    pages = ["# Learning by queries, measured"]
    for name, part in PARTS.items():
        if name in content:
            build, threads = content[name]["build"], content[name]["threads"]
            told = f"`python -m benchmarks.queries {name}`; build {build}; {os.cpu_count()} cores, "
            told += f"threads for linear algebra: {threads}."
            pages.append(f"## {part.TITLE}\n\n{part.page(content[name])}\n\n{told}")
    return "\n\n".join(pages) + "\n"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("benchmarks.queries", description=(__doc__ or "").strip())
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="a little of everything")
    parser.add_argument("--out", type=Path, help="JSON file; the page goes beside it as .md")
    parser.add_argument("--scratch", type=Path, default=SCRATCH, help="where runs are kept")
    parser.add_argument("--fresh", action="store_true", help="forget results of earlier runs")
    options = parser.parse_args(arguments)
    if not set(options.parts) <= set(PARTS):
        parser.error(f"parts are {' '.join(options.parts)}; expected some of {', '.join(PARTS)}")
    options.parts = options.parts or list(PARTS)
    # What is quick goes where nobody takes it for the kept figures.
    options.out = options.out or (options.scratch if options.quick else RESULTS) / "queries.json"
    return options


if __name__ == "__main__":
    sys.exit(main())
