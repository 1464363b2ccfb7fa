"""Matrices and attention patterns as pictures: small images, and tables of weights."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from gradine.report.draw import number

__all__ = ["MOST_SIDE", "colour_bar", "condensed", "pattern", "step_of", "tile", "tiles"]

Array = NDArray[np.float64]

MOST_SIDE = 128  # entries along a side of an image: the page must stay small
MOST_WEIGHTS = 8  # tokens up to which weights are printed
MOST_WORDS = 24  # tokens up to which words stand beside a pattern
COLOURS = "RdBu_r"  # blue below zero, white at zero, red above


def tiles(shown: Mapping[str, Array], largest: float, title: str, names: Mapping[str, str]) -> str:
    """Matrices of one shape side by side, on one scale.

    ``names`` are those of their numbers, which the script of the page reads (`explore`).
    """
    figures = "".join(
        f"<figure>{tile(matrix, largest, f'{title}, {label}', names[label])}"
        f"<figcaption>{title.rpartition(': ')[2]}, {label}</figcaption></figure>"
        for label, matrix in shown.items()
    )
    rows, columns = next(iter(shown.values())).shape
    return f'<div class="tiles" data-rows="{rows}" data-columns="{columns}">{figures}</div>'


def tile(
    matrix: Array, largest: float, label: str, numbers: str = "", most: int = MOST_SIDE
) -> str:
    """A matrix as an image of one pixel an entry, colours symmetric about zero.

    One with more than ``most`` entries along a side is condensed.
    """
    shown = condensed(matrix, most)
    levels = np.clip(np.round(127.5 + 127.5 * shown / (largest or 1.0)), 0, 255)
    sharp = "sharp" if max(shown.shape) <= 64 else "smooth"
    size = f'width="{shown.shape[1]}" height="{shown.shape[0]}"'
    source = _png(levels.astype(np.uint8))
    values = f' data-values="{numbers}"' if numbers else ""
    return f'<img class="{sharp}" src="{source}" {size} alt="{escape(label)}"{values}>'


def step_of(shape: Sequence[int], most: int = MOST_SIDE) -> int:
    """How many rows and columns of a matrix a pixel stands for."""
    return -(-max(shape) // most)


def condensed(matrix: Array, most: int = MOST_SIDE) -> Array:
    """Large matrices by the strongest entry of each block."""
    step = step_of(matrix.shape, most)
    if step == 1:
        return matrix
    rows, columns = (-(-size // step) * step for size in matrix.shape)
    padded = np.zeros((rows, columns))
    padded[: matrix.shape[0], : matrix.shape[1]] = matrix
    blocks = padded.reshape(rows // step, step, columns // step, step).swapaxes(1, 2)
    blocks = blocks.reshape(*blocks.shape[:2], -1)
    strongest = np.abs(blocks).argmax(axis=-1)[..., None]
    return np.take_along_axis(blocks, strongest, axis=-1)[..., 0]


def _png(levels: NDArray[np.uint8]) -> str:
    """Levels 0 to 255 of the colour map as a PNG with a palette, inside an address."""
    import matplotlib
    from PIL import Image  # matplotlib cannot do without it

    palette = matplotlib.colormaps[COLOURS](np.arange(256), bytes=True)[:, :3]
    image = Image.frombytes("P", levels.shape[::-1], levels.tobytes())
    image.putpalette(palette.tobytes())
    target = io.BytesIO()
    image.save(target, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(target.getvalue()).decode("ascii")


def colour_bar(largest: float) -> str:
    """What the colours of a row of tiles mean."""
    bar = tile(np.linspace(-largest, largest, 64)[None], largest, "colour bar")
    return (
        f'<span class="colours"><span>-{number(largest)}</span>{bar}'
        f"<span>+{number(largest)}</span></span>"
    )


def pattern(weights: Array, label: str, words: Sequence[str] | None = None) -> str:
    """Attention weights (k, k): query tokens down, tokens looked at across, with their names.

    The script of the page makes the same table of other tokens (6_patterns.js).
    """
    k = len(weights)
    if k > (MOST_WORDS if words else MOST_WEIGHTS):
        meaning = f"{label}: rows are queries, columns the tokens looked at"
        return tile(weights, 1.0, meaning) + f"<figcaption>{escape(label)}</figcaption>"
    names = [escape(name) for name in words or map(str, range(1, k + 1))]
    top = "".join(f'<th scope="col"><span>{name}</span></th>' for name in names)
    rows = "".join(
        f'<tr><th scope="row">{name}</th>'
        + "".join(f'<td style="--w:{w:.3f}"><span>{w:.2f}</span></td>' for w in row)
        + "</tr>"
        for name, row in zip(names, weights, strict=True)
    )
    kind = f"pattern{' named' if words else ''}{' dense' if k > MOST_WEIGHTS else ''}"
    return (
        f'<table class="{kind}"><caption>{escape(label)}</caption>'
        f"<thead><tr><td></td>{top}</tr></thead><tbody>{rows}</tbody></table>"
    )
