"""`gradine features`: the figures of random-feature attention."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from gradine.cli.console import STOPPED, Ending, print_json, tell
from gradine.cli.options import AsJson, Overwrite
from gradine.features.experiments import FIGURES, FULL, QUICK, Setting, Unit, measure, units_of
from gradine.features.figures import draw_figures
from gradine.features.findings import findings
from gradine.files import write_json
from gradine.runs import finite, output_folder

__all__ = ["features"]

RESULTS = "results.json"
UNITS = "units"


class Figure(StrEnum):
    """What is measured."""

    powers = "powers"
    correlation = "correlation"
    gamma = "gamma"
    bridge = "bridge"
    all = "all"


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
    """Test errors of random-feature attention, biased and not, and of a random network.

    Errors are measured against the number of examples, over several seeds. The folder then holds
    results.json and a picture of each figure. The whole takes hours: a stopped run continues with
    --resume, seed by seed.

    Example: `gradine features --figure correlation --quick --out figures`
    """
    setting = QUICK if quick else FULL
    figures = list(FIGURES) if figure is Figure.all else [figure.value]
    with output_folder(out) as folder:
        held = _Held(folder, setting, resume, overwrite)
        try:
            units = _measured(figures, setting, held)
        except KeyboardInterrupt:
            raise Ending(STOPPED, "stopped; continue with --resume") from None
        found = findings(units, setting, figures)
        pictures = draw_figures(found, folder)
        write_json(folder / RESULTS, finite(found))
    if as_json:
        print_json(found | {"out": str(out)})
        return
    for line in _lines(found):
        print(line)
    print(f"written to {out}: {RESULTS}, {', '.join(path.name for path in pictures)}")


class _Held:
    """Units that the folder holds; each is written when it is done."""

    def __init__(self, folder: Path, setting: Setting, resume: bool, overwrite: bool) -> None:
        if resume and overwrite:
            raise ValueError("--resume and --overwrite were both given; expected at most one")
        self.folder, self.setting = folder / UNITS, setting
        self.written = json.loads(json.dumps(asdict(setting)))
        earlier = sorted(self.folder.glob("*.json"))
        if overwrite:
            for path in earlier:
                path.unlink()
        elif earlier and not resume:
            raise ValueError(
                f"{folder}: holds earlier experiments; "
                "continue them with --resume or replace them with --overwrite"
            )

    def path(self, part: str, model: str, seed: int) -> Path:
        return self.folder / f"{part}-{model.replace(' ', '-')}-{seed}.json"

    def get(self, part: str, model: str, seed: int, figures: list[str]) -> Unit | None:
        """The unit, if it has all that is asked for."""
        path = self.path(part, model, seed)
        if not path.exists():
            return None
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
            setting, unit = value["setting"], Unit.from_json(value["unit"])
            lengths = {len(curve.errors) for curve in unit.curves.values()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}: damaged; remove it to have it measured again") from error
        if setting != self.written or lengths != {len(self.setting.sizes_of(unit.part))}:
            raise ValueError(
                f"{path}: measured with other sizes; choose another folder or --overwrite"
            )
        there = {name.split("/")[0] for name in unit.curves}
        wanted = {figure for figure in figures if (figure == "bridge") == (part == "bridge")}
        return unit if wanted <= there else None

    def put(self, unit: Unit) -> None:
        self.folder.mkdir(exist_ok=True)
        write_json(
            self.path(unit.part, unit.model, unit.seed),
            {"setting": self.written, "unit": unit.as_json()},
        )


def _measured(figures: list[str], setting: Setting, held: _Held) -> list[Unit]:
    """All units, those of an earlier run recalled."""
    units, wanted = [], units_of(figures, setting)
    for i, (part, model, seed) in enumerate(wanted):
        unit, began = held.get(part, model, seed, figures), time.perf_counter()
        recalled = unit is not None
        if unit is None:
            with _Bar(f"{part}: {model}, seed {seed}") as bar:
                unit = measure(part, model, seed, setting, figures, bar)
            held.put(unit)
        units.append(unit)
        ending = "recalled" if recalled else f"{time.perf_counter() - began:.1f} s"
        tell(f"{i + 1:>3}/{len(wanted)}  {part}: {model}, seed {seed}  ({ending})")
    return units


class _Bar:
    """A bar on a terminal, nothing elsewhere."""

    def __init__(self, name: str) -> None:
        self._bar: Progress | None = None
        if sys.stderr.isatty():
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.add_task(name, total=1.0)

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
                f"{model} {curve['median'][-1]:.3g} ({curve['slope']:+.2f})"
                for model, curve in entry["models"].items()
            ]
            n = next(iter(entry["models"].values()))["n"][-1]
            lines.append(f"  {figure:<12} {name:<10}  n = {n:<6,}  {'   '.join(told)}")
    return lines
