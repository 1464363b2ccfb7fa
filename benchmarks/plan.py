"""The plan against the outcome: `python -m benchmarks.plan [--quick]`.

The settings are none of those by which the plan was calibrated, and neither are the seeds. For
each, a layer is planted and learned from as many examples as are planned, over and over. Then the
smallest number that does as well is looked for by bisection, from the counting bound up: below it
no learner can succeed. Runs are kept one by one in results/scratch, so that a run that was stopped
goes on; a change of the sources starts over.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gradine
from benchmarks.clock import clock
from benchmarks.exact.ours import SOLVED, error_of
from benchmarks.instances import INPUT_SEED
from benchmarks.store import Store
from benchmarks.text import markdown, seconds
from gradine.admission import least_examples
from gradine.fit import LearnConfig

__all__ = ["EXACT", "SCULPT", "Setting", "main", "smallest"]

Record = dict[str, Any]

RESULTS = Path(__file__).parent / "results"
CONFIDENCE, WANTED = 0.9, 0.85  # what is planned for, and what is asked of the runs
MOST_ABOVE = 4.0  # times the smallest number that the plan may be
#: So few are held out that what is fitted makes most of the difference; 165 must certify.
FEW = LearnConfig(validation_examples=40, certify_examples=165, held_out_share=0.95)
FINE = 1.1  # bisection ends when its two ends differ by less than this factor
MEASURED_BY = ("plan.py",)


@dataclass(frozen=True)
class Setting:
    heads: int
    seq_len: int
    dim: int
    scale: float

    @property
    def name(self) -> str:
        return f"m{self.heads}-k{self.seq_len}-d{self.dim}-s{self.scale:g}"


@dataclass(frozen=True)
class Effort:
    """Runs at the planned number of examples, and at each number that bisection tries."""

    planned: int
    tried: int


EXACT = (
    Setting(1, 2, 6, 2.0),
    Setting(2, 3, 8, 2.0),
    Setting(3, 4, 10, 1.0),
    Setting(4, 5, 12, 3.0),
    Setting(1, 5, 12, 5.0),
    Setting(2, 6, 10, 6.0),
    Setting(4, 4, 8, 2.0),
    Setting(2, 2, 6, 3.0),
    Setting(5, 6, 10, 2.0),
    Setting(1, 3, 10, 1.0),
    Setting(3, 3, 8, 3.0),
    Setting(6, 8, 12, 2.0),
    Setting(2, 4, 12, 4.0),
)
SCULPT = (Setting(1, 3, 8, 3.0), Setting(2, 3, 12, 4.0), Setting(2, 4, 10, 4.0))
EFFORT = {"exact": Effort(100, 40), "sculpt": Effort(40, 12)}
QUICK = Effort(2, 2)


def attempt(setting: Setting, learner: str, fitted: int, seed: int) -> Record:
    """One run with so many examples to fit: whether the heads were found, and how long it took."""
    config = FEW if learner == "exact" else LearnConfig()
    n = least_examples(fitted, config)
    truth = gradine.plant(setting.heads, setting.dim, setting.scale, seed=seed)
    X = gradine.sample_inputs(n, setting.seq_len, setting.dim, seed=seed + INPUT_SEED)
    Y = truth(X)
    began = clock()
    try:
        fit = gradine.learn(X, Y, setting.heads, learner, seed, config=config)
    except ValueError:  # fewer examples than unknowns
        return {"success": False, "status": "refused", "seconds": clock() - began}
    taken = clock() - began
    error = error_of(fit.layer, truth)
    success = fit.learned and error is not None and error <= SOLVED
    return {"success": success, "status": fit.status.code, "seconds": taken}


def runs(
    store: Store, setting: Setting, learner: str, fitted: int, count: int, *, all_of_them: bool
) -> list[Record]:
    """Runs with seeds 0, 1, ...; unless all are wanted, none after the rate is out of reach."""
    found: list[Record] = []
    for seed in range(count):
        work = partial(attempt, setting, learner, fitted, seed)
        found.append(store.once(work, setting.name, learner, fitted, seed))
        failed = sum(not record["success"] for record in found)
        if not all_of_them and failed > (1.0 - WANTED) * count:
            break
    return found


def enough(found: list[Record], count: int) -> bool:
    return sum(record["success"] for record in found) >= WANTED * count


def smallest(passes: Callable[[int], bool], fails: int, does: int) -> int:
    """The smallest number that passes, to a factor `FINE`; ``fails`` does not, and ``does`` does.

    >>> smallest(lambda n: n >= 37, 10, 80)
    38
    """
    while does > fails + 1 and does > FINE * fails:
        middle = min(max(math.ceil(math.sqrt(fails * does)), fails + 1), does - 1)
        if passes(middle):
            does = middle
        else:
            fails = middle
    return does


def measure(store: Store, setting: Setting, learner: str, effort: Effort) -> Record:
    config = FEW if learner == "exact" else LearnConfig()
    planned = gradine.plan(
        setting.heads, setting.dim, setting.seq_len, setting.scale, CONFIDENCE, config=config
    )
    budget = planned.exact if learner == "exact" else planned.sculpt
    assert budget is not None
    found = runs(store, setting, learner, budget.fit, effort.planned, all_of_them=True)
    succeeded = sum(record["success"] for record in found)
    bound = math.ceil(max(planned.unknowns_bound, planned.pattern_bound))
    least = None
    if enough(found, effort.planned):

        def passes(fitted: int) -> bool:
            tried = runs(store, setting, learner, fitted, effort.tried, all_of_them=False)
            return enough(tried, effort.tried)

        # No fewer than the bound can do, and no fewer than a certificate leaves to fit.
        floor = least_examples(bound, config)
        floor -= sum(config.held_out(floor))
        least = smallest(passes, floor - 1, budget.fit)
    total = None if least is None else least_examples(least, config)
    return {
        **asdict(setting),
        "learner": learner,
        "bound": bound,
        "fit": budget.fit,
        "examples": budget.examples,
        "runs": effort.planned,
        "succeeded": succeeded,
        "least_fit": least,
        "least_examples": total,
        "above_fit": None if least is None else budget.fit / least,
        "above": None if total is None else budget.examples / total,
        "seconds": statistics.median(record["seconds"] for record in found),
        "seconds_planned": budget.seconds,
        "statuses": sorted({record["status"] for record in found if not record["success"]}),
    }


def page(records: list[Record]) -> str:
    header = ["learner", "heads, tokens, dim, scale", "bound", "planned: to fit / all", "succeed"]
    header += ["smallest: to fit / all", "planned / smallest: to fit", "all", "s", "s planned"]
    lines = []
    for r in records:
        none = r["least_fit"] is None
        size = f"{r['heads']}, {r['seq_len']}, {r['dim']}, {r['scale']:g}"
        cells = [r["learner"], size, f"{r['bound']}", f"{r['fit']:,} / {r['examples']:,}"]
        cells += [f"{r['succeeded']} of {r['runs']}"]
        cells += (
            ["-"] * 3
            if none
            else [
                f"{r['least_fit']:,} / {r['least_examples']:,}",
                f"{r['above_fit']:.2f}",
                f"{r['above']:.2f}",
            ]
        )
        lines.append([*cells, seconds(r["seconds"]), seconds(r["seconds_planned"])])
    return f"{markdown(header, lines)}\n\n{verdict(records)}"


def verdict(records: list[Record]) -> str:
    """What holds, for each learner."""
    said = []
    for learner in ("exact", "sculpt"):
        mine = [r for r in records if r["learner"] == learner]
        if not mine:
            continue
        good = [r for r in mine if r["succeeded"] >= WANTED * r["runs"]]
        rate = min(r["succeeded"] / r["runs"] for r in mine)
        above = [max(r["above"], r["above_fit"]) for r in good]
        near = sum(value <= MOST_ABOVE for value in above)
        most = f", at most {max(above):.2f} times" if above else ""
        said.append(
            f"{learner}: at least {WANTED:.0%} of the runs succeed with the planned number of "
            f"examples in {len(good)} of {len(mine)} settings (fewest: {rate:.0%}); the plan is "
            f"within {MOST_ABOVE:g} times the smallest number in {near} of {len(good)}{most}."
        )
    return "\n\n".join(said)


def _notes(records: list[Record], build: str) -> str:
    exact, sculpt = EFFORT["exact"], EFFORT["sculpt"]
    return (
        f"Planned for success with probability {CONFIDENCE:g}. A run succeeds if it says so and "
        f"every attention matrix is within {SOLVED:g} of the truth; the number of heads is given. "
        f"The exact learner has {exact.planned} runs at the planned number and {exact.tried} at "
        f"each number that bisection tries; the six phases, which take longer, {sculpt.planned} "
        f"and {sculpt.tried}. Bisection begins at the counting bound, below which nothing can "
        "succeed, and ends within 10%. For the exact learner 205 examples are held out beside "
        "those to fit (165 certify, 40 validate); for the six phases as many as by default. "
        f"Seconds are of one processor core, medians. Build {build}."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.plan", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two settings, two runs each")
    parser.add_argument("--fresh", action="store_true", help="forget runs of before")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args(arguments)
    name = "plan-quick" if options.quick else "plan"
    store = Store(options.out / "scratch" / f"{name}.jsonl", MEASURED_BY, fresh=options.fresh)
    records = []
    for learner, settings in (("exact", EXACT), ("sculpt", SCULPT)):
        for setting in settings[:1] if options.quick else settings:
            effort = QUICK if options.quick else EFFORT[learner]
            record = measure(store, setting, learner, effort)
            print(
                f"{learner} {setting.name}: {record['succeeded']} of {record['runs']} with "
                f"{record['fit']} to fit, smallest {record['least_fit']}",
                file=sys.stderr,
            )
            records.append(record)
    text = f"{page(records)}\n\n{_notes(records, store.build)}\n"
    print(text)
    if not options.quick:
        (options.out / "plan.md").write_text(f"# The plan against the outcome\n\n{text}")
        summary = {"build": store.build, "settings": records}
        (options.out / "plan.json").write_text(json.dumps(summary, indent=1) + "\n")
    held = all(
        r["succeeded"] >= WANTED * r["runs"] and max(r["above"], r["above_fit"]) <= MOST_ABOVE
        for r in records
        if r["learner"] == "exact"
    )
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())
