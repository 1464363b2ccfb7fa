"""How long a start takes: `import gradine` beside scikit-learn, `gradine --help` beside typer.

    python -m benchmarks.startup

Each figure is the median over fresh processes, which take turns, so that a busy machine slows all
of them alike. The interpreter's own start is measured, too: an import is what comes on top of it.
Processor time is the one that is compared; the time by the clock stands beside it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.text import markdown
from gradine.files import write_json

__all__ = ["STARTS", "main", "measure", "table"]

RESULTS = Path(__file__).parent / "results" / "startup.json"
BARE = """
import typer
app = typer.Typer()
@app.command()
def greet(name: str = typer.Option("you", help="Whom.")) -> None:
    "Say hello."
@app.command()
def part() -> None:
    "Say goodbye."
app(["--help"])
"""
#: What is run; the first one is what every start has in common.
STARTS = {
    "python": ["-c", "pass"],
    "import gradine": ["-c", "import gradine"],
    "from gradine import learn": ["-c", "from gradine import learn"],
    "import numpy": ["-c", "import numpy"],
    "import sklearn": ["-c", "import sklearn"],
    "gradine --help": ["-m", "gradine", "--help"],
    "bare typer --help": ["-c", BARE],
}
#: The aims: one start, another, and how many times as long the first may take.
AIMS = (
    ("import gradine", "import sklearn", 0.3),
    ("gradine --help", "bare typer --help", 2.0),
)


def measure(repeats: int) -> dict[str, dict[str, float]]:
    """Medians of seconds: of the processor (``cpu``) and by the clock (``wall``)."""
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in STARTS}
    for turn in range(repeats + 1):
        for name, arguments in STARTS.items():
            taken = _start(arguments)
            if turn:  # the first turn only fills the caches of the disk
                seen[name].append(taken)
    return {
        name: {"cpu": statistics.median(cpu), "wall": statistics.median(wall)}
        for name, times in seen.items()
        for cpu, wall in [tuple(zip(*times, strict=True))]
    }


def _start(arguments: Sequence[str]) -> tuple[float, float]:
    before, began = os.times(), time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    after, wall = os.times(), time.perf_counter() - began
    used = after.children_user + after.children_system
    return used - before.children_user - before.children_system, wall


def ratio(found: dict[str, dict[str, float]], name: str, peer: str, clock: str) -> float:
    """Imports without the interpreter's own start, which no import can change."""
    own = found["python"][clock] if name.startswith("import") else 0.0
    return max(0.0, found[name][clock] - own) / max(found[peer][clock] - own, 1e-9)


def table(found: dict[str, dict[str, float]]) -> str:
    starts = [
        (name, f"{1e3 * times['cpu']:.0f}", f"{1e3 * times['wall']:.0f}")
        for name, times in found.items()
    ]
    ratios = [
        (
            f"{name} / {peer}",
            f"{ratio(found, name, peer, 'cpu'):.2f}",
            f"{ratio(found, name, peer, 'wall'):.2f}",
            f"{aim:g}",
            "yes" if ratio(found, name, peer, "cpu") <= aim else "no",
        )
        for name, peer, aim in AIMS
    ]
    return "\n\n".join(
        [
            markdown(("start", "processor, ms", "clock, ms"), starts),
            markdown(("ratio", "processor", "clock", "aim, at most", "holds"), ratios),
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15, help="fresh processes for each figure")
    parser.add_argument("--quick", action="store_true", help="two repeats; nothing is kept")
    options = parser.parse_args(arguments)
    found = measure(2 if options.quick else options.repeats)
    print(table(found))
    if not options.quick:
        write_json(RESULTS, {"repeats": options.repeats, "seconds": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
