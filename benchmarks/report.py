"""How large a report is, and how soon one can use it: `python -m benchmarks.report`.

Reports of planted layers, as if they had been learned, are opened in a chromium browser. Loading
ends when the page has run its script and shows attention on its example; typing is a new sequence
in the editor, up to the patterns that it gives. The largest difference between these and what
Python computes stands beside.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import gradine
from benchmarks.text import markdown
from gradine.report import write_report
from scripts.chromium import Chromium, Page, found, opened

__all__ = ["SETTINGS", "Setting", "main", "measure"]

HEADER = (
    "heads, dim, rank",
    "truth",
    "tokens",
    "size, MB",
    "writing, s",
    "loading, s",
    "typing, s",
    "difference to Python",
)


@dataclass(frozen=True)
class Setting:
    """A report: of which layer, and beside its truth or not."""

    heads: int
    dim: int
    rank: int | None
    truth: bool
    tokens: int = 8


QUICK = (Setting(2, 10, None, True, 3),)
SETTINGS = (
    *QUICK,
    Setting(16, 64, None, True),
    Setting(12, 384, 32, True, 12),
    Setting(12, 384, None, False, 12),
)


def a_run() -> gradine.Fit:
    """A small run that was learned, to put another answer into."""
    truth = gradine.plant(1, 4, scale=2.0, seed=1)
    X = gradine.sample_inputs(1500, 3, 4, seed=2)
    return gradine.learn(X, truth(X), heads=1)


def measure(setting: Setting, fit: gradine.Fit, browser: Chromium, folder: Path) -> list[str]:
    """One row of the table."""
    layer = gradine.plant(setting.heads, setting.dim, 3.0, rank=setting.rank, seed=1).canonical()
    survey = replace(fit.survey, x_mean=np.zeros(setting.dim), y_mean=np.zeros(setting.dim))
    answer = {"candidate": layer, "layer": layer, "heads": setting.heads, "survey": survey}
    X = gradine.sample_inputs(2, setting.tokens, setting.dim, seed=3)
    path = folder / "report.html"
    began = time.perf_counter()
    write_report(path, replace(fit, **answer), truth=layer if setting.truth else None, example=X[0])
    writing = time.perf_counter() - began
    page = browser.page(path)
    typing, weights = _typed(page, X[1])
    expected = layer.attention(X[1])
    difference = np.abs(weights[:: 2 if setting.truth else 1] - expected).max()
    if heard := page.complaints():
        sys.exit(f"report: the browser complains: {heard[0]}")
    page.close()
    return [
        f"{setting.heads}, {setting.dim}, {setting.rank or 'full'}",
        "yes" if setting.truth else "no",
        str(setting.tokens),
        f"{path.stat().st_size / 1e6:.2f}",
        f"{writing:.1f}",
        f"{page.seconds:.1f}",
        f"{typing:.2f}",
        f"{difference:.0e}",
    ]


def _typed(page: Page, X: np.ndarray) -> tuple[float, np.ndarray]:
    """Seconds from typing tokens to their patterns, and the weights that they show."""
    page.run("document.getElementById('tokens-text').select()")
    text = "\n".join(" ".join(f"{x:g}" for x in row) for row in X)
    began = time.perf_counter()
    page.send("Input.insertText", text=text)
    cells = page.run(
        "[...document.querySelectorAll('#patterns tbody td')]"
        ".map(cell => +cell.title.split(': ')[1])"
    )
    return time.perf_counter() - began, np.array(cells).reshape(-1, len(X), len(X))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="the smallest report alone")
    settings = QUICK if parser.parse_args(arguments).quick else SETTINGS
    program = found()
    if program is None:
        sys.exit("report: no chromium browser found")
    fit = a_run()
    with tempfile.TemporaryDirectory() as folder, opened(program) as browser:
        rows = [measure(setting, fit, browser, Path(folder)) for setting in settings]
    print(markdown(HEADER, rows))


if __name__ == "__main__":
    main()
