"""`gradine compare`: how near a learned layer is to the truth."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from gradine import score
from gradine.cli.console import print_json
from gradine.cli.options import AsJson, Inputs, InputsOption, Seed
from gradine.cli.story import with_examples
from gradine.layer import AttentionLayer
from gradine.score import Match

__all__ = ["compare", "largest_errors"]


def largest_errors(match: Match) -> dict[str, Any]:
    """The errors of a match as the command line gives them: the worst head counts."""
    return {
        "theta_error": float(match.theta_error.max()),
        "w_error": float(match.w_error.max()),
        "function_error": match.function_error,
    }


@with_examples(
    "gradine compare asked/layer.safetensors layer.safetensors",
    "gradine compare asked/layer.safetensors layer.safetensors --seq-len 3 --json",
)
def compare(
    learned: Annotated[Path, typer.Argument(help="The layer file of a run.")],
    truth: Annotated[Path, typer.Argument(help="The true layer.")],
    seq_len: Annotated[
        int, typer.Option("--seq-len", help="Tokens of the sequences that measure the function.")
    ] = 4,
    inputs: InputsOption = Inputs.boolean,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Compare a learned layer with the truth, head by head and as functions."""
    match = score.compare(
        AttentionLayer.load(learned),
        AttentionLayer.load(truth),
        seq_len=seq_len,
        kind=inputs.value,
        seed=seed,
    )
    if not all(map(math.isfinite, largest_errors(match).values())):
        raise ValueError(
            f"{learned} and {truth} have numbers too large to be compared; expected finite outputs"
        )
    if as_json:
        print_json(largest_errors(match) | {"missing": match.missing, "extra": match.extra})
        return
    print("true head  learned head  theta error  w error")
    for head, (partner, theta_error, w_error) in enumerate(
        zip(match.order, match.theta_error, match.w_error, strict=True)
    ):
        name = "none" if partner < 0 else str(partner)
        print(f"{head:9d}  {name:>12s}  {theta_error:11.2g}  {w_error:7.2g}")
    if match.extra:
        print(f"learned heads without a partner: {match.extra}")
    print(f"function error: {match.function_error:.2g}")
