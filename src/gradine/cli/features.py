"""`gradine features`: the figures of random-feature attention."""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gradine.cli.console import STOPPED, Ending, print_json, tell
from gradine.cli.options import AsJson, Overwrite
from gradine.cli.story import with_examples
from gradine.features.experiments import (
    BRIDGE,
    FIGURES,
    FULL,
    QUICK,
    Part,
    Setting,
    Unit,
    measure,
    targets,
    units_of,
)
from gradine.features.findings import findings
from gradine.files import finite, read_json, write_json
from gradine.progress.display import terminal_bar
from gradine.report.feature_pictures import draw_figures
from gradine.runs import check_own, output_folder

__all__ = ["features"]

RESULTS = "results.json"
UNITS = "units"
WRITTEN = (RESULTS, *(f"{name}.{kind}" for name in FIGURES for kind in ("svg", "png")))


class Figure(StrEnum):
    """What is measured."""

    powers = "powers"
    correlation = "correlation"
    gamma = "gamma"
    bridge = "bridge"
    all = "all"


@with_examples(
    "gradine features --figure correlation --quick --out figures",
    "gradine features --figure all --out figures --resume",
)
def features(
    out: Annotated[Path, typer.Option("--out", help="Where results and figures go.")],
    figure: Annotated[Figure, typer.Option("--figure", help="Which experiment.")] = Figure.all,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few heads, few examples, three seeds: seconds.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the experiments in the folder.")
    ] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Measure test errors of random-feature attention.

    It stands beside its biased form and a random network. Errors are measured against the number
    of examples, over several seeds. The folder then holds results.json and a picture of each
    figure. The whole takes an hour or two: a stopped run continues with --resume, seed by seed.
    """
    setting = QUICK if quick else FULL
    figures = list(FIGURES) if figure is Figure.all else [figure.value]
    if resume and overwrite:
        raise ValueError("--resume and --overwrite were both given; expected at most one of them")
    with output_folder(out) as folder:
        held = _Held(folder, setting, resume, overwrite)
        try:
            held.whole()  # a damaged one is said before hours are spent on others
            _measure(figures, setting, held)
            units, figures = held.whole()
            found = findings(units, setting, figures)
            pictures = draw_figures(found, folder)
            write_json(folder / RESULTS, finite(found))
        except KeyboardInterrupt:
            raise Ending(STOPPED, "stopped; continue with --resume") from None
    if as_json:
        print_json(found | {"out": str(out)})
        return
    for line in _lines(found):
        print(line)
    print(f"written to {out}: {RESULTS}, {', '.join(path.name for path in pictures)}")


class _Held:
    """Units that the folder holds; each is written when it is done."""

    def __init__(self, folder: Path, setting: Setting, resume: bool, overwrite: bool) -> None:
        self.folder, self.setting = folder / UNITS, setting
        self.written = json.loads(json.dumps(asdict(setting)))
        if self.folder.is_symlink() or (self.folder.exists() and not self.folder.is_dir()):
            raise ValueError(f"{self.folder}: is in the way of a folder for experiments")
        earlier = sorted(self.folder.glob("*.json"))
        check_own(folder, WRITTEN, any(map(_is_unit, earlier)), overwrite)
        if overwrite:
            ours = {self.path(*key) for size in (QUICK, FULL) for key in units_of(FIGURES, size)}
            units = (path for path in earlier if path in ours or _is_unit(path))
            for path in (*units, *(folder / name for name in WRITTEN)):
                path.unlink(missing_ok=True)
        elif earlier and not resume:
            raise ValueError(
                f"{folder}: holds earlier experiments; "
                "continue them with --resume or replace them with --overwrite"
            )

    def path(self, part: Part, model: str, seed: int) -> Path:
        return self.folder / f"{part}-{model.replace(' ', '-')}-{seed}.json"

    def get(self, part: Part, model: str, seed: int) -> Unit | None:
        """The unit, if there is one; its file may come from anywhere."""
        path = self.path(part, model, seed)
        if not path.exists():
            return None
        try:
            value = read_json(path)
            unit = Unit.from_dict(value["unit"])
            sound, setting = self._sound(unit, (part, model, seed)), value["setting"]
        except (ValueError, KeyError, TypeError, AttributeError):
            sound, setting, unit = False, None, None
        if not sound or unit is None:
            raise ValueError(f"{path}: damaged; remove it to have it measured again")
        lengths = {len(n) for curve in unit.curves.values() for n in (curve.errors, curve.alphas)}
        if setting != self.written or lengths != {len(self.setting.sizes_of(part))}:
            raise ValueError(
                f"{path}: measured with other sizes; choose another folder or --overwrite"
            )
        return unit

    def _sound(self, unit: Unit, key: tuple[Part, str, int]) -> bool:
        """Whether it is the unit that was asked for, of known targets and real numbers."""
        part, _, seed = key
        known = targets(FIGURES, self.setting.dim, seed) if part == "targets" else (BRIDGE,)
        curves = unit.curves.values()
        numbers = [unit.seconds, *(n for c in curves for n in (*c.errors, *c.alphas))]
        return (
            (unit.part, unit.model, unit.seed) == key
            and set(unit.curves) <= set(known)
            and all(isinstance(n, float) and 0.0 <= n < math.inf for n in numbers)
        )

    def put(self, unit: Unit) -> None:
        self.folder.mkdir(exist_ok=True)
        write_json(
            self.path(unit.part, unit.model, unit.seed),
            {"setting": self.written, "unit": unit.to_dict()},
        )

    def whole(self) -> tuple[list[Unit], list[str]]:
        """All units, and the figures that they have everything of."""
        units, figures = {}, []
        for key in units_of(FIGURES, self.setting):
            unit = self.get(*key)
            if unit is not None:
                units[key] = unit
        for figure in FIGURES:
            keys = units_of([figure], self.setting)
            if all(key in units and figure in _figures(units[key]) for key in keys):
                figures.append(figure)
        return list(units.values()), figures


def _is_unit(path: Path) -> bool:
    """Whether experiments left it, be it of other sizes or damaged within."""
    try:
        return {"setting", "unit"} <= set(read_json(path))
    except (ValueError, OSError):
        return False


def _figures(unit: Unit | None) -> set[str]:
    return set() if unit is None else {name.split("/")[0] for name in unit.curves}


def _measure(figures: list[str], setting: Setting, held: _Held) -> None:
    """What is missing of all units; an earlier run's figures stay beside the new ones."""
    wanted = units_of(figures, setting)
    for i, (part, model, seed) in enumerate(wanted):
        earlier, began = held.get(part, model, seed), time.perf_counter()
        own = [figure for figure in figures if (figure == "bridge") == (part == "bridge")]
        missing = [figure for figure in own if figure not in _figures(earlier)]
        if missing:
            with _Bar(f"{part}: {model}, seed {seed}") as bar:
                unit = measure(part, model, seed, setting, missing, bar)
            if earlier is not None:
                seconds = earlier.seconds + unit.seconds
                curves = {**earlier.curves, **unit.curves}
                unit = replace(unit, curves=curves, seconds=seconds)
            held.put(unit)
        ending = f"{time.perf_counter() - began:.1f} s" if missing else "recalled"
        tell(f"{i + 1:>3}/{len(wanted)}  {part}: {model}, seed {seed}  ({ending})")


class _Bar:
    """A bar on a terminal, nothing elsewhere."""

    def __init__(self, name: str) -> None:
        self._bar = terminal_bar(name, total=1.0)

    def __enter__(self) -> _Bar:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, share: float) -> None:
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=share)


def _lines(found: dict[str, Any]) -> list[str]:
    """Medians at the largest number of examples, and slopes."""
    lines = ["test error over variance, median over seeds (slope against n)"]
    for figure, entries in found["figures"].items():
        for name, entry in entries.items():
            told = [
                f"{model} {curve['median'][-1]:.3g} ({_slope(curve['slope'])})"
                for model, curve in entry["models"].items()
            ]
            n = next(iter(entry["models"].values()))["n"][-1]
            lines.append(f"  {figure:<12} {name:<10}  n = {n:<6,}  {'   '.join(told)}")
    return lines


def _slope(value: float | None) -> str:
    """One size alone, or an error of nothing, has no slope."""
    return "-" if value is None or not math.isfinite(value) else f"{value:+.2f}"
