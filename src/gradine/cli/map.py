"""`gradine map`: success of learners over two parameters."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gradine.atlas.axis import number_of, parse_axis
from gradine.atlas.setting import PARAMETERS
from gradine.atlas.store import TRIALS, TrialStore
from gradine.atlas.sweep import Map, MapConfig, Progress, sweep
from gradine.atlas.trial import LEARNERS
from gradine.cli.console import STOPPED, Ending, print_json, tell
from gradine.cli.options import (
    AsJson,
    EngineName,
    EngineOption,
    Overwrite,
    Scheduler,
    Workers,
    opened,
)
from gradine.cli.story import with_examples
from gradine.files import check_replaceable, finite, write_json
from gradine.progress import duration
from gradine.report.map_pictures import draw_map
from gradine.runs import check_own, output_folder
from gradine.students.config import StudentConfig

__all__ = ["draw"]

RESULTS = "results.json"
PICTURES = ("map.svg", "map.png")
QUICK_VALUES, QUICK_TRIALS = 3, 2
LINES = 20  # of progress, where nobody looks on


@with_examples(
    "gradine map --x scale:1:8:4 --y ratio:1:16:5 --learner exact --out map",
    "gradine map --x heads:1,2,4 --y noise:0.01:1:4:log --learner exact --quick --out quick",
)
def draw(
    x: Annotated[str, typer.Option("--x", help="PARAM:LO:HI[:COUNT][:log|:lin] or PARAM:V,V,...")],
    y: Annotated[str, typer.Option("--y", help="The same for the other axis.")],
    learner: Annotated[
        list[str],
        typer.Option("--learner", help=f"{', '.join(LEARNERS)}, or of a plugin; may be repeated."),
    ],
    out: Annotated[Path, typer.Option("--out", help="Where results and the picture go.")],
    trials: Annotated[int, typer.Option("--trials", help="Layers at each point.")] = 5,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="PARAM=VALUE of another parameter; may be repeated."),
    ] = None,
    tolerance: Annotated[
        float, typer.Option("--tolerance", help="Relative error up to which a layer is found.")
    ] = MapConfig().tolerance,
    steps: Annotated[
        int, typer.Option("--steps", min=1, help="Of Adam from one start, at most.")
    ] = StudentConfig().steps,
    engine: EngineOption = EngineName.auto,
    workers: Workers = None,
    scheduler: Scheduler = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the map in the folder, or extend it.")
    ] = False,
    overwrite: Overwrite = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Three values an axis, two trials: a first look.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Draw which learner succeeds where, over two parameters.

    Parameters of the layer and its examples are heads, dim, seq_len, scale, rank, examples, ratio
    (examples over the counting bound), noise, coherence, t (bits of a hidden parity), inputs, and
    dial with turn (a way to leave the conditions of the theorem). Every trial is kept when it is
    done: a map that was stopped goes on with --resume.
    """
    if resume and overwrite:
        raise ValueError("--resume and --overwrite were both given; expected at most one of them")
    axes = [parse_axis(text) for text in (x, y)]
    if quick:
        axes, trials = [axis.coarse(QUICK_VALUES) for axis in axes], min(trials, QUICK_TRIALS)
    config = MapConfig(tolerance, replace(StudentConfig(), steps=steps))
    fixed = dict(_parameter(text) for text in settings or [])
    with output_folder(out) as folder:
        check_own(folder, (RESULTS, *PICTURES), TrialStore.held(folder), overwrite)
        if overwrite:
            check_replaceable(folder / TRIALS)
            for name in (TRIALS, RESULTS, *PICTURES):
                (folder / name).unlink(missing_ok=True)
        try:
            with opened(engine.value, workers, scheduler) as crew:
                made = sweep(
                    axes[0],
                    axes[1],
                    learner,
                    trials=trials,
                    fixed=fixed,
                    config=config,
                    folder=folder,
                    resume=resume,
                    engine=crew,
                    told=_Display(),
                    begun=_announce,
                )
        except KeyboardInterrupt:
            raise Ending(STOPPED, "stopped; continue with --resume") from None
        results = finite(made.to_dict())
        write_json(folder / RESULTS, results)
        draw_map(results, folder)
    if as_json:
        print_json(results | {"out": str(out)})
        return
    for line in _lines(made):
        print(line)
    print(f"written to {out}: {RESULTS}, {', '.join(PICTURES)}")


def _parameter(text: str) -> tuple[str, Any]:
    name, given, value = text.partition("=")
    if not given or name not in PARAMETERS:
        raise ValueError(f"--set is {text!r}; expected PARAM=VALUE, of {', '.join(PARAMETERS)}")
    return name, number_of(name, value)


def _announce(done: int, total: int) -> None:
    if done == total:
        return
    earlier = f", of which {done:,} are done" if done else ""
    tell(f"{total:,} trials{earlier}")


class _Display:
    """A line now and then: often for somebody who looks on, seldom for a file."""

    def __init__(self) -> None:
        self._watched, self._latest = sys.stderr.isatty(), 0.0

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        stride = max(1, progress.total // LINES)
        due = now - self._latest > 1.0 if self._watched else progress.done % stride == 0
        if not due and progress.done != progress.total:
            return
        self._latest = now
        where = ", ".join(f"{name} {value}" for name, value in progress.where.items())
        trial = progress.trial
        tell(
            f"{progress.done:>5}/{progress.total}  {trial.learner}: {where}  {trial.status}"
            f"  ({trial.seconds:.1f} s; about {duration(progress.seconds_left)} left)"
        )


def _lines(made: Map) -> list[str]:
    """The map as text, its origin at the lower left as in the picture."""
    lines = [f"share of {made.seeds} trials that succeed; {made.x.name} across"]
    names = [f"{made.y.name} {value}" for value in made.y.values]
    width = max(map(len, (*names, *made.learners)))
    for learner in made.learners:
        rows = made.success(learner)
        lines.append(f"{learner:<{width}}" + "".join(f"{value!s:>9}" for value in made.x.values))
        for name, row in reversed(list(zip(names, rows, strict=True))):
            lines.append(f"{name:>{width}}" + "".join(f"{s:9.2f}" for s in row))
    lines.append(f"false certificates: {made.false_certificates}")
    return lines
