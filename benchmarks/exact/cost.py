"""What exact learning costs: exponents of time, share of the machine's rate, memory."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.clock import clock
from benchmarks.exact.instances import Instance
from benchmarks.exact.ours import HELD_OUT, figures, ours
from benchmarks.exact.scope import Scope, tell
from benchmarks.memory import peak_bytes, run_child
from benchmarks.text import markdown, seconds, short

__all__ = ["exponent", "measure", "page", "product_rate"]

Record = dict[str, Any]

MEASURED_BY = (
    "clock.py",
    "memory.py",
    *(f"exact/{name}.py" for name in ("instances", "ours", "cost")),
)
SEEDS = 3
#: What grows, and the runs (instance, ratio) in which it does: a factor of 8 at least.
SWEEPS: dict[str, tuple[tuple[Instance, float], ...]] = {
    "m": tuple((Instance(m, 8, 32, 2.0), 4.0) for m in (1, 2, 4, 8)),
    "d": tuple((Instance(4, 8, d, 2.0), 4.0) for d in (8, 16, 32, 64)),
    "n": tuple((Instance(4, 8, 16, 2.0), ratio) for ratio in (4.0, 8.0, 16.0, 32.0)),
}
QUICK_POINTS = 2  # of each sweep
SIZE = 2000  # of the matrices whose product says what the machine can do
#: Most of the arithmetic is in the first, which is the faster: the share of that rate is the
#: smaller one.
PRECISIONS = ("float32", "float64")
AIM = 0.4  # share of the rate


def product_rate(precision: str, size: int = SIZE) -> float:
    """Floating-point operations a second of a large product, the best of five."""
    left, right = factors(precision, size)
    spent = []
    for _ in range(5):
        began = clock()
        _ = left @ right
        spent.append(clock() - began)
    return 2.0 * size**3 / min(spent)


def factors(precision: str, size: int) -> NDArray[Any]:
    """Two square matrices to be multiplied."""
    return np.random.default_rng(0).standard_normal((2, size, size)).astype(precision)


def trial(instance: Instance, ratio: float, seed: int) -> Record:
    truth, n = instance.truth(seed), instance.examples_at(ratio)
    X = instance.inputs(n + HELD_OUT, seed)
    # By default the learner takes no more than 8 times the bound: n would not be what grows.
    answer = ours(X, truth(X), instance.heads, seed, examples_per_bound=ratio)
    return {**figures(answer, truth), "data_bytes": 2 * X.nbytes}


def timed(instance: Instance, ratio: float, seed: int) -> Record:
    record = trial(instance, ratio, seed)
    return {**record, "product_rates": {name: product_rate(name) for name in PRECISIONS}}


def in_child(instance: Instance, ratio: float) -> Record:
    """The same in a process of its own, for its peak memory."""
    shape = [instance.heads, instance.seq_len, instance.dim, instance.scale, ratio]
    return run_child("benchmarks.exact.cost", *(str(value) for value in shape))


def child(arguments: Sequence[str]) -> Record:
    """What that process does: imports first, so that only what learning adds is counted."""
    heads, seq_len, dim = (int(text) for text in arguments[:3])
    trial(Instance(1, 3, 4, 2.0), 8.0, 0)
    before = peak_bytes()
    found = trial(Instance(heads, seq_len, dim, float(arguments[3])), float(arguments[4]), 0)
    sizes = {"data_bytes": found["data_bytes"], "imports_bytes": before}
    return {**sizes, "peak_bytes": peak_bytes()}


def measure(scope: Scope) -> Record:
    store = scope.store("cost", MEASURED_BY)
    sweeps, memory = {}, {}
    for name, runs in SWEEPS.items():
        runs = runs[:QUICK_POINTS] if scope.quick else runs
        points = [_point(store, scope, name, *run) for run in runs]
        sweeps[name] = {"points": points, "exponent": exponent(points)}
        instance, ratio = runs[-1]
        key = (f"{instance.name}-x{ratio:g}", "memory")
        memory[key[0]] = store.once(partial(in_child, instance, ratio), *key)
    return {"build": store.build, "sweeps": sweeps, "memory": memory}


def _point(store: Any, scope: Scope, name: str, instance: Instance, ratio: float) -> Record:
    records = []
    for seed in range(scope.repeats(SEEDS, 1)):
        work = partial(timed, instance, ratio, seed)
        record = store.once(work, instance.name, ratio, seed)
        tell(f"cost {instance.name} x{ratio:g} seed {seed}", record)
        records.append(record)
    sizes = {"m": instance.heads, "d": instance.dim, "n": records[0]["examples"]}
    counted = [r for r in records if r["flops"] is not None]
    rates = [r["flops"] / r["seconds"] for r in counted]
    single = [r["product_rates"][PRECISIONS[0]] for r in counted]
    shares = [rate / most for rate, most in zip(rates, single, strict=True)]
    return {
        "size": sizes[name],
        "sizes": sizes,
        "success": sum(record["success"] for record in records),
        "seeds": len(records),
        "seconds": statistics.median(record["seconds"] for record in records),
        "product_rates": {
            precision: statistics.median(r["product_rates"][precision] for r in records)
            for precision in PRECISIONS
        },
        "rate": statistics.median(rates) if rates else None,
        "share": statistics.median(shares) if shares else None,
    }


def exponent(points: Sequence[Record]) -> float:
    """Slope of log time over log size, by least squares."""
    sizes, times = (np.log([point[name] for point in points]) for name in ("size", "seconds"))
    return float(np.polyfit(sizes, times, 1)[0])


def page(summary: Record) -> str:
    products = (f"a {precision} product's" for precision in PRECISIONS)
    header = ("grows", "m, d, n", "success", "ours, s", "GFLOP/s", *products, "share")
    lines = [
        [
            name,
            ", ".join(f"{size:,}" for size in point["sizes"].values()),
            f"{point['success']} of {point['seeds']}",
            seconds(point["seconds"]),
            "-" if point["rate"] is None else f"{point['rate'] / 1e9:.1f}",
            *(f"{point['product_rates'][precision] / 1e9:.1f}" for precision in PRECISIONS),
            "-" if point["share"] is None else f"{point['share']:.0%}",
        ]
        for name, sweep in summary["sweeps"].items()
        for point in sweep["points"]
    ]
    slopes = ", ".join(
        f"{name}^{short(sweep['exponent'])}" for name, sweep in summary["sweeps"].items()
    )
    memory = [
        (name, *(f"{found[f'{part}_bytes'] / 2**20:,.0f}" for part in ("data", "imports", "peak")))
        for name, found in summary["memory"].items()
    ]
    said = (
        f"Time grows like {slopes}, one size at a time, n with m and d as 4 times the counting "
        "bound needs it (so the exponents of m and d include that of n); least squares on "
        "logarithms of medians over seeds. n counts the examples that were fitted, as the run "
        "reports them; all that are given are fitted here, though by default the learner takes "
        "no more than 8 times the bound. GFLOP/s: the operations of the fit, counted, most of "
        "them in float32, the others in float64, over the time of the whole call. The share is "
        f"that of the rate of a {PRECISIONS[0]} product, the faster of the two, so that it is "
        f"not flattered (aim: {AIM:.0%}); products are {SIZE:,} x {SIZE:,}, measured right "
        "after each run."
    )
    sizes = ("instance", "X and Y, MiB", "before learning, MiB", "peak, MiB")
    return "\n\n".join([markdown(header, lines), said, markdown(sizes, memory)])


if __name__ == "__main__":
    print(json.dumps(child(sys.argv[1:])))
