"""`gradine hard`: layers that hide functions which are hard to learn, or leave a condition."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from gradine.cli.console import print_json
from gradine.cli.options import AsJson, Replace, Seed
from gradine.cli.story import Command, Group, with_examples
from gradine.files import check_new
from gradine.hard import DIALS, rounded_modulus, sparse_parity
from gradine.hard import dial as turned_dial
from gradine.layer import AttentionLayer

__all__ = ["app"]

NOTE = "hard"  # the metadata of a layer file by which its secret is found

app = typer.Typer(cls=Group, rich_markup_mode=None, add_completion=False)
Dim = Annotated[int, typer.Option("--dim", help="Coordinates of a token.")]
LayerFile = Annotated[
    Path, typer.Option("--out", help="The layer file, such as layer.safetensors.")
]


@app.callback()
@with_examples(
    "gradine hard parity --dim 20 --sparsity 3 --out parity.safetensors",
    "gradine hard dial zero_sum --turn 0.8 --out bent.safetensors",
)
def hard() -> None:
    """Write a layer that is hard to learn.

    It hides a function, or leaves a condition.
    """


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
    as_json: AsJson = False,
) -> None:
    """The parity of secret coordinates of two +-1 tokens, times one more coordinate."""
    check_new(out, overwrite)
    hidden = sparse_parity(dim, sparsity, heads, seed)
    about = {
        "family": "parity",
        "dim": dim,
        "sparsity": sparsity,
        "seed": seed,
        "support": list(hidden.support),
        "value": hidden.value,
        "output": hidden.output,
    }
    _write(
        hidden.layer,
        about,
        out,
        as_json,
        f"hid the parity of coordinates {', '.join(map(str, hidden.support))}, read at "
        f"{hidden.value} and written to {hidden.output}, in {hidden.layer!r} in {out}",
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
    as_json: AsJson = False,
) -> None:
    """The product with a secret vector modulo q, rounded to p levels: learning with rounding."""
    check_new(out, overwrite)
    hidden = rounded_modulus(dim, modulus, levels, seed)
    about = {
        "family": "rounding",
        "dim": dim,
        "modulus": modulus,
        "levels": levels,
        "seed": seed,
        "secret": hidden.secret.tolist(),
        "value": hidden.value,
        "output": hidden.output,
    }
    _write(
        hidden.layer,
        about,
        out,
        as_json,
        f"hid the product with {hidden.secret.tolist()} modulo {modulus}, read at {hidden.value} "
        f"and written to {hidden.output}, in {hidden.layer!r} in {out}",
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
    as_json: AsJson = False,
) -> None:
    """A random layer with one condition of `gradine check` turned off by degrees."""
    check_new(out, overwrite)
    layer = turned_dial(name, turn, heads, dim, seed)
    about = {
        "family": "dial",
        "name": name,
        "turn": turn,
        "heads": heads,
        "dim": dim,
        "seed": seed,
        "breaks": DIALS[name].breaks,
    }
    line = f"{name} at {turn:g} ({DIALS[name].what}) in {layer!r} in {out}"
    _write(layer, about, out, as_json, line)


def _write(
    layer: AttentionLayer, about: dict[str, Any], out: Path, as_json: bool, line: str
) -> None:
    """The layer file, which carries what it hides, and a line or an object that says so."""
    layer.save(out, notes={NOTE: json.dumps(about)})
    if as_json:
        sizes = {"heads": layer.n_heads, "dim": layer.dim, "out_dim": layer.out_dim}
        print_json({**about, "layer": {**sizes, "path": str(out)}})
    else:
        print(line)
