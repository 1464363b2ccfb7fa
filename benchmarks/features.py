"""`python -m benchmarks.features`: random-feature attention, beside scikit-learn and in order.

* speed: ridge regression on 17,000 features, ours in blocks, and scikit-learn's `Ridge` on the
  same features as an explicit array, each solver in a process of its own; then 100,000 examples.
  (sag takes 25 times as long as cholesky with 2,000 examples already, and is left out.)
* orderings: what the paper says of the three models, at 4,096 examples.
* regime: how much the identity mean can help, by dimension, examples and scale of the matrices.
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
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.clock import clock
from benchmarks.memory import peak_bytes, run_child
from benchmarks.store import Store
from benchmarks.text import markdown, seconds, short

__all__ = ["main"]

HERE = Path(__file__).parent
MEASURED_BY = ("features.py", "memory.py", "clock.py")
PARTS = ("speed", "orderings", "regime")
HEADS, DIM, KEYS = 1000, 16, 16
RELATIVE_ALPHA = 0.01  # over the mean squared norm of a row of features
FRESH = 1000
SOLVERS = ("cholesky", "lsqr", "sparse_cg")
MACHINE = 22 * 2**30  # bytes that a process may have, so that none takes the machine down
MANY = 100_000
#: (figure, target, below, above, least ratio) at ``ORDERED`` examples.
ORDERINGS = (
    ("powers", "p=2", "RFA", "RFMLP", 3.0),
    ("powers", "p=4", "RFA", "RFMLP", 3.0),
    ("correlation", "p=1", "BRFA", "RFA", 1.7),
    ("correlation", "p=2", "BRFA", "RFA", None),
    ("correlation", "p=3", "BRFA", "RFA", 1.25),
)
ORDERED = 2**12
#: Dimension, keys, heads, examples, scales of the random matrices.
REGIMES = (
    (16, 16, 1000, (2**12, 2**14), (0.5, 0.25, 0.12)),
    (16, 16, 6000, (2**11,), (0.5, 0.25)),
    (32, 4, 500, (2**12,), (0.5, 0.25)),
    (32, 4, 6000, (2**12,), (0.5, 0.25)),
    (32, 4, 2000, (2**14,), (0.35, 0.25)),
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.features", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--examples", type=int, default=20_000, help="of the comparison")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "features.md")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        print(json.dumps(_fit_in_child(options.child[0], options.examples, Path(options.child[1]))))
        return 0
    wanted = options.parts or list(PARTS)
    if not set(wanted) <= set(PARTS):
        parser.error(f"parts are {', '.join(options.parts)}; expected some of {', '.join(PARTS)}")
    store = Store(options.out.with_suffix(".jsonl"), MEASURED_BY, fresh=options.fresh)
    parts = {"speed": partial(_speed, options.examples), "orderings": _orderings, "regime": _regime}
    text = "# Random-feature attention\n\n`python -m benchmarks.features`; processor time of one "
    text += "thread, memory of the process.\n"
    for name in wanted:
        text += f"\n## {name.capitalize()}\n\n{parts[name](store)}\n"
    print(text)
    if wanted == list(PARTS):
        options.out.write_text(text)
    return 0


def _speed(examples: int, store: Store) -> str:
    """One line for each way of solving, with its distance from the exact answer."""
    ways = ["ours", *(f"sklearn {solver}" for solver in SOLVERS)]
    found = {}
    for way in ways:
        found[way] = store.once(partial(_child, way, examples), "speed", way, examples)
        print(f"{way}: {found[way]}", flush=True)
    exact = np.array(found["sklearn cholesky"]["predictions"])
    lines, right = [], {}
    for way, entry in found.items():
        off = float(np.abs(np.array(entry["predictions"]) - exact).max() / exact.std())
        lines.append([way, f"{off:.0e}", seconds(entry["seconds"]), _mib(entry["peak_bytes"])])
        if off <= 1e-6 and way != "ours":
            right[way] = entry
    best = min(right, key=lambda way: right[way]["seconds"])  # cholesky itself, if no other
    ours = found["ours"]
    header = ["", "largest difference", "seconds", "memory"]
    many = [
        ["ours", *_many(store, "ours")],
        ["sklearn cholesky", *_many(store, "sklearn cholesky")],
    ]
    return (
        f"{HEADS * (DIM + 1):,} features, {examples:,} examples, alpha = {RELATIVE_ALPHA:g} times "
        "the mean squared norm of a row.\nDifferences are between predictions for "
        f"{FRESH:,} fresh sequences, over their standard deviation.\n\n"
        f"{markdown(header, lines)}\n\n"
        f"The best of scikit-learn that is right to 1e-6, {best}, takes "
        f"{short(right[best]['seconds'] / ours['seconds'])} times as long and "
        f"{short(right[best]['peak_bytes'] / ours['peak_bytes'])} times the memory. "
        f"{100 * ours['share']:.0f}% of our time is in matrix products and factors, "
        f"{100 * ours['large_share']:.0f}% in those with whole blocks of features.\n\n"
        f"{MANY:,} examples, {MACHINE / 2**30:g} GiB allowed:\n\n"
        f"{markdown(['', 'ending', 'seconds', 'memory'], many)}"
    )


def _mib(number: float) -> str:
    return f"{number / 2**20:,.0f} MiB"


def _many(store: Store, way: str) -> list[str]:
    entry = store.once(partial(_child, way, MANY), "speed", way, MANY)
    if "failed" in entry:
        return [entry["failed"], "-", "-"]
    return ["done", seconds(entry["seconds"]), _mib(entry["peak_bytes"])]


def _child(way: str, examples: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "predictions.npy")
        entry = run_child("benchmarks.features", "--child", way, out, "--examples", str(examples))
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

    design = Design(features, X[:n], RidgeConfig(), centered=True)
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
    tight: dict[str, Any] = {} if solver == "cholesky" else {"tol": 1e-9, "max_iter": 2000}
    ridge = Ridge(alpha=alpha, solver=solver, copy_X=False, **tight).fit(A, y[:n])
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
            line = linecache.getline(name, frame.f_lineno)
            inside = any(word in line for word in self.PRODUCTS) or "scipy/linalg" in name
            self.inside += inside
            self.large += inside and not name.endswith("maps.py")
            self.looks += 1


def _orderings(store: Store) -> str:
    """Medians over seeds, and whether they are in the order that was asked for."""
    from gradine.features.experiments import FULL, Unit, measure, units_of
    from gradine.features.findings import findings

    setting, figures = replace(FULL, sizes=(ORDERED,)), ("powers", "correlation")
    units = []
    for part, model, seed in units_of(figures, setting):
        work = partial(measure, part, model, seed, setting, figures)
        entry = store.once(lambda work=work: {"unit": work().as_json()}, "order", model, seed)
        units.append(Unit.from_json(entry["unit"]))
    found, lines = findings(units, setting, figures)["figures"], []
    for figure, name, below, above, least in ORDERINGS:
        errors = {m: c["median"][-1] for m, c in found[figure][name]["models"].items()}
        ratio = errors[above] / errors[below]
        verdict = "-" if least is None else "holds" if ratio >= least else "MISSED"
        told = [f"{errors[model]:.3g}" for model in ("RFA", "BRFA", "RFMLP")]
        wanted = "-" if least is None else f"{least:g}"
        lines.append([figure, name, *told, f"{above} / {below}: {short(ratio)}", wanted, verdict])
    header = ["figure", "target", "RFA", "BRFA", "RFMLP", "ratio", "at least", ""]
    text = f"Test error over variance at n = {ORDERED:,}, median over {setting.seeds} seeds.\n\n"
    return text + markdown(header, lines)


def _regime(store: Store) -> str:
    """RFA does not depend on the scale of its matrices: relu is homogeneous."""
    lines = []
    for dim, keys, heads, sizes, scales in REGIMES:
        plain = _scaled(store, "RFA", dim, keys, heads, sizes, scales[0])
        for scale in scales:
            biased = _scaled(store, "BRFA", dim, keys, heads, sizes, scale)
            for i, n in enumerate(sizes):
                pairs = [(plain[p][i], biased[p][i]) for p in ("p=1", "p=2", "p=3")]
                told = [f"{a:.3f} / {b:.3f} = {short(a / b)}" for a, b in pairs]
                lines.append([str(dim), str(keys), f"{heads:,}", f"{n:,}", f"{scale:g}", *told])
    header = ["d", "keys", "heads", "n", "scale", "RFA / BRFA, p = 1", "p = 2", "p = 3"]
    text = "Test error over variance of <x_0, x_i>^p <beta, x_i>, RFA over BRFA, one seed.\n\n"
    return text + markdown(header, lines)


def _scaled(
    store: Store, model: str, dim: int, keys: int, heads: int, sizes: tuple[int, ...], scale: float
) -> dict[str, list[float]]:
    from gradine.features.experiments import FULL, measure

    setting = replace(
        FULL, dim=dim, n_keys=keys, n_heads=heads, sizes=sizes, scale=scale, testing=2000
    )

    def work() -> dict[str, Any]:
        unit = measure("targets", model, 0, setting, ["correlation"])
        return {"errors": {k.split("/")[1]: c.errors for k, c in unit.curves.items()}}

    entry = store.once(work, "regime", model, dim, keys, heads, max(sizes), scale)
    print(model, dim, keys, heads, sizes, scale, entry["errors"], flush=True)
    return entry["errors"]


if __name__ == "__main__":
    sys.exit(main())
