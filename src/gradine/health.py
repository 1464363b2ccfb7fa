"""What Gradine finds where it is installed, and whether it works there."""

from __future__ import annotations

import importlib.util
import platform
import time
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

import gradine
from gradine.checks import whole_number
from gradine.engine import LostSchedulerError, one_thread, open_engine, usable_cores
from gradine.inputs import plant, sample_inputs
from gradine.learn import learn
from gradine.memory import allowed_bytes, installed_memory
from gradine.score import compare

__all__ = ["Dependency", "Health", "Trial", "examine", "self_test"]

PACKAGE = "gradine"
DEVELOPMENT = {"test", "bench", "docs"}  # extras that no user needs
# Four heads in 16 coordinates with examples for about four seconds of one core of 2026.
EXAMPLES, HEADS, DIM, SEQ_LEN, SCALE = 40_000, 4, 16, 4, 3.0


@dataclass(frozen=True)
class Dependency:
    """A package that Gradine needs, always or for one of its extras."""

    name: str
    wanted: str  #: the versions that will do, such as >=2.0
    found: str | None
    extra: str | None = None
    fits: bool = True

    def problem(self) -> str | None:
        """What is wrong with it, and what mends it; extras may be missing.

        >>> Dependency("numpy", ">=2.0", "1.26.4", fits=False).problem()
        "numpy is 1.26.4; expected >=2.0: pip install 'numpy>=2.0'"
        """
        mend = f"pip install '{self.name}{self.wanted}'"
        if self.found is None:
            return None if self.extra else f"{self.name} is missing; {mend}"
        return None if self.fits else f"{self.name} is {self.found}; expected {self.wanted}: {mend}"


@dataclass(frozen=True)
class Trial:
    """A layer that was planted, learned and compared with the truth.

    >>> Trial("learned", True, 1e-14, None, examples=1000, seconds=0.5).rate
    2000.0
    """

    status: str
    learned: bool
    theta_error: float | None
    certificate: str | None
    examples: int
    seconds: float

    @property
    def rate(self) -> float:
        """Examples a second."""
        return self.examples / max(self.seconds, 1e-9)


@dataclass(frozen=True)
class Health:
    """All that was found; ``problems`` is empty where all is well.

    >>> examine(trial=False).to_dict()["engines"]["serial"]
    'this process'
    """

    versions: dict[str, str]
    dependencies: tuple[Dependency, ...]
    engines: dict[str, str]
    threads: dict[str, Any]
    memory: dict[str, int | None]
    trial: Trial | None
    problems: tuple[str, ...]

    @property
    def extras(self) -> dict[str, list[str]]:
        """What is missing for each extra."""
        missing: dict[str, list[str]] = {item.extra: [] for item in self.dependencies if item.extra}
        for item in self.dependencies:
            if item.extra and (item.found is None or not item.fits):
                missing[item.extra].append(item.name)
        return missing

    def to_dict(self) -> dict[str, Any]:
        """As `gradine doctor --json` prints it."""
        told: dict[str, Any] = asdict(self) | {"extras_missing": self.extras}
        if self.trial is not None:
            told["trial"]["examples_per_second"] = self.trial.rate
        return told


def examine(scheduler: str | None = None, trial: bool = True) -> Health:
    """Look around, and learn a small layer unless ``trial`` is False.

    >>> health = examine(trial=False)
    >>> health.engines["serial"], health.trial
    ('this process', None)
    """
    dependencies = tuple(_dependencies())
    problems = [text for item in dependencies if (text := item.problem())]
    if not dependencies:
        problems.append(f"{PACKAGE} is not installed, only imported from a folder; pip install it")
    engines = {"serial": "this process", "pool": f"{usable_cores()} processes"}
    engines["dask"], trouble = _dask(scheduler)
    problems += trouble
    ended, trouble = _tried() if trial else (None, [])
    return Health(
        versions={
            PACKAGE: gradine.__version__,
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
        },
        dependencies=dependencies,
        engines=engines,
        threads={"cores": usable_cores(), "libraries": _libraries()},
        memory={
            "installed": installed_memory(),
            "available": _available(),
            "allowed": allowed_bytes(),
        },
        trial=ended,
        problems=(*problems, *trouble),
    )


def self_test(examples: int = EXAMPLES, seed: int = 0) -> Trial:
    """Plant a layer, learn it from so many examples, compare: a few seconds.

    >>> trial = self_test(examples=1000)
    >>> trial.learned, trial.theta_error < 1e-9
    (True, True)
    """
    whole_number("examples", examples, 1)
    truth = plant(HEADS, DIM, SCALE, seed=seed)
    X = sample_inputs(examples, SEQ_LEN, DIM, seed=seed + 1)  # not the numbers of the layer
    Y = truth(X)
    began = time.perf_counter()
    with one_thread():  # on a busy machine threads wait for each other, and say nothing of us
        fit = learn(X, Y, seed=seed)
    seconds = time.perf_counter() - began
    error = None
    if fit.layer is not None:
        error = float(compare(fit.layer, truth, seq_len=SEQ_LEN).theta_error.max())
    sentence = None if fit.certificate is None else fit.certificate.sentence()
    return Trial(fit.status.code, fit.learned, error, sentence, examples, seconds)


def _tried() -> tuple[Trial | None, list[str]]:
    try:
        return self_test(), []
    except Exception as error:  # whatever is broken here is what was to be found
        return None, [f"the self-test ended with {type(error).__name__}: {error}"]


def _dependencies() -> list[Dependency]:
    """Those of the installed package, as its metadata names them: there is no second list."""
    try:
        about = metadata.metadata(PACKAGE)
    except metadata.PackageNotFoundError:
        return []
    found = []
    for requirement in map(Requirement, metadata.requires(PACKAGE) or []):
        extras = set(about.get_all("Provides-Extra") or []) - DEVELOPMENT
        for extra in [None, *sorted(extras)]:
            marker = requirement.marker
            if marker is None or marker.evaluate({"extra": extra or ""}):
                found.append(_dependency(requirement, extra))
                break
    return found


def _dependency(requirement: Requirement, extra: str | None) -> Dependency:
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        version = None
    fits = version is not None and requirement.specifier.contains(version, prereleases=True)
    return Dependency(requirement.name, str(requirement.specifier), version, extra, fits)


def _dask(scheduler: str | None) -> tuple[str, list[str]]:
    """What there is of Dask; a scheduler that was named has to answer."""
    if importlib.util.find_spec("distributed") is None:
        trouble = [] if scheduler is None else ["Dask is missing; pip install 'gradine[cluster]'"]
        return "not installed (extra cluster)", trouble
    if scheduler is None:
        return "a cluster on this machine, or one that --scheduler names", []
    try:
        with open_engine("dask", scheduler=scheduler) as engine:
            return f"{scheduler} with {engine.workers} workers", []
    except (LostSchedulerError, ValueError) as error:
        return f"{scheduler} does not answer", [str(error)]


def _libraries() -> list[dict[str, Any]]:
    """Libraries of linear algebra that are loaded, and their threads."""
    import scipy.linalg  # noqa: F401 (only what is loaded can be seen)
    from threadpoolctl import threadpool_info

    return [
        {"name": item["internal_api"], "version": item["version"], "threads": item["num_threads"]}
        for item in threadpool_info()
    ]


def _available() -> int | None:
    """Bytes that programs can still have; None where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    sizes = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return 1024 * sizes[0] if sizes else None
