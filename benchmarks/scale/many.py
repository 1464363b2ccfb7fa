"""Many generated rows in one run: memory of each worker over time, and what more rows bring."""

from __future__ import annotations

import statistics
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import gradine
from gradine.engine import Engine
from gradine.examples import Examples
from gradine.fit import LearnConfig
from gradine.learn import learn_examples
from gradine.report.draw import FOUND, OTHER, scientific, write_picture
from gradine.sculpt.config import SculptConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MemoryWatch", "draw", "growth", "screened"]

PAUSE = 1.0  # seconds between looks at memory
DRAWN = 100  # looks that are kept for the picture, about


class MemoryWatch:
    """Resident memory of this process and of its workers, as long as the body lasts."""

    def __init__(self) -> None:
        self.seen: dict[int, list[int]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        import psutil

        me = psutil.Process()
        while not self._stop.is_set():
            for process in [me, *me.children(recursive=True)]:
                try:
                    self.seen.setdefault(process.pid, []).append(process.memory_info().rss)
                except psutil.NoSuchProcess:
                    continue
            self._stop.wait(PAUSE)

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def growth(series: list[int]) -> float:
    """How much larger the median of the last tenth is than that of the first, as a share."""
    tenth = max(1, len(series) // 10)
    first, last = statistics.median(series[:tenth]), statistics.median(series[-tenth:])
    return last / first - 1.0


def _peaks(series: list[int], stretch: int) -> list[int]:
    """The largest of every so many looks."""
    return [max(series[at : at + stretch]) for at in range(0, len(series), stretch)]


def screened(
    examples: Examples, truth: gradine.AttentionLayer, engine: Engine, seed: int = 0
) -> dict[str, Any]:
    """The six phases on all examples: how tight the body is, how good the theorem's answer."""
    config = LearnConfig(sculpt=SculptConfig(shrinking=0.0))
    began = time.perf_counter()
    with MemoryWatch() as memory:
        fit = learn_examples(examples, truth.n_heads, "sculpt", seed, config=config, engine=engine)
    long = {pid: series for pid, series in memory.seen.items() if len(series) >= 10}
    thinned = max(1, max(map(len, long.values()), default=1) // DRAWN)
    carved = [result for name, result in fit.phases.items() if name.startswith("sculpt")]
    error = None
    if fit.theorem is not None:
        match = gradine.compare(fit.theorem, truth, seq_len=examples.seq_len)
        error = float(match.function_error)
    return {
        "examples": examples.n,
        "status": fit.status.code,
        "seconds": time.perf_counter() - began,
        "phase_seconds": {name: result.seconds for name, result in fit.phases.items()},
        "slack": [float(np.median(result.sigma)) for result in carved],
        "theorem_error": error,
        "peak_bytes": {pid: max(series) for pid, series in long.items()},
        "memory_growth": {pid: growth(series) for pid, series in long.items()},
        "memory": {pid: _peaks(series, thinned) for pid, series in long.items()},
        "memory_pause": PAUSE * thinned,
    }


def draw(runs: list[dict[str, Any]], stem: Path) -> list[Path]:
    """How tight the body is and how good the answer, against the number of examples; and memory."""
    panels = [lambda ax: _errors(runs, ax), lambda ax: _memory(runs[-1], ax)]
    return write_picture(stem, panels, "the six phases on more and more examples")


def _errors(runs: list[dict[str, Any]], ax: Axes) -> None:
    named = {"median width of a slab": FOUND, "error of the theorem's answer": OTHER}
    series = [
        [run["slack"][-1] if run["slack"] else None for run in runs],
        [run["theorem_error"] for run in runs],
    ]
    for (name, colour), values in zip(named.items(), series, strict=True):
        known = [(run["examples"], v) for run, v in zip(runs, values, strict=True) if v is not None]
        ax.plot(*zip(*known, strict=True), "o-", color=colour, ms=3.5, label=name)
    scientific(ax, [run["examples"] for run in runs], "x")
    scientific(ax, [value for values in series for value in values if value is not None], "y")
    ax.set_xlabel("examples")
    ax.legend(fontsize=6.5)


def _memory(run: dict[str, Any], ax: Axes) -> None:
    for series in run["memory"].values():
        seconds = np.arange(len(series)) * run["memory_pause"]
        ax.plot(seconds, np.array(series) / 2**20, lw=1)
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("seconds")
    ax.set_title(f"MiB of each process, {run['examples']:,} examples", fontsize=9)
