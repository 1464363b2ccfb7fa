"""`gradine hard`: layers that hide functions which are hard to learn, or leave a condition."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradine.cli.options import Replace, Seed
from gradine.cli.story import Command, with_examples
from gradine.files import check_new
from gradine.hard import DIALS, rounded_modulus, sparse_parity
from gradine.hard import dial as turned_dial

__all__ = ["app"]

app = typer.Typer(
    help="Write a layer that is hard to learn.\n\nIt hides a function, or leaves a condition.",
    no_args_is_help=False,
)
Dim = Annotated[int, typer.Option("--dim", help="Coordinates of a token.")]
LayerFile = Annotated[
    Path, typer.Option("--out", help="The layer file, such as layer.safetensors.")
]


@app.command(cls=Command)
@with_examples("gradine hard parity --dim 20 --sparsity 3 --out parity.safetensors")
def parity(
    dim: Dim,
    sparsity: Annotated[int, typer.Option("--sparsity", help="Secret bits of the parity.")],
    out: LayerFile,
    heads: Annotated[
        int | None,
        typer.Option(
            "--heads",
            help="Heads of the layer: for an odd number of bits, about half as many are enough.",
            show_default="one for each bit, and one or two more",
        ),
    ] = None,
    seed: Seed = 0,
    overwrite: Replace = False,
) -> None:
    """The parity of secret coordinates of two +-1 tokens, times one more coordinate."""
    check_new(out, overwrite)
    hidden = sparse_parity(dim, sparsity, heads, seed)
    hidden.layer.save(out)
    print(
        f"hid the parity of coordinates {', '.join(map(str, hidden.support))}, read at "
        f"{hidden.value} and written to {hidden.output}, in {hidden.layer!r} in {out}"
    )


@app.command(cls=Command)
@with_examples("gradine hard rounding --dim 13 --modulus 16 --levels 4 --out rounding.safetensors")
def rounding(
    dim: Dim,
    modulus: Annotated[int, typer.Option("--modulus", help="q: products are taken modulo it.")],
    levels: Annotated[int, typer.Option("--levels", help="p: values that are left by rounding.")],
    out: LayerFile,
    seed: Seed = 0,
    overwrite: Replace = False,
) -> None:
    """The product with a secret vector modulo q, rounded to p levels: learning with rounding."""
    check_new(out, overwrite)
    hidden = rounded_modulus(dim, modulus, levels, seed)
    hidden.layer.save(out)
    print(
        f"hid the product with {hidden.secret.tolist()} modulo {modulus}, read at {hidden.value} "
        f"and written to {hidden.output}, in {hidden.layer!r} in {out}"
    )


@app.command(cls=Command)
@with_examples("gradine hard dial zero_sum --turn 0.8 --out bent.safetensors")
def dial(
    name: Annotated[str, typer.Argument(help=f"The dial: {', '.join(DIALS)}.")],
    turn: Annotated[float, typer.Option("--turn", help="From 0 (all conditions hold) to 1.")],
    out: LayerFile,
    heads: Annotated[int, typer.Option("--heads", help="Heads of the layer.")] = 2,
    dim: Dim = 10,
    seed: Seed = 0,
    overwrite: Replace = False,
) -> None:
    """A random layer with one condition of `gradine check` turned off by degrees."""
    check_new(out, overwrite)
    layer = turned_dial(name, turn, heads, dim, seed)
    layer.save(out)
    print(f"{name} at {turn:g} ({DIALS[name].what}) in {layer!r} in {out}")
