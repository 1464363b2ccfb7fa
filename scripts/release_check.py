"""Build the wheel and the sdist, and see that both work where nothing else is installed.

    python scripts/release_check.py

The version must follow the tags. The wheel is installed with the lowest versions that
pyproject.toml allows, the sdist with the newest ones that there are, each into an environment of
its own; in both the smoke test below must pass. Packages come from the index that pip uses.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUILD_TOOLS = ("build", "hatchling", "hatch-vcs")
LOWER_BOUND = re.compile(r"(?P<name>[\w.-]+)\s*>=\s*(?P<version>[\w.]+)")
SMOKE = (
    "gradine --version",
    "gradine --help",
    "gradine doctor --json",
    "gradine plant --heads 1 --dim 6 --scale 3 --seed 1 --out layer.safetensors",
    "gradine sample layer.safetensors --examples 8000 --seq-len 3 --seed 2 --out data.npz",
    "gradine learn data.npz --out run --truth layer.safetensors --json",
    "gradine learn data.npz --method sculpt --out phases --json",
    "gradine query --oracle layer.safetensors --out asked --json",
    "gradine compare run/layer.safetensors layer.safetensors --seq-len 3 --json",
    "gradine check layer.safetensors --seq-len 3 --json",
    "gradine plan --heads 2 --dim 6 --seq-len 3 --scale 3 --json",
)
ESTIMATOR = """
import gradine, numpy
public = [getattr(gradine, name) for name in gradine.__all__]
X = numpy.random.default_rng(0).standard_normal((50, 4, 3))
assert numpy.isfinite(gradine.RandomFeatureAttention(n_heads=5).fit(X, X[:, 0, 0]).predict(X)).all()
"""
WRITTEN = ("run/layer.safetensors", "run/report.html", "asked/result.json")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="the Python of the environments")
    parser.add_argument("--only", choices=("lowest", "newest"), help="one environment alone")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="gradine-release-") as folder:
        place = Path(folder)
        tools = make_environment(options.python, place / "tools", BUILD_TOOLS)
        for case, version in versions(tools, place).items():
            print(f"version {case}: {version}")
        wheel, sdist = build(tools, place / "dist")
        print(f"built {wheel.name} ({kilobytes(wheel)}), {sdist.name} ({kilobytes(sdist)})")
        trials = {"lowest": [str(wheel), *lowest()], "newest": [str(sdist)]}
        for name, requirements in trials.items():
            if options.only in (None, name):
                began = time.perf_counter()
                python = make_environment(options.python, place / name, requirements)
                installed = time.perf_counter() - began
                smoke_test(python, place / f"{name}-work")
                took = time.perf_counter() - began - installed
                print(f"{name}: installed in {installed:.0f} s, smoke test passed in {took:.0f} s")
                print(f"  {', '.join(frozen(python))}")
    return 0


def run(*command: object, where: Path | None = None) -> str:
    """Standard output of a command; what it said where it fails."""
    done = subprocess.run(list(map(str, command)), cwd=where, capture_output=True, text=True)
    if done.returncode != 0:
        said = f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{said}")
    return done.stdout


def make_environment(python: str, folder: Path, requirements: Sequence[str]) -> Path:
    """The Python of a new environment with these and what they need, and nothing else."""
    run(python, "-m", "venv", folder)
    own = folder / "bin" / "python"
    run(own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements)
    return own


def versions(python: Path, place: Path) -> dict[str, str]:
    """The versions that builds get in clones: with no tag, at a tag, after it, without git."""
    clone = place / "clone"
    run("git", "clone", "--quiet", ROOT, clone)
    shutil.copy(ROOT / "pyproject.toml", clone)
    git = ("git", "-c", "user.name=release", "-c", "user.email=release@localhost")
    run(*git, "commit", "--quiet", "--allow-empty", "--all", "-m", "as it is here", where=clone)

    def version() -> str:
        return run(python, "-m", "hatchling", "version", where=clone).strip()

    found = {"of this tree": version()}
    run(*git, "tag", "v98.7.6", where=clone)
    found["at tag v98.7.6"] = version()
    run(*git, "commit", "--quiet", "--allow-empty", "-m", "next", where=clone)
    found["one commit later"] = version()
    shutil.rmtree(clone / ".git")
    found["without git"] = version()
    for case, expected in (("at tag v98.7.6", "98.7.6"), ("one commit later", "98.7.7.dev1")):
        if found[case] != expected:
            raise SystemExit(f"version {case} is {found[case]}; expected {expected}")
    return found


def build(python: Path, dist: Path) -> tuple[Path, Path]:
    """The sdist of this tree, and the wheel that is made from it."""
    run(python, "-m", "build", "--outdir", dist, ROOT)
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    return wheel, sdist


def lowest() -> list[str]:
    """The lowest version of each dependency, pinned.

    >>> any(pin.startswith("numpy==") for pin in lowest())
    True
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = [LOWER_BOUND.fullmatch(text) for text in project["dependencies"]]
    return [f"{bound['name']}=={bound['version']}" for bound in found if bound is not None]


def smoke_test(python: Path, work: Path) -> None:
    """Run the commands as a user would, in an empty folder; all must succeed."""
    work.mkdir()
    run(python, "-m", "pip", "check", where=work)
    for line in SMOKE:
        program, *arguments = line.split()
        said = run(python.parent / program, *arguments, where=work)
        if "--json" in arguments:
            json.loads(said)
    missing = [name for name in WRITTEN if not (work / name).exists()]
    if missing:
        raise SystemExit(f"{', '.join(missing)} should have been written")
    run(python, "-c", ESTIMATOR, where=work)


def frozen(python: Path) -> list[str]:
    listed = run(python, "-m", "pip", "list", "--format", "freeze", "--disable-pip-version-check")
    return [line for line in listed.splitlines() if not line.startswith(("pip=", "setuptools="))]


def kilobytes(path: Path) -> str:
    return f"{path.stat().st_size / 1e3:,.0f} kB"


if __name__ == "__main__":
    sys.exit(main())
