"""How much memory a run over a folder of examples takes: `python -m benchmarks.memory`.

The examples are written in blocks to a temporary folder; a process of its own learns from them and
says how much memory it had in use at most. Data may be larger than memory, so the peak must not
grow with it: the target is 1 GiB for a million examples (which take as much on disk).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["main", "measure_memory", "peak_bytes", "run_child"]

RESULTS = Path(__file__).parent / "results"
SEQ_LEN, DIM, HEADS, SCALE = 4, 16, 2, 3.0
EXAMPLES = 1_000_000
TARGET = 2**30  # bytes
SOLVERS = ("gradine.learn", "piqp", "scipy.optimize", "scipy.linalg", "safetensors.numpy")


def measure_memory(examples: int, seed: int = 0) -> dict[str, Any]:
    """Write the examples, learn from them in a child process, and collect what it says."""
    import gradine
    from benchmarks.instances import write_examples

    truth = gradine.plant(HEADS, DIM, SCALE, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        write_examples(data, truth, (examples, SEQ_LEN), seed=seed + 1)
        size = sum(path.stat().st_size for path in data.iterdir())
        found = run_child("benchmarks.memory", "--child", folder, "--seed", str(seed))
        learned = Path(folder) / "layer.safetensors"
        theta_error = None
        if learned.exists():
            match = gradine.compare(gradine.AttentionLayer.load(learned), truth, seq_len=SEQ_LEN)
            theta_error = float(match.theta_error.max())
    return {"examples": examples, "data_bytes": size, "theta_error": theta_error, **found}


def run_child(module: str, *arguments: str) -> dict[str, Any]:
    """Run a module in a process of its own; it prints one JSON object."""
    answer = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    return json.loads(answer.stdout)


def learn_in_child(folder: Path, seed: int) -> dict[str, Any]:
    """What the child does: learn, with the phases saved as a user's run would save them."""
    import importlib

    for name in SOLVERS:
        importlib.import_module(name)
    after_imports = peak_bytes()

    from gradine.examples import open_examples
    from gradine.learn import learn_examples

    fit = learn_examples(open_examples(folder / "data"), seed=seed, records=folder)
    if fit.layer is not None:
        fit.layer.save(folder / "layer.safetensors")
    carving = fit.phases.get("sculpt")
    rows = fit.examples_used * SEQ_LEN
    return {
        "status": fit.status.code,
        "reason": fit.reason,
        "imports_bytes": after_imports,
        "peak_bytes": peak_bytes(),
        "seconds": fit.seconds,
        "phase_seconds": {name: result.seconds for name, result in fit.phases.items()},
        "sculpt_rows_per_second": 0.0 if carving is None else rows / carving.seconds,
    }


def peak_bytes() -> int:
    """The most memory this process had in use.

    Linux carries the ru_maxrss of a parent over into the child it starts, so the kernel's own
    high-water mark of this program is asked first.
    """
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def report(found: dict[str, Any]) -> str:
    from benchmarks.text import markdown

    mib = {name: f"{found[name] / 2**20:,.0f} MiB" for name in found if name.endswith("_bytes")}
    holds = "holds" if found["peak_bytes"] < TARGET else "MISSED"
    theta = "-" if found["theta_error"] is None else f"{found['theta_error']:.1e}"
    lines = [
        ("examples", f"{found['examples']:,}"),
        ("data on disk, X.npy and Y.npy", mib["data_bytes"]),
        ("memory after imports", mib["imports_bytes"]),
        ("peak memory", mib["peak_bytes"]),
        (f"target: below {TARGET / 2**30:g} GiB", holds),
        ("outcome", found["status"]),
        ("theta_error", theta),
        ("rows a second while carving", f"{found['sculpt_rows_per_second']:,.0f}"),
        ("seconds in all", f"{found['seconds']:.1f}"),
        *((f"seconds, {name}", f"{spent:.2f}") for name, spent in found["phase_seconds"].items()),
    ]
    instance = (
        f"{HEADS} heads, {SEQ_LEN} tokens, dim {DIM}, scale {SCALE:g}, +-1 inputs, the number of "
        "heads not given; 2 cores. Peak memory is that of the process that learns."
    )
    return f"# Memory\n\n{markdown(('', 'measured'), lines)}\n\n{instance}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks.memory", description=(__doc__ or "").strip())
    parser.add_argument("--examples", type=int, default=EXAMPLES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, help="markdown file; a full run keeps results/memory.md"
    )
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child is not None:
        print(json.dumps(learn_in_child(options.child, options.seed)))
        return 0
    text = report(measure_memory(options.examples, options.seed))
    print(text)
    out = options.out or (RESULTS / "memory.md" if options.examples == EXAMPLES else None)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
