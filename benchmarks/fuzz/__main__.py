"""Hostile input: `python -m benchmarks.fuzz [--quick] [--inputs N]`.

Every input follows from the seed and its number: `--only 1234` tries one again, and shows its
traceback if it has one. Batches run in processes of their own, so that a crash is one finding.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradine
from benchmarks.fuzz.child import ALL, MARGIN, batch, limits, one_input, run
from benchmarks.fuzz.corpus import Corpus, make_corpus
from benchmarks.store import Store
from benchmarks.text import markdown
from gradine.engine import one_thread
from gradine.files import write_json, write_text

__all__ = ["main", "page"]

RESULTS = Path(__file__).parent.parent / "results"
INPUTS, QUICK_INPUTS, BATCH = 100_000, 300, 1000
MEASURED_BY = [f"fuzz/{name}.py" for name in ("mutate", "corpus", "files", "learning", "commands")]
MEASURED_BY += ["fuzz/child.py"]
GOOD = ("read", "refused", "done", "learned", "not learned")


def run_batch(seed: int, start: int, stop: int, corpus: Corpus) -> dict[str, Any]:
    """All inputs of a batch; one that ends its process is a finding, and the rest go on."""
    told: dict[str, Any] = {"counts": Counter(), "findings": [], "grown_bytes": 0, "seconds": 0.0}
    while start < stop:
        with tempfile.TemporaryFile() as progress, tempfile.TemporaryFile() as whole:
            child = os.fork()
            if child == 0:
                _in_child(seed, start, stop, corpus, progress.fileno(), whole)
            status = os.waitpid(child, 0)[1]
            whole.seek(0)
            text = whole.read()
            if os.waitstatus_to_exitcode(status) == 0 and text:
                found = json.loads(text)
                told["counts"].update(found["counts"])
                told["findings"] += found["findings"]
                told["grown_bytes"] = max(told["grown_bytes"], found["grown_bytes"])
                told["seconds"] += found["seconds"]
                return told
            at = int(os.pread(progress.fileno(), 12, 0) or start)
        # Those before it were sound, or will be found again: only they are counted here.
        told["findings"].append(
            {"index": at, "family": "?", "finding": f"crash: {os.waitstatus_to_exitcode(status)}"}
        )
        told["counts"].update({"?/crash": 1, "?/before a crash": at - start})
        start = at + 1
    return told


def _in_child(seed: int, start: int, stop: int, corpus: Corpus, progress: int, whole: Any) -> None:
    code = 1
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        batch(seed, start, stop, corpus, progress, whole)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def total(batches: list[dict[str, Any]]) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    for found in batches:
        counts.update(found["counts"])
    return {
        "inputs": sum(counts.values()),
        "counts": dict(sorted(counts.items())),
        "findings": [finding for found in batches for finding in found["findings"]],
        "grown_bytes": max(found["grown_bytes"] for found in batches),
        "seconds": sum(found["seconds"] for found in batches),
        "version": gradine.__version__,
    }


def page(found: dict[str, Any]) -> str:
    """The table by family, and what was found."""
    rows = []
    for family in [*ALL, "?"]:
        own = {
            k.partition("/")[2]: n for k, n in found["counts"].items() if k.split("/")[0] == family
        }
        if own:
            bad = sum(n for outcome, n in own.items() if outcome not in GOOD)
            numbers = [own.get(outcome, 0) for outcome in GOOD]
            rows.append((family, *(f"{n:,}" for n in (sum(own.values()), *numbers, bad))))
    outcomes = Counter(key.partition("/")[2] for key in found["counts"])
    for key, n in found["counts"].items():
        outcomes[key.partition("/")[2]] += n - 1
    wrong, bad = outcomes["wrong learned"], len(found["findings"])
    crashes, tracebacks = outcomes["crash"], outcomes["traceback"]
    header = ("input", "tried", *GOOD, "else")
    lines = [
        "# Hostile input\n",
        f"{found['inputs']:,} fuzzed inputs: {crashes} crashes, {tracebacks} tracebacks, {wrong} "
        f'wrong "learned"; {bad} findings in all. {found["seconds"] / 60:.0f} minutes of one core; '
        f"a process grew by at most {found['grown_bytes'] / 2**20:.0f} MiB (limit "
        f"{MARGIN / 2**20:.0f} MiB).\n",
        markdown(header, rows),
    ]
    lines += [f"\n- {f['index']} ({f['family']}): {f['finding']}" for f in found["findings"][:50]]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks.fuzz", description=(__doc__ or "").strip())
    parser.add_argument("--quick", action="store_true", help="a few hundred, to see that it runs")
    parser.add_argument("--inputs", type=int, help=f"how many; {INPUTS} by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="one input, in this process, and its traceback")
    parser.add_argument("--fresh", action="store_true", help="forget what was tried before")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of fuzz.json, fuzz.md")
    options = parser.parse_args(arguments)
    inputs = options.inputs or (QUICK_INPUTS if options.quick else INPUTS)
    with tempfile.TemporaryDirectory(prefix="gradine-corpus-") as folder, one_thread():
        corpus = make_corpus(Path(folder))
        if options.only is not None:
            return _again(options.seed, options.only, corpus, Path(folder))
        store = Store(options.out / "fuzz.jsonl", MEASURED_BY, fresh=options.fresh)
        batches = []
        for start in range(0, inputs, BATCH):
            stop = min(start + BATCH, inputs)
            key = (options.seed, start, stop)
            batches.append(store.once(lambda key=key: run_batch(*key, corpus), *key))
            bad = sum(len(found["findings"]) for found in batches)
            print(f"{stop:>7}/{inputs}  {bad} findings", file=sys.stderr, flush=True)
    found = total(batches)
    write_json(options.out / "fuzz.json", {**found, "build": store.build, "seed": options.seed})
    text = page(found)
    write_text(options.out / "fuzz.md", text)
    print(text)
    return 1 if found["findings"] else 0


def _again(seed: int, index: int, corpus: Corpus, folder: Path) -> int:
    limits()
    (folder / "again" / "out").mkdir(parents=True)
    family, case = one_input(seed, index, corpus, folder / "again")
    print(family, case.command)
    os.chdir(folder / "again" / "out")
    print(run(case, family))
    os.chdir("/")
    return 0


if __name__ == "__main__":
    multiprocessing.set_start_method("fork", force=True)
    sys.exit(main())
