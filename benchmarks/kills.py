"""Runs that are killed, or stopped by Ctrl-C, at random moments: `python -m benchmarks.kills`.

Every run is then resumed, and must come to the bits of an unbroken one. Each is kept in
results/kills.jsonl as it is done: a benchmark that is killed itself goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import matplotlib.font_manager  # noqa: F401 (else each run looks for fonts)
import numpy as np

import gradine
from benchmarks.store import Store
from benchmarks.striking import Forked, interrupted, killed, struck
from benchmarks.text import markdown
from gradine.__main__ import main as gradine_main
from gradine.cli import features
from gradine.engine import bookmark, one_thread
from gradine.files import write_json, write_text

__all__ = ["main", "page"]

RESULTS = Path(__file__).parent / "results"
KILLS, INTERRUPTS = 200, 40
TRIES = 20  # moments that are drawn before a run counts as too short
STRIKES: dict[str, Callable[[Any], bool]] = {"kill -9": killed, "Ctrl-C": interrupted}
MAP = ["map", "--x", "scale:1,2", "--y", "ratio:4,8", "--learner", "exact", "--trials", "2"]
MAP += ["--set", "heads=1", "--set", "dim=3", "--engine", "serial"]
#: Runs of a second or two, by name.
RUNS: dict[str, list[str]] = {
    "learn, exact": ["learn", "data.npz", "--method", "exact", "--no-report", "--engine", "serial"],
    "learn, sculpt": ["learn", "data.npz", "--method", "sculpt", "--heads", "1", "--no-report"],
    "query": ["query", "--oracle", "truth.safetensors", "--no-report"],
    "map": MAP,
    "features": ["features", "--quick", "--figure", "bridge"],
}


def prepare(folder: Path) -> None:
    """Data that all runs share, and settings under which they take a second."""
    truth = gradine.plant(1, 6, 3.0, seed=1)
    truth.save(folder / "truth.safetensors")
    X = gradine.sample_inputs(8000, 3, 6, seed=2)
    np.savez(folder / "data.npz", X=X, Y=truth(X))
    bookmark.SHORT = 0.0  # short passes are kept, too
    small = {"n_heads": 10, "n_neurons": 50, "seeds": 1, "dim": 4, "n_keys": 4}
    sizes = {"sizes": (32, 64), "choosing": 50, "testing": 100}
    features.QUICK = replace(features.QUICK, **small, **sizes)


def answer(out: Path) -> str:
    """A digest of all that a run came to, but not of how long it took."""
    digest = hashlib.sha256()
    for name in ("result.json", "results.json"):
        if (out / name).exists():
            told = _timeless(json.loads((out / name).read_text()))
            digest.update(json.dumps(told, sort_keys=True).encode())
    layer = out / "layer.safetensors"
    digest.update(layer.read_bytes() if layer.exists() else b"")
    return digest.hexdigest()


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if "seconds" not in k}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


def unbroken(name: str, folder: Path) -> dict[str, Any]:
    began = time.monotonic()
    out = folder / f"unbroken {name}"
    code = _run(name, folder, out).wait()
    return {"answer": answer(out), "code": code, "wall": time.monotonic() - began}


def _run(name: str, folder: Path, out: Path, *more: str) -> Forked:
    line = [str(folder / part) if (folder / part).is_file() else part for part in RUNS[name]]

    def work() -> int:
        sys.argv = ["gradine", *line, "--out", str(out), *more]
        return gradine_main()

    return Forked(work, out.with_suffix(".log"))


def _said(out: Path) -> str:
    log = out.with_suffix(".log")  # one that was killed at once has none
    return log.read_text(errors="replace") if log.exists() else ""


def broken(
    kind: str, name: str, seed: int, calm: dict[str, Any], folder: Path, own: Path
) -> dict[str, Any]:
    """One run that is struck at a random moment and resumed; another moment if it came too late."""
    chance = Random(f"{kind} {name} {seed}")
    for attempt in range(TRIES):
        out = own.with_name(f"{own.name} {attempt}")
        process = _run(name, folder, out)
        moment = chance.uniform(0.0, calm["wall"])
        came = struck(process, STRIKES[kind], moment)
        code = process.wait()
        said = _said(out)
        if not came or code == calm["code"]:
            continue
        clean = kind == "kill -9" or (
            code == 130 and "Traceback" not in said and "gradine: stopped" in said
        )
        parts = [path.name for path in out.rglob("*") if path.is_file()] if out.exists() else []
        resumed = _run(name, folder, out, "--resume").wait()
        same = resumed == calm["code"] and answer(out) == calm["answer"]
        if not (same and clean):
            said += _said(out)
        found = {"moment": moment, "files": len(parts), "same": same, "clean": clean}
        return found | ({} if same and clean else {"said": said[-2000:], "codes": [code, resumed]})
    raise RuntimeError(f"{name} ended before its fault {TRIES} times")


def page(found: list[dict[str, Any]]) -> str:
    rows = []
    for kind in STRIKES:
        for name in RUNS:
            own = [one for one in found if one["key"][:2] == [kind, name]]
            same, clean = (sum(one[what] for one in own) for what in ("same", "clean"))
            part = sum(one["files"] > 0 for one in own)
            rows.append((kind, name, str(len(own)), str(part), str(same), str(clean)))
    kills = [one for one in found if one["key"][0] == "kill -9"]
    same = sum(one["same"] for one in kills)
    stops = [one for one in found if one["key"][0] == "Ctrl-C"]
    clean = sum(one["same"] and one["clean"] for one in stops)
    header = ("fault", "run", "struck", "with files on disk", "same answer", "ended cleanly")
    return (
        f"# Runs that are killed\n\n{len(kills)} random kills, {same} resumes with the same "
        f"answer; {len(stops)} times Ctrl-C, {clean} with exit code 130, one line and the same "
        f"answer after --resume.\n\n{markdown(header, rows)}\n"
    )


class _Struck:
    """Runs in one folder; each kind is run unbroken once, when it is first needed."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._calm = folder, {}
        prepare(folder)

    def work(self, kind: str, run: str, seed: int) -> Callable[[], dict[str, Any]]:
        def struck_once() -> dict[str, Any]:
            own = self._folder / f"{kind} {run} {seed}"
            if run not in self._calm:
                self._calm[run] = unbroken(run, self._folder)
            return broken(kind, run, seed, self._calm[run], self._folder, own)

        return struck_once


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks.kills", description=(__doc__ or "").strip())
    parser.add_argument("--quick", action="store_true", help="a few, to see that it runs")
    parser.add_argument("--runs", nargs="*", default=list(RUNS), choices=list(RUNS))
    parser.add_argument("--kills", type=int, help=f"in all; {KILLS} by default")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of kills.json, kills.md")
    options = parser.parse_args(arguments)
    kills = options.kills or (len(options.runs) if options.quick else KILLS)
    stops = len(options.runs) if options.quick else max(kills * INTERRUPTS // KILLS, 1)
    store = Store(options.out / "kills.jsonl", ["kills.py", "striking.py"], fresh=options.quick)
    found: list[dict[str, Any]] = []
    numbers = zip(STRIKES, (kills, stops), strict=True)
    wanted = [(kind, seed) for kind, number in numbers for seed in range(number)]
    with tempfile.TemporaryDirectory() as name, one_thread():
        struck_runs = _Struck(Path(name))
        for kind, seed in wanted:
            run = options.runs[seed % len(options.runs)]
            found.append(store.once(struck_runs.work(kind, run, seed), kind, run, seed))
            print(f"{len(found):>4}/{len(wanted)}  {kind}: {run}", file=sys.stderr, flush=True)
    text = page(found)
    write_json(options.out / "kills.json", {"build": store.build, "runs": found})
    write_text(options.out / "kills.md", text)
    print(text)
    return 0 if all(one["same"] and one["clean"] for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
