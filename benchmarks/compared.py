"""Gradine beside scikit-learn, POT and TransformerLens: what an installation takes.

    python -m benchmarks.compared

Each is installed into an environment of its own: seconds, packages, megabytes on the disk, and the
processor time of its import. TransformerLens brings PyTorch along: unless --all is given, pip only
resolves what it would install, and packages are counted. Results of earlier runs are kept.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.text import markdown
from gradine.files import write_json

__all__ = ["PEERS", "Installation", "main", "table"]

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results" / "compared.json"
#: What pip is asked for, and what is imported then.
PEERS = {
    "gradine": (str(ROOT), "gradine"),
    "scikit-learn": ("scikit-learn", "sklearn"),
    "POT": ("POT", "ot"),
    "TransformerLens": ("transformer-lens", "transformer_lens"),
}
HEAVY = {"TransformerLens"}
OWN = ("pip", "setuptools", "_distutils_hack", "pkg_resources", "distutils")  # of the environment
IMPORT = "import time; import {0}; print(time.process_time())"


@dataclass(frozen=True)
class Installation:
    """What it took; None where it was only resolved."""

    name: str
    packages: int
    seconds: float | None = None
    megabytes: float | None = None
    import_seconds: float | None = None  #: of the processor, the interpreter's start included


def install(name: str) -> Installation:
    requirement, module = PEERS[name]
    with tempfile.TemporaryDirectory(prefix="gradine-compared-") as folder:
        _run(sys.executable, "-m", "venv", folder)
        python = Path(folder) / "bin" / "python"
        began = time.perf_counter()
        _pip(python, "install", "--quiet", requirement)
        seconds = time.perf_counter() - began
        _run(python, "-c", f"import {module}")  # the first import also compiles
        took = float(_run(python, "-c", IMPORT.format(module)))
        listed = json.loads(_pip(python, "list", "--format", "json"))
        (packages,) = (Path(folder) / "lib").glob("python*/site-packages")
        parts = [part for part in packages.iterdir() if not part.name.startswith(OWN)]
        size = sum(f.stat().st_size for part in parts for f in (part, *part.rglob("*")))
        names = [item["name"] for item in listed if item["name"] not in OWN]
        return Installation(name, len(names), seconds, size / 1e6, took)


def resolve(name: str) -> Installation:
    """How many packages pip would install."""
    with tempfile.TemporaryDirectory(prefix="gradine-compared-") as folder:
        report, asked = Path(folder) / "report.json", PEERS[name][0]
        options = ("--dry-run", "--quiet", "--ignore-installed", "--report", report)
        _pip(sys.executable, "install", *options, asked)
        found = json.loads(report.read_text(encoding="utf-8"))
        return Installation(name, len(found["install"]))


def _pip(python: object, *arguments: object) -> str:
    return _run(python, "-m", "pip", "--disable-pip-version-check", *arguments)


def _run(*command: object) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}:\n{done.stderr[-2000:]}")
    return done.stdout


def table(found: Sequence[Installation]) -> str:
    def cell(value: float | None, form: str) -> str:
        return "not measured" if value is None else format(value, form)

    rows = [
        (
            item.name,
            str(item.packages),
            cell(item.megabytes, ",.0f"),
            cell(item.seconds, ".0f"),
            cell(item.import_seconds, ".2f"),
        )
        for item in found
    ]
    return markdown(("", "packages", "MB on disk", "pip, s", "import, s of a core"), rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--all", action="store_true", help="install TransformerLens, too")
    options = parser.parse_args(arguments)
    stored = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for name in options.only:
        found = resolve(name) if name in HEAVY and not options.all else install(name)
        stored[name] = asdict(found)
        write_json(RESULTS, stored)
    print(table([Installation(**stored[name]) for name in PEERS if name in stored]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
