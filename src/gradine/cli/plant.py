"""`gradine plant`: a random layer to be found again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradine import inputs
from gradine.cli.options import Attention, Replace, Seed
from gradine.cli.story import with_examples
from gradine.files import check_new

__all__ = ["plant"]


@with_examples(
    "gradine plant --heads 2 --dim 10 --scale 4 --seed 1 --out layer.safetensors",
    "gradine plant --heads 4 --dim 16 --scale 3 --rank 4 --constant --out narrow.safetensors",
)
def plant(
    heads: Annotated[int, typer.Option("--heads", help="Heads of the layer.")],
    dim: Annotated[int, typer.Option("--dim", help="Coordinates of a token.")],
    scale: Annotated[
        float, typer.Option("--scale", help="Frobenius norm of Theta: the spread of a logit.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The layer file, such as layer.safetensors.")],
    rank: Annotated[
        int | None, typer.Option("--rank", help="Rank of Theta and W.", show_default="full")
    ] = None,
    out_dim: Annotated[
        int | None,
        typer.Option(
            "--out-dim", help="Coordinates of an output.", show_default="those of a token"
        ),
    ] = None,
    constant: Annotated[
        bool, typer.Option("--constant", help="Give the layer biases, by a constant coordinate.")
    ] = False,
    attention: Attention = "softmax",
    seed: Seed = 0,
    overwrite: Replace = False,
) -> None:
    """Plant a random layer: the truth that is to be found again."""
    check_new(out, overwrite)
    layer = inputs.plant(
        heads,
        dim,
        scale,
        rank,
        seed,
        out_dim=out_dim,
        constant=constant,
        attention=attention,
    )
    layer.save(out)
    print(f"planted {layer!r} in {out}")
