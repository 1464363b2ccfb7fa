"""`gradine sample`: examples of what a layer does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradine.cli.options import Inputs, InputsOption, Replace, Seed
from gradine.cli.sampled import Sampling, check_new_examples, write_examples
from gradine.cli.story import with_examples
from gradine.layer import AttentionLayer

__all__ = ["sample"]


@with_examples(
    "gradine sample layer.safetensors --examples 40000 --seq-len 3 --seed 2 --out data.npz",
    "gradine sample layer.safetensors --examples 1000 --seq-len 3 --inputs gaussian --out folder",
)
def sample(
    layer: Annotated[Path, typer.Argument(help="A layer file, such as plant writes.")],
    examples: Annotated[int, typer.Option("--examples", help="How many sequences.")],
    seq_len: Annotated[int, typer.Option("--seq-len", help="Tokens of a sequence.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", help="An .npz file or a .zarr store; any other name: a folder of .npy files."
        ),
    ],
    inputs: InputsOption = Inputs.boolean,
    seed: Seed = 0,
    overwrite: Replace = False,
) -> None:
    """Sample token sequences X and what the layer makes of them, Y."""
    check_new_examples(out, overwrite)
    sampling = Sampling(AttentionLayer.load(layer), examples, seq_len, inputs.value, seed)
    write_examples(out, sampling, overwrite=overwrite)
    print(f"sampled {examples} examples of {seq_len} tokens in {out}")
