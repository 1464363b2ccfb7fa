"""`gradine extract`: one attention layer out of a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradine.checkpoint import read_checkpoint
from gradine.cli.console import print_json, tell
from gradine.cli.options import AsJson, Replace
from gradine.cli.story import with_examples
from gradine.files import check_new
from gradine.layer import AttentionLayer

__all__ = ["extract"]


@with_examples(
    "gradine extract model.safetensors --layer 0 --out layer.safetensors",
    "gradine extract model/ --layer 3 --json --out third.safetensors",
)
def extract(
    model: Annotated[
        Path,
        typer.Argument(help="A safetensors file of the BERT family, its index, or its folder."),
    ],
    layer: Annotated[int, typer.Option("--layer", help="Which layer; the first one is 0.")],
    out: Annotated[Path, typer.Option("--out", help="The layer file, such as layer.safetensors.")],
    heads: Annotated[
        int | None,
        typer.Option(
            "--heads", help="Heads of the layer.", show_default="as config.json beside it says"
        ),
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option(
            "--prefix",
            help="What its names begin with, where a model has several encoders.",
            show_default="whatever it is",
        ),
    ] = None,
    overwrite: Replace = False,
    as_json: AsJson = False,
) -> None:
    """Extract one attention layer of a trained model, to be found again.

    It is self-attention with its output map, biases and all, before the residual and the LayerNorm.
    """
    found = read_checkpoint(model, layer, heads=heads, prefix=prefix)
    if out.exists() and any(out.samefile(file) for file in found.files if file.exists()):
        raise ValueError(f"{out}: is a file of the model; choose another --out")
    check_new(out, overwrite)
    extracted = AttentionLayer.from_factors(found.factors(), found.constant)
    extracted.save(out)
    for part in found.left_out:
        tell(f"left out: {part}")
    if as_json:
        print_json(
            {
                "layer": layer,
                "layers": found.layers,
                "heads": extracted.n_heads,
                "dim": extracted.dim,
                "rank": extracted.dim // extracted.n_heads,
                "constant": extracted.constant,
                "family": found.family,
                "name": found.name,
                "left_out": list(found.left_out),
                "out": str(out),
            }
        )
        return
    print(f"extracted {extracted!r} from {found.name} in {out}")
