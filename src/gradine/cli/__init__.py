"""The command line: one file a command, nothing but arguments and printing."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from gradine.cli.console import (
    BAD_INPUT,
    DEFECT,
    STOPPED,
    Ending,
    one_line,
    tell_error,
    with_next_step,
)
from gradine.cli.story import STEPS, Story, examples_of
from gradine.refusals import is_refusal

__all__ = ["app", "main"]

# Typer carries its own copy of Click since 0.26 and used the package before: this is the class
# of all complaints about arguments in either.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]

#: Bad input beside what Gradine itself refuses: arguments, files, and sizes.
REFUSED = (UsageError, OSError, MemoryError)

MISSING = ("Missing option", "Missing argument")  # how complaints begin that an example answers
TRACEBACK = "GRADINE_TRACEBACK"  # of the environment: for those who look for a defect
REINSTALL = "a package that gradine needs is missing or broken: pip install it, or gradine again"
ASK = f"(please report it; {TRACEBACK}=1 shows where)"

app = typer.Typer(cls=Story, rich_markup_mode=None, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        from gradine import __version__

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

    New here? `gradine demo` tells the whole story and writes a report; `gradine doctor` says
    whether all is well. Then, in order: get a layer, learn it from examples or by asking it, and
    compare what was learned with the truth. The help of each command, `gradine learn --help`, ends
    with examples.

    Exit codes: 0 done, and if something was to be learned, learned and verified; 1 a defect of
    gradine; 2 bad input or usage; 3 not learned (result.json says why); 130 stopped by Ctrl-C.
    """


def _at_work(error: BaseException, arguments: Sequence[str] | None) -> str:
    """The command that an error is from, for its help to be named."""
    context = getattr(error, "ctx", None)  # of complaints about arguments
    if context is not None:
        return context.command_path
    given = sys.argv[1:] if arguments is None else arguments
    return " ".join(["gradine", *[word for word in given[:1] if word in STEPS]])


def _example(error: BaseException) -> str | None:
    """How the command is called whose arguments are complained about."""
    command = getattr(getattr(error, "ctx", None), "command", None)
    return next(iter(examples_of(getattr(command, "callback", None))), None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; every way it can go wrong ends in one line on standard error."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of files may have what it cannot print
        sys.stdout.reconfigure(errors="backslashreplace")
    # zarr reads by tasks of asyncio, which logs the errors of those that nobody waited for.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # where it keeps its cache
    try:
        code = app(arguments, prog_name="gradine", standalone_mode=False)
    except Ending as ending:
        tell_error(ending.line)
        return ending.code
    except Exception as error:
        if isinstance(error, REFUSED) or is_refusal(error):
            line, command = one_line(error), _at_work(error, arguments)
            if line.startswith(MISSING) and (example := _example(error)):
                line = f"{line.rstrip('.')}; as in: {example} (see {command} --help)"
            tell_error(with_next_step(line, error, command))
            return BAD_INPUT
        if os.environ.get(TRACEBACK):
            raise
        if isinstance(error, ImportError) and not (error.name or "").startswith("gradine"):
            tell_error(f"{one_line(error)}; {REINSTALL}")
            return BAD_INPUT
        tell_error(f"a defect of gradine: {type(error).__name__}: {one_line(error)} {ASK}")
        return DEFECT
    except (KeyboardInterrupt, typer.Abort):
        code = STOPPED
    if code == STOPPED:
        tell_error("stopped")
    return code or 0
