"""The command line: one file a command, nothing but arguments and printing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from gradine import __version__
from gradine.cli import (
    check,
    compare,
    demo,
    extract,
    features,
    hard,
    learn,
    map,
    plan,
    plant,
    query,
    sample,
)
from gradine.cli.console import BAD_INPUT, STOPPED, Ending, one_line, tell_error

__all__ = ["app", "main"]

# Typer carries its own copy of Click since 0.26 and used the package before: this is the class
# of all complaints about arguments in either.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]

app = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)
STORY = (
    plant.plant,
    extract.extract,
    sample.sample,
    learn.learn,
    query.query,
    compare.compare,
    demo.demo,
    check.check,
    plan.plan,
)
for command in STORY:
    app.command(cls=learn.LearnCommand if command is learn.learn else None)(command)
app.command("map")(map.draw)
app.add_typer(hard.app, name="hard")
app.command()(features.features)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"gradine {__version__}")
        raise typer.Exit


@app.callback()
def gradine(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Say which it is."),
    ] = False,
) -> None:
    """Learn a multi-head attention layer from examples, and verify what was learned.

    The story in order: plant a layer or extract one from a trained model, sample examples from
    it, learn it back from the examples alone, or by asking it, compare what was learned with the
    truth. The demo plants, samples, learns, compares and writes a report. Whether a layer can be
    learned is for check, plan and map to say.

    Exit codes: 0 learned and verified, 2 bad input or usage, 3 not learned (result.json says why).
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; every way it can go wrong ends in one line on standard error."""
    try:
        code = app(arguments, prog_name="gradine", standalone_mode=False)
    except Ending as ending:
        tell_error(ending.line)
        return ending.code
    except UsageError as error:
        tell_error(f"{one_line(error)} (see gradine --help)")
        return BAD_INPUT
    except (ValueError, OverflowError, OSError, MemoryError) as error:
        tell_error(one_line(error))
        return BAD_INPUT
    except (KeyboardInterrupt, typer.Abort):
        code = STOPPED
    if code == STOPPED:
        tell_error("stopped")
    return code or 0
