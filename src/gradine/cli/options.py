"""Options that several commands share, so that they read the same everywhere."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from gradine.cli.console import tell
from gradine.engine import Engine, open_engine

__all__ = [
    "AsJson",
    "Attention",
    "Confidence",
    "EngineName",
    "EngineOption",
    "Example",
    "Heads",
    "Inputs",
    "InputsOption",
    "Memory",
    "Out",
    "Overwrite",
    "Replace",
    "Report",
    "Scheduler",
    "Seed",
    "Truth",
    "Words",
    "Workers",
    "number_of_heads",
    "opened",
]


class Inputs(StrEnum):
    """The token distributions of `gradine.sample_inputs`."""

    boolean = "boolean"
    gaussian = "gaussian"


InputsOption = Annotated[
    Inputs, typer.Option("--inputs", help="Tokens: uniform on +-1, or standard Gaussian.")
]
Seed = Annotated[
    int, typer.Option("--seed", min=0, help="Start of the random numbers: same seed, same answer.")
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output, nothing else.")
]


def _begun_functions(incomplete: str) -> list[str]:
    """Attention functions that a shell offers."""
    from gradine.attention_functions import FUNCTIONS  # here: only a shell asks

    return [name for name in FUNCTIONS if name.startswith(incomplete)]


Attention = Annotated[
    str,
    typer.Option(
        "--attention",
        help="The attention function: softmax, polynomial, sigmoid or relu.",
        autocompletion=_begun_functions,
    ),
]


class EngineName(StrEnum):
    """The engines of `gradine.engine.open_engine`."""

    auto = "auto"
    serial = "serial"
    pool = "pool"
    dask = "dask"


EngineOption = Annotated[
    EngineName,
    typer.Option(
        "--engine",
        help="Who does the work: this process, a pool of processes, or a Dask cluster.",
        show_default="a pool where that is worth it",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", help="Processes side by side.", show_default="all cores"),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        help="Address of the Dask scheduler, such as tcp://host:8786.",
        show_default="a cluster on this machine",
    ),
]
Out = Annotated[Path, typer.Option("--out", help="The run folder.")]
Heads = Annotated[str, typer.Option("--heads", help="How many heads: a number or auto.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the run in the folder, if there is one.")
]
Replace = Annotated[
    bool, typer.Option("--overwrite", help="Replace the file --out, if there is one.")
]
Truth = Annotated[
    Path | None,
    typer.Option("--truth", help="The true layer: for the report only, after learning."),
]
Report = Annotated[bool, typer.Option("--report/--no-report", help="Write report.html, or do not.")]
Example = Annotated[
    Path | None,
    typer.Option(
        "--example",
        help="An .npy file with one sequence of tokens, whose attention the report shows.",
        show_default="one of the run",
    ),
]
Words = Annotated[
    str | None,
    typer.Option("--words", help="What its tokens stand for, with blanks between them."),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        help="What blocks, and what is kept of them, may take: 2GB, 512MiB.",
        show_default="blocks as for 2GiB",
    ),
]
Confidence = Annotated[float, typer.Option("--confidence", help="Confidence of the certificate.")]


def number_of_heads(text: str) -> int | Literal["auto"]:
    """What was given as --heads."""
    if text == "auto":
        return "auto"
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"heads is {text!r}; expected 'auto' or a whole number") from None


def opened(engine: str, workers: int | None, scheduler: str | None) -> Engine:
    """The engine that was asked for; people are told where it shows itself."""
    found = open_engine(engine, workers, scheduler)
    if found.note:
        tell(found.note)
    return found
