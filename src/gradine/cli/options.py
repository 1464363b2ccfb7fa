"""Options that several commands share, so that they read the same everywhere."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

__all__ = ["AsJson", "Inputs", "InputsOption", "Seed"]


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
