"""Options that several commands share, so that they read the same everywhere."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import typer

__all__ = ["AsJson", "Inputs", "InputsOption", "Seed", "number_of_heads"]


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


def number_of_heads(text: str) -> int | Literal["auto"]:
    """What was given as --heads."""
    if text == "auto":
        return "auto"
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"heads is {text!r}; expected 'auto' or a whole number") from None
