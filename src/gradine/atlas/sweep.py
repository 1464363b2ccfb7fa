"""Trials over a grid of two parameters, by all cores; what is done stays done."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine.atlas.axis import Axis, parse_axis
from gradine.atlas.learners import learner_of
from gradine.atlas.setting import Setting, make_setting
from gradine.atlas.store import TrialStore, trial_key
from gradine.atlas.trial import BY_DESCENT, LEARNERS, MapConfig, Trial, run_trial
from gradine.checks import whole_number
from gradine.engine import Engine, open_engine, run_all
from gradine.students.learn import require_torch

__all__ = ["Map", "MapConfig", "Progress", "sweep"]

FORMAT_VERSION = 1
MOST_TRIALS = 1_000_000  # of a map: weeks of work, and more than a picture can show


@dataclass(frozen=True)
class Progress:
    """Told when a trial is done."""

    done: int  #: those of an earlier run too
    total: int
    trial: Trial
    where: dict[str, Any]  #: the two parameters
    seconds_left: float  #: an estimate


Told = Callable[[Progress], None]


@dataclass(frozen=True, eq=False)
class Map:
    """Trials of all learners over a grid of two parameters.

    >>> from gradine.atlas.trial import run_trial
    >>> axes = (Axis("scale", (2.0,)), Axis("heads", (1,)))
    >>> setting = Setting(heads=1, dim=4, scale=2.0)
    >>> trials = {("exact", 0, 0): (run_trial(setting, "exact"),)}
    >>> made = Map(*axes, ("exact",), 1, {"dim": 4}, MapConfig(), trials)
    >>> made.success("exact").tolist(), made.table("exact", len).tolist(), made.false_certificates
    ([[1.0]], [[1.0]], 0)
    >>> made.to_dict()["learners"]["exact"]["endings"]
    {'learned': 1}
    """

    x: Axis
    y: Axis
    learners: tuple[str, ...]
    seeds: int  #: trials at each point
    fixed: dict[str, Any]  #: the other parameters, as far as they were set
    config: MapConfig
    trials: dict[tuple[str, int, int], tuple[Trial, ...]]  #: by learner, row of y, column of x

    def table(self, learner: str, value: Callable[[Sequence[Trial]], float]) -> NDArray[np.float64]:
        """A number of the trials at each point: (len(y), len(x))."""
        shape = len(self.y.values), len(self.x.values)
        return np.array(
            [[value(self.trials[learner, i, j]) for j in range(shape[1])] for i in range(shape[0])],
            dtype=np.float64,
        )

    def success(self, learner: str) -> NDArray[np.float64]:
        """The share of trials that succeed: (len(y), len(x))."""
        return self.table(learner, lambda trials: sum(t.success for t in trials) / len(trials))

    @property
    def false_certificates(self) -> int:
        """How many trials certified what is not so."""
        return sum(bool(t.false_certificate) for trials in self.trials.values() for t in trials)

    def to_dict(self) -> dict[str, Any]:
        """What results.json holds."""
        return {
            "format_version": FORMAT_VERSION,
            "x": asdict(self.x),
            "y": asdict(self.y),
            "trials": self.seeds,
            "set": self.fixed,
            "config": asdict(self.config),
            "false_certificates": self.false_certificates,
            "learners": {name: self._figures(name) for name in self.learners},
        }

    def _figures(self, learner: str) -> dict[str, Any]:
        """Row by row of y: shares, examples, and medians of seconds; and how runs ended."""
        own = [t for key, trials in self.trials.items() if key[0] == learner for t in trials]
        endings = sorted({t.status for t in own})
        return {
            "success": self.success(learner).tolist(),
            "certified": self.table(learner, lambda ts: sum(t.certified for t in ts)).tolist(),
            "false_certificates": sum(bool(t.false_certificate) for t in own),
            "examples": self.table(learner, lambda ts: ts[0].examples).tolist(),
            "seconds": self.table(
                learner, lambda ts: statistics.median(t.seconds for t in ts)
            ).tolist(),
            "endings": {name: sum(t.status == name for t in own) for name in endings},
        }


def sweep(
    x: Axis | str,
    y: Axis | str,
    learners: Sequence[str] = ("exact",),
    *,
    trials: int = 5,
    fixed: Mapping[str, Any] | None = None,
    config: MapConfig | None = None,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    workers: int | None = None,
    engine: Engine | None = None,
    told: Told | None = None,
    begun: Callable[[int, int], None] | None = None,
) -> Map:
    """Success of learners over two parameters, such as ``"scale:1:8"`` and ``"ratio:1:16"``.

    At each point every learner gets the same ``trials`` layers and examples, whose random numbers
    depend on the number of the trial alone; ``fixed`` are other parameters of the `Setting`. With
    ``folder`` each trial is kept there when it is done, and with ``resume`` those that are there
    are not done again. ``workers`` processes work side by side, by default as many as there are
    cores, or the workers of an ``engine``; who works does not change the answers. ``begun`` hears
    how many trials are done, and how many there are, and ``told`` of each as it ends. A script that
    uses more than one must guard its main part by ``if __name__ == "__main__"``, as always with
    processes.

    >>> made = sweep("scale:2,4", "ratio:0.5,8", trials=1, fixed={"dim": 4}, workers=1)
    >>> made.success("exact").tolist(), made.false_certificates
    ([[0.0, 0.0], [1.0, 1.0]], 0)
    """
    config = MapConfig() if config is None else config
    plan = _Plan(x, y, learners, trials, dict(fixed or {}), config)
    store = TrialStore(folder, resume=resume)
    missing = [task for task in plan.tasks if store.get(task.key) is None]
    done, began = len(plan.tasks) - len(missing), time.perf_counter()
    if begun is not None:
        begun(done, len(plan.tasks))
    with open_engine("auto", workers) if engine is None else nullcontext(engine) as crew:
        for count, (place, trial) in enumerate(run_all(_work, missing, crew), start=1):
            task = missing[place]
            store.put(task.key, task.setting, trial)
            if told is not None:
                left = (time.perf_counter() - began) / count * (len(missing) - count)
                told(Progress(done + count, len(plan.tasks), trial, plan.where(task), left))
    return plan.collect(store)


@dataclass(frozen=True)
class _Task:
    """One trial to be done, and its place on the map."""

    setting: Setting
    learner: str
    seed: int
    config: MapConfig
    row: int
    column: int

    @property
    def key(self) -> str:
        return trial_key(self.setting, self.learner, self.seed, self.config)


def _work(task: _Task) -> Trial:
    return run_trial(task.setting, task.learner, task.seed, task.config)


class _Plan:
    """Everything that is asked for, checked before anything is done."""

    def __init__(
        self,
        x: Axis | str,
        y: Axis | str,
        learners: Sequence[str],
        trials: int,
        fixed: dict[str, Any],
        config: MapConfig,
    ) -> None:
        self.x, self.y = (parse_axis(axis) if isinstance(axis, str) else axis for axis in (x, y))
        self.learners, self.fixed, self.config = tuple(dict.fromkeys(learners)), fixed, config
        self.seeds = whole_number("trials", trials, 1)
        self._check()
        total = len(self.x.values) * len(self.y.values) * len(self.learners) * self.seeds
        if total > MOST_TRIALS:
            raise ValueError(
                f"the map has {total:,} trials; expected at most {MOST_TRIALS:,}: fewer values "
                "or trials"
            )
        # One trial everywhere before the next one: a map that is stopped early is a coarse one.
        self.tasks = [
            _Task(setting, learner, seed, config, i, j)
            for seed in range(self.seeds)
            for (i, j), setting in self._settings().items()
            for learner in self.learners
        ]

    def _check(self) -> None:
        if self.x.name == self.y.name:
            raise ValueError(f"both axes are {self.x.name}; expected two parameters")
        for axis in (self.x, self.y):
            if axis.name in self.fixed:
                raise ValueError(f"{axis.name} is set, but it is an axis: leave it out")
        if not self.learners:
            raise ValueError(f"no learner is named; expected some of {', '.join(LEARNERS)}")
        for name in self.learners:
            learner_of(name)
            if name in BY_DESCENT:
                require_torch(f"learner {name!r}")

    def _settings(self) -> dict[tuple[int, int], Setting]:
        return {
            (i, j): make_setting({**self.fixed, self.x.name: at_x, self.y.name: at_y})
            for i, at_y in enumerate(self.y.values)
            for j, at_x in enumerate(self.x.values)
        }

    def where(self, task: _Task) -> dict[str, Any]:
        return {
            self.x.name: self.x.values[task.column],
            self.y.name: self.y.values[task.row],
        }

    def collect(self, store: TrialStore) -> Map:
        """All trials in the order of the grid, whatever the order they were done in."""
        found: dict[tuple[str, int, int], list[Trial]] = {}
        for task in self.tasks:
            trial = store.get(task.key)
            assert trial is not None
            found.setdefault((task.learner, task.row, task.column), []).append(trial)
        trials = {key: tuple(own) for key, own in found.items()}
        return Map(self.x, self.y, self.learners, self.seeds, self.fixed, self.config, trials)
