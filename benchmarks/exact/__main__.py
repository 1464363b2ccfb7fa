"""What the exact learner reaches and what it costs: `python -m benchmarks.exact [part ...]`.

PyTorch students run on the same data right after the learner. Results are kept run by run in
results/scratch, so that a run that was stopped goes on, and parts that were run one by one are put
together by a run of the whole; a change of the sources starts over.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.exact import certificates, cost, count, curve, noise, table
from benchmarks.exact.instances import ROWS
from benchmarks.exact.race import warm_up
from benchmarks.exact.rivals import Rivals
from benchmarks.exact.scope import Scope
from benchmarks.store import add_workers

__all__ = ["PARTS", "main"]

RESULTS = Path(__file__).parent.parent / "results"
SCRATCH = RESULTS / "scratch"
PARTS = {
    "table": (table, "Success and time, side by side with the peers"),
    "curve": (curve, "Success against examples"),
    "count": (count, "Counting heads"),
    "noise": (noise, "Noise"),
    "certificates": (certificates, "Certificates"),
    "cost": (cost, "Cost"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    torch = importlib.util.find_spec("torch") is not None
    if not torch and not options.no_peer:
        print("torch is not installed: the peers are left out", file=sys.stderr)
    scope = Scope(
        SCRATCH,
        quick=options.quick,
        rows=options.rows,
        seeds=options.seeds,
        peers=torch and not options.no_peer,
        fresh=options.fresh,
        workers=options.workers,
    )
    warm_up(Rivals() if scope.peers else None)
    text, content = run(scope, options.parts, options.out)
    print(text)
    options.out.with_suffix(".md").write_text(text)
    options.out.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")
    return 0


def run(scope: Scope, parts: Sequence[str], out: Path) -> tuple[str, dict[str, Any]]:
    """Measure the parts; their pages in one text, and their figures."""
    out.parent.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = {}
    pages = ["# Learning exactly, measured"]
    for name in parts:
        module, title = PARTS[name]
        began = time.perf_counter()
        content[name] = module.measure(scope)
        spent = time.perf_counter() - began
        print(f"{name}: {spent:.0f} s", file=sys.stderr, flush=True)
        pages.append(f"## {title}\n\n{module.page(content[name])}")
        if name == "curve":
            picture = out.with_name(out.stem + "-curve.png")
            curve.draw(content[name], picture)
            pages.append(f"![success against examples]({picture.name})")
    pages.append(_conditions(content))
    return "\n\n".join(pages) + "\n", content


def _conditions(content: dict[str, Any]) -> str:
    threads = os.environ.get("OMP_NUM_THREADS", "as many as cores")
    builds = ", ".join(f"{name} {part['build']}" for name, part in content.items())
    load = max((row["load"] for row in content.get("table", {"rows": []})["rows"]), default=0.0)
    busy = f" The busiest row of the table ran at a load of {load:.1f}." if load else ""
    return (
        f"Builds: {builds}. {os.cpu_count()} cores; threads for linear algebra, ours and "
        f"PyTorch's: {threads}.{busy}"
    )


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("benchmarks.exact", description=(__doc__ or "").strip())
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="a little of everything")
    parser.add_argument("--seeds", type=int, help="at most so many of all that is repeated")
    parser.add_argument("--rows", help=f"rows of the table, such as 1,3 (of 1 to {len(ROWS)})")
    parser.add_argument("--out", type=Path, help="JSON file; the tables go beside it as .md")
    parser.add_argument("--no-peer", action="store_true", help="without the peers")
    parser.add_argument("--fresh", action="store_true", help="forget results of earlier runs")
    add_workers(parser)
    options = parser.parse_args(arguments)
    partial = [options.quick, options.seeds, options.rows, options.no_peer]
    if not set(options.parts) <= set(PARTS):
        parser.error(f"parts are {' '.join(options.parts)}; expected some of {', '.join(PARTS)}")
    part = bool(options.parts) or any(partial)
    options.parts = options.parts or list(PARTS)
    if options.rows is not None:
        numbers = options.rows.split(",")
        if not set(numbers) <= {str(number + 1) for number in range(len(ROWS))}:
            parser.error(f"--rows is {options.rows}; expected some of 1 to {len(ROWS)}")
        options.rows = tuple(int(number) for number in numbers)
    # The kept tables are those of a whole run; a part goes where nobody takes it for one.
    options.out = options.out or (SCRATCH if part else RESULTS) / "exact.json"
    return options


if __name__ == "__main__":
    sys.exit(main())
