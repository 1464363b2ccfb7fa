"""Ridge regression on 17,000 features: ours in blocks, and scikit-learn on an explicit array.

Each way has a process of its own; then 100,000 examples, with as much memory for features that are
kept as they take in single precision. (sag takes 25 times as long as cholesky with 2,000 examples
already, and is left out.)
"""

from __future__ import annotations

import argparse
import json
import linecache
import os
import resource
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.clock import clock
from benchmarks.memory import peak_bytes, run_child
from benchmarks.store import Store
from benchmarks.text import markdown, seconds, short

__all__ = ["MEASURED_BY", "TITLE", "measure", "page"]

TITLE = "Ridge regression beside scikit-learn"
MEASURED_BY = ("features/speed.py", "memory.py", "clock.py")
ANY_BUILD = True  # half an hour
HEADS, DIM, KEYS = 1000, 16, 16
RELATIVE_ALPHA = 0.01  # over the mean squared norm of a row of features
FRESH = 1000
SOLVERS = ("cholesky", "lsqr", "sparse_cg")
DEFAULT = "sklearn default"  # Ridge(alpha), as most call it: cholesky, on a copy of the features
MACHINE = 22 * 2**30  # bytes that a process may have, so that none takes the machine down
EXAMPLES, MANY = 20_000, 100_000
KEPT = {EXAMPLES: 2**31, MANY: 7 * 2**30}  # bytes of features that are kept between passes
QUICK_EXAMPLES, QUICK_MANY = 100, 150


def measure(store: Store, quick: bool) -> dict[str, Any]:
    """What each way took, and its distance from the exact answer."""
    examples, many = (QUICK_EXAMPLES, QUICK_MANY) if quick else (EXAMPLES, MANY)
    ways = ["ours", *(f"sklearn {solver}" for solver in SOLVERS)]
    found = {way: _run(store, way, examples) for way in ways}
    exact = np.array(found["sklearn cholesky"]["predictions"])
    for entry in found.values():
        off = np.abs(np.array(entry["predictions"]) - exact).max() / exact.std()
        entry["difference"] = float(off)
    large = {way: _run(store, way, many) for way in ("ours", DEFAULT)}
    for entry in (*found.values(), *large.values()):
        entry.pop("predictions", None)
    return {"examples": examples, "many": many, "ways": found, "large": large}


def _run(store: Store, way: str, examples: int) -> dict[str, Any]:
    entry = dict(store.once(partial(_child, way, examples), way, examples))
    told = {name: value for name, value in entry.items() if name != "predictions"}
    print(f"speed {way}: {told}", file=sys.stderr, flush=True)
    return entry


def page(content: dict[str, Any]) -> str:
    found, large = content["ways"], content["large"]
    lines = [
        [way, f"{e['difference']:.0e}", seconds(e["seconds"]), _mib(e["peak_bytes"])]
        for way, e in found.items()
    ]
    right = {w: e for w, e in found.items() if e["difference"] <= 1e-6 and w != "ours"}
    best = min(right, key=lambda way: right[way]["seconds"])  # cholesky itself, if no other
    ours, header = found["ours"], ["", "largest difference", "seconds", "memory"]
    many = [[way, *_ending(entry)] for way, entry in large.items()]
    return (
        f"{HEADS * (DIM + 1):,} features, {content['examples']:,} examples, alpha = "
        f"{RELATIVE_ALPHA:g} times the mean squared norm of a row; processor time of one thread, "
        f"memory of the process.\nDifferences are between predictions for {FRESH:,} fresh "
        f"sequences, over their standard deviation.\n\n{markdown(header, lines)}\n\n"
        f"The best of scikit-learn that is right to 1e-6, {best}, takes "
        f"{short(right[best]['seconds'] / ours['seconds'])} times as long and "
        f"{short(right[best]['peak_bytes'] / ours['peak_bytes'])} times the memory. "
        f"{100 * ours['share']:.0f}% of our time is in matrix products and factors, "
        f"{100 * ours['large_share']:.0f}% in those with whole blocks of features.\n\n"
        f"{content['many']:,} examples, {MACHINE / 2**30:g} GiB allowed:\n\n"
        f"{markdown(['', 'ending', 'seconds', 'memory'], many)}\n\n"
        "By default scikit-learn copies the features, 12.7 GiB in double precision. With "
        "`copy_X=False` it would need these, and twice the Gram matrix of 2.2 GiB: about 17 GiB."
    )


def _ending(entry: dict[str, Any]) -> list[str]:
    if "failed" in entry:
        return [entry["failed"], "-", "-"]
    return ["done", seconds(entry["seconds"]), _mib(entry["peak_bytes"])]


def _mib(number: float) -> str:
    return f"{number / 2**20:,.0f} MiB"


def _child(way: str, examples: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "predictions.npy")
        entry = run_child("benchmarks.features.speed", way, out, str(examples))
        if "failed" not in entry:
            entry["predictions"] = np.load(out).tolist()
    return entry


def _fit_in_child(way: str, examples: int, out: Path) -> dict[str, Any]:
    """What the child does: draw the features, fit, predict; it may run out of memory."""
    from gradine.features.maps import AttentionMap
    from gradine.features.targets import correlation, on_sphere, powers

    resource.setrlimit(resource.RLIMIT_AS, (MACHINE, MACHINE))
    X = on_sphere(examples + FRESH, KEYS, DIM, 0)
    y = sum(target(X) / target(X).std() for target in (correlation(1, DIM, 0), powers(2, DIM, 0)))
    y = np.asarray(y)
    features = AttentionMap.draw(HEADS, DIM, "zero", "relu", np.random.default_rng(0))
    some = features(X[:200])
    alpha = RELATIVE_ALPHA * float(np.mean(np.sum((some - some.mean(axis=0)) ** 2, axis=1)))
    began, wall = clock(), time.perf_counter()
    try:
        with _Sampler() as sampler:
            work = _ours if way == "ours" else partial(_sklearn, way.split()[1])
            predictions, how = work(features, X, y, examples, alpha)
    except MemoryError as error:
        return {"failed": f"out of memory: {str(error).split(' for ')[0]}"}
    np.save(out, predictions)
    return {
        "seconds": clock() - began,
        "wall": time.perf_counter() - wall,
        "peak_bytes": peak_bytes(),
        **sampler.shares,
        "load": os.getloadavg()[0],
        **how,
    }


def _ours(features: Any, X: Any, y: Any, n: int, alpha: float) -> tuple[Any, dict[str, Any]]:
    from gradine.features.design import Design, RidgeConfig
    from gradine.features.ridge import fit_ridge

    config = RidgeConfig(kept_bytes=KEPT.get(n, 2**31))
    design = Design(features, X[:n], config, centered=True)
    found = fit_ridge(design, y[:n, None], alpha)
    how = {"method": found.method, "iterations": found.iterations}
    return features(X[n:]) @ found.coefficients[:, 0] + found.intercept[0], how


def _sklearn(
    solver: str, features: Any, X: Any, y: Any, n: int, alpha: float
) -> tuple[Any, dict[str, Any]]:
    from sklearn.linear_model import Ridge

    A = np.empty((n, features.n_features))
    for start in range(0, n, 1000):
        A[start : start + 1000] = features(X[start : min(start + 1000, n)])
    how: dict[str, Any] = {} if solver == "default" else {"solver": solver, "copy_X": False}
    how |= {} if solver in ("default", "cholesky") else {"tol": 1e-9, "max_iter": 2000}
    ridge = Ridge(alpha=alpha, **how).fit(A, y[:n])
    return ridge.predict(features(X[n:])), {"iterations": str(ridge.n_iter_)}


class _Sampler:
    """Looks every 20 ms at which line is being run, and counts those with a matrix product.

    Large ones are with whole blocks of features; those of single sequences make the features.
    """

    PRODUCTS = (" @ ", "cho_factor", "cho_solve")

    def __init__(self) -> None:
        self.inside = self.large = self.looks = 0
        self._main, self._over = threading.get_ident(), threading.Event()

    @property
    def shares(self) -> dict[str, float]:
        looks = max(self.looks, 1)
        return {"share": self.inside / looks, "large_share": self.large / looks}

    def __enter__(self) -> _Sampler:
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.02):
            frame = sys._current_frames().get(self._main)
            if frame is None:
                continue
            name = frame.f_code.co_filename
            line = linecache.getline(name, frame.f_lineno or 0)
            inside = any(word in line for word in self.PRODUCTS) or "scipy/linalg" in name
            self.inside += inside
            self.large += inside and not name.endswith("maps.py")
            self.looks += 1


def _main() -> None:
    """What a child process runs: one way, where its predictions go, and how many examples."""
    parser = argparse.ArgumentParser()
    parser.add_argument("way")
    parser.add_argument("out", type=Path)
    parser.add_argument("examples", type=int)
    options = parser.parse_args()
    print(json.dumps(_fit_in_child(options.way, options.examples, options.out)))


if __name__ == "__main__":
    _main()
