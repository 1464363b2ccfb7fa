"""`python -m benchmarks.walls [heads] [parity] [hidden] [speedup]`: the figures of docs/map.md.

Trials are kept one by one in results/scratch, so that a run that was stopped goes on; a change of
the sources starts over.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.store import Store, add_workers
from benchmarks.walls import heads, hidden, parity, speedup

__all__ = ["main"]

RESULTS = Path(__file__).parent.parent / "results"
IMAGES = Path(__file__).parent.parent.parent / "docs" / "images"
FILES = ("needed", "heads", "parity", "hidden")
MEASURED_BY = tuple(f"walls/{name}.py" for name in FILES)
DRAWN = {"heads": heads, "parity": parity}
TITLES = {
    "heads": "Examples against heads",
    "parity": "Parities",
    "hidden": "Parity layers",
    "speedup": "Speedup",
}
PARTS = (*DRAWN, "hidden", "speedup")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.walls", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(PARTS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="the first points, no picture kept")
    parser.add_argument("--fresh", action="store_true", help="forget earlier trials")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of walls-PART.md")
    parser.add_argument("--images", type=Path, default=IMAGES, help="folder of walls-PART.png")
    add_workers(parser)
    options = parser.parse_args(arguments)
    parts = options.parts or list(PARTS)
    for name in parts:
        if name not in PARTS:
            parser.error(f"part is {name!r}; expected one of {', '.join(PARTS)}")
    path = options.out / "scratch" / "walls.jsonl"
    store = Store(path, MEASURED_BY, fresh=options.fresh, workers=options.workers)
    missed = False
    for name in parts:
        if name == "speedup":
            text = speedup.page(speedup.measure(options.quick))
        elif name == "hidden":
            text = hidden.page(hidden.measure(store, options.quick))
        else:
            found = DRAWN[name].measure(store, options.quick)
            text = DRAWN[name].page(found)
            with tempfile.TemporaryDirectory() as folder:
                DRAWN[name].draw(found, Path(folder, f"walls-{name}"))
                if not options.quick:
                    options.images.mkdir(parents=True, exist_ok=True)
                    shutil.copy(Path(folder, f"walls-{name}.png"), options.images)
        text = f"# {TITLES[name]}\n\n{text}"
        print(text)
        missed = missed or ("MISSED" in text and not options.quick)
        if not options.quick:
            (options.out / f"walls-{name}.md").write_text(text + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
