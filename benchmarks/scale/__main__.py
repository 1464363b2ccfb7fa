"""Scale: `python -m benchmarks.scale [rates] [faults] [many] [capacity]`.

Each part keeps what it measured in results/scale.json; the page results/scale.md is made of all.
Faults are kept one by one in results/scratch, so that a run that was stopped goes on; a change of
the sources starts over.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gradine
from benchmarks.scale import capacity, faults, many, rates
from benchmarks.store import Store
from benchmarks.text import markdown
from gradine.engine import open_engine
from gradine.files import write_json, write_text

__all__ = ["main", "page"]

RESULTS = Path(__file__).parent.parent / "results"
IMAGES = Path(__file__).parent.parent.parent / "docs" / "images"
HEADS, SEQ_LEN, DIM, SCALE = 3, 3, 12, 4.0
#: Examples of three rows each: the last is a hundred million rows.
FEW, MANY = 150_000, 33_400_000
TARGETS = {"pool": 1.8, "dask": 1.7}
LARGEST_OVERHEAD, LARGEST_GROWTH = 0.10, 0.05


def truth() -> gradine.AttentionLayer:
    return gradine.plant(HEADS, DIM, SCALE, seed=0)


def generated(n: int) -> Any:
    from gradine.examples import GeneratedExamples  # pyright: ignore[reportAttributeAccessIssue]

    return GeneratedExamples(truth(), n, SEQ_LEN, "boolean", 1)


def measure_rates(quick: bool, _: Path) -> dict[str, Any]:
    """Blocks of about a second; a pass of sixteen of them."""
    kernel, trial = rates.screening(truth()), 2_000 if quick else 20_000
    source = generated(100 * trial)
    core = rates.core_rate(source, kernel, trial)
    block = trial if quick else int(core["rows_a_second_with_reading"] / SEQ_LEN)
    walls = rates.speedups(generated(16 * block), kernel, block)
    return {**core, "block": block, "seconds": walls}


def measure_faults(quick: bool, out: Path) -> dict[str, Any]:
    """The run without a fault first, then each kind of fault in turn."""
    kinds = [faults.FAULTS[i % 3] for i in range(3 if quick else 50)]
    size = (6_000, 1_000) if quick else (60_000, 3_000)
    store = Store(out / "scratch" / "faults.jsonl", ("scale/faults.py",))
    found = [store.once(partial(faults.inject, None, 0, *size), None, 0, *size)]
    within = found[0]["seconds"]
    for seed, kind in enumerate(kinds, 1):
        work = partial(faults.inject, kind, seed, *size, within)
        found.append(store.once(work, kind, seed, *size))
        print(f"{seed} of {len(kinds)} faults: {kind}", file=sys.stderr, flush=True)
    return faults.summary(found)


def measure_many(quick: bool, _: Path) -> dict[str, Any]:
    numbers = (20_000, 40_000) if quick else (FEW, 1_000_000, 6_000_000, MANY)
    with open_engine("pool", 2) as engine:
        return {"runs": [many.screened(generated(n), truth(), engine) for n in numbers]}


def measure_capacity(quick: bool, out: Path) -> dict[str, Any]:
    store = Store(out / "scratch" / "capacity.jsonl", ("scale/capacity.py",))
    own, heads = (8, (2,)) if quick else (DIM, capacity.HEADS)
    dims, examples = ((own,), 2_000) if quick else ((own, *capacity.DIMS), 100_000)
    found = {}
    for d in dims:
        found[str(d)] = store.once(partial(capacity.pass_seconds, d, examples), "passes", d)
    # Two dimensions for the growth of the main process, and all heads at the larger of them.
    sizes = [(heads[0], own, 20_000 if quick else FEW)]
    if not quick:
        below, top = capacity.DIMS[0] // 2, capacity.DIMS[0]
        sizes += [
            (m, d, max(capacity.wanted_examples(m, d) or 0, FEW))
            for m, d in ((heads[0], below), *((m, top) for m in heads))
        ]
    main = []
    for size in sizes:
        main.append(store.once(partial(capacity.main_part, *size), "main", *size))
        print(f"{size}: {main[-1]['wall']:.0f} s", file=sys.stderr, flush=True)
    cases = [
        {"heads": m, "dim": d, "examples": capacity.wanted_examples(m, d)}
        for m in heads
        for d in (dims if quick else capacity.DIMS)
    ]
    more = [20_000] if quick else [600_000, 1_200_000]
    checks = [
        store.once(partial(capacity.checked, heads[0], own, n, workers), "check", n, workers)
        for workers in (1, 2)
        for n in more
    ]
    return {"pass_seconds": found, "main": main, "cases": cases, "checks": checks, "dim": own}


PARTS: dict[str, Callable[[bool, Path], dict[str, Any]]] = {
    "rates": measure_rates,
    "faults": measure_faults,
    "many": measure_many,
    "capacity": measure_capacity,
}


def page(found: dict[str, Any]) -> str:
    """What was measured, as far as it was."""
    instance = f"{HEADS} heads, {SEQ_LEN} tokens, dim {DIM}, scale {SCALE:g}, +-1 inputs"
    parts = [f"# Scale\n\n`python -m benchmarks.scale`; {instance}, unless it is said otherwise."]
    parts += [PAGES[name](found[name], found) for name in PARTS if name in found]
    return "\n\n".join(parts) + "\n"


def _rates(found: dict[str, Any], _: dict[str, Any]) -> str:
    walls = found["seconds"]
    lines = [
        ("rows screened a second by one core", f"{found['rows_a_second']:,.0f}"),
        ("the same with generating them", f"{found['rows_a_second_with_reading']:,.0f}"),
        ("share of the rate of a large product", f"{found['share_of_product_rate']:.1%}"),
    ]
    for kind, target in TARGETS.items():
        ratio = walls[f"{kind}_1"] / walls[f"{kind}_2"]
        lines.append((f"2 workers against 1, {kind} (target {target:g})", f"{ratio:.2f}"))
    over = walls["dask_1"] / walls["pool_1"] - 1.0
    lines.append((f"Dask over the pool (target {LARGEST_OVERHEAD:.0%})", f"{over:+.1%}"))
    return (
        f"## Rates\n\n{markdown(('', 'measured'), lines)}\n\nBlocks of {found['block']:,} examples."
    )


def _faults(found: dict[str, Any], _: dict[str, Any]) -> str:
    kinds = ", ".join(f"{count} of a {kind}" for kind, count in found["kinds"].items())
    return (
        f"## Faults\n\n{found['faults']} faults ({kinds}): {found['identical']} identical answers. "
        f"Of {found['blocks']} blocks a run, {found['blocks_twice']} were begun twice in all, "
        f"{found['most_blocks_twice']} in one run at most; {found['in_flight']} are in flight. "
        "Every block was saved here; a usual run saves as often as takes 2% of its time."
    )


def _many(found: dict[str, Any], _: dict[str, Any]) -> str:
    lines = [
        (
            f"{run['examples']:,}",
            f"{run['seconds']:,.0f}",
            f"{run['slack'][-1]:.3g}" if run["slack"] else "-",
            "-" if run["theorem_error"] is None else f"{run['theorem_error']:.3g}",
            *_by_process(run["peak_bytes"], lambda peak: f"{peak / 2**20:,.0f}"),
            *_by_process(run["memory_growth"], lambda share: f"{share:+.1%}"),
        )
        for run in found["runs"]
    ]
    each = ("peak MiB: worker", "main", "growth: worker", "main")
    header = ("examples", "seconds", "median slab", "theorem's error", *each)
    return (
        f"## Many rows\n\n{markdown(header, lines)}\n\nMemory is that of the largest worker, and "
        "of the main process, whose linear programs do not grow with the examples; growth is from "
        f"the first to the last tenth of the run (target {LARGEST_GROWTH:.0%})."
    )


def _by_process(found: dict[Any, float], words: Callable[[float], str]) -> tuple[str, str]:
    """Of the largest worker, and of the main process, which is the first that was looked at."""
    main, *workers = found.values() if found else (0.0,)
    return words(max(workers, default=0.0)), words(main)


def _capacity(found: dict[str, Any], all_found: dict[str, Any]) -> str:
    walls = all_found.get("rates", {}).get("seconds", {})
    lost = max(0.0, 1.0 - walls["pool_1"] / (2 * walls["pool_2"])) if walls else 0.0
    kinds = (capacity.MAKING, *capacity.PASSES)
    costs = markdown(
        ("dim", *kinds),
        [
            (
                dim,
                *(
                    f"{1e6 * seconds[kind]['worker']:.3g} + {1e6 * seconds[kind]['main']:.2g}"
                    for kind in kinds
                ),
            )
            for dim, seconds in found["pass_seconds"].items()
        ],
    )
    mains = markdown(
        ("heads", "dim", "examples", "answer", "error of the theorem's answer", "alone, s"),
        [
            (
                str(part["heads"]),
                str(part["dim"]),
                f"{part['examples']:,}",
                part["status"],
                "-" if part["error"] is None else f"{part['error']:.2g}",
                f"{sum(part['alone'].values()):.3g}",
            )
            for part in found["main"]
        ],
    )
    lines = []
    for check in found["checks"]:
        own = found["pass_seconds"][str(check["dim"])]
        main = {**found["main"][0], "passes": check["passes"]}
        expected = capacity.predicted_seconds(own, main, check["examples"], check["workers"], lost)
        total = sum(expected.values())
        lines.append(
            (
                str(check["workers"]),
                f"{check['examples']:,}",
                f"{expected['passes']:.1f} + {expected['alone']:.1f} = {total:.1f}",
                f"{check['wall']:.1f}",
                f"{check['wall'] / total:.2f}",
            )
        )
    header = ("workers", "examples", "predicted (passes + alone), s", "measured, s", "ratio")
    table = capacity.capacity_table(_cases(found), lost)
    return (
        "## Capacity\n\nMicroseconds for each example in one pass, of a worker + of the main "
        f"process:\n\n{costs}\n\nThe main process alone, by runs on one worker:\n\n{mains}\n\n"
        "No polish and no chords. From these, with the examples that `gradine plan` asks for and "
        f"{lost:.1%} lost to working side by side, minutes; where there is a star, the main "
        f"process is extrapolated, phase by phase, by its growth from dim 16 to 32:"
        f"\n\n{table}\n\nThe prediction against runs here, dim {found['dim']}:\n\n"
        f"{markdown(header, lines)}"
    )


def _cases(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Layers that can be learned, with what a run of each costs, measured or extrapolated."""
    mains = {(part["heads"], part["dim"]): part for part in found["main"]}
    top = max(dim for _, dim in mains)
    fewest = [part for (heads, _), part in sorted(mains.items()) if heads == min(mains)[0]]
    return [
        {
            **case,
            "seconds": found["pass_seconds"][str(case["dim"])],
            "main": mains.get((case["heads"], case["dim"]))
            or capacity.alone_at(case["dim"], fewest, mains[case["heads"], top]),
        }
        for case in found["cases"]
        if case["examples"] is not None
    ]


PAGES = {"rates": _rates, "faults": _faults, "many": _many, "capacity": _capacity}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks.scale", description=(__doc__ or "").strip())
    parser.add_argument("parts", nargs="*", metavar="|".join(PARTS), help="which; all by default")
    parser.add_argument("--quick", action="store_true", help="tiny, to see that it runs")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of scale.json, scale.md")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"parts are {', '.join(PARTS)}; got {', '.join(sorted(unknown))}")
    stored = options.out / "scale.json"
    found = json.loads(stored.read_text()) if stored.exists() and not options.quick else {}
    for name in options.parts or PARTS:
        found[name] = PARTS[name](options.quick, options.out)
        options.out.mkdir(parents=True, exist_ok=True)
        write_json(stored, {**found, "version": gradine.__version__})
    if "many" in found and not options.quick:
        many.draw(found["many"]["runs"], IMAGES / "scale-many")
    text = page(found)
    write_text(options.out / "scale.md", text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
