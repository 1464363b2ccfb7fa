"""Matrices and attention patterns as pictures: small images, and tables of weights."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from gradine.report.draw import number

__all__ = ["MOST_SIDE", "colour_bar", "pattern", "tile"]

Array = NDArray[np.float64]

MOST_SIDE = 128  # entries along a side of an image: the page must stay small
CELL = 40  # of a pattern, in units of its drawing
MOST_WEIGHTS = 8  # tokens up to which weights are printed
MOST_WORDS = 24  # tokens up to which words stand beside a pattern
WORD_ROOM = 120  # for them
MOST_LETTERS = 11
COLOURS = "RdBu_r"  # blue below zero, white at zero, red above


def tile(matrix: Array, largest: float, label: str, most: int = MOST_SIDE) -> str:
    """A matrix as an image of one pixel an entry, colours symmetric about zero.

    One with more than ``most`` entries along a side is condensed.
    """
    shown = _condensed(matrix, most)
    levels = np.clip(np.round(127.5 + 127.5 * shown / (largest or 1.0)), 0, 255)
    sharp = "sharp" if max(shown.shape) <= 64 else "smooth"
    size = f'width="{shown.shape[1]}" height="{shown.shape[0]}"'
    source = _png(levels.astype(np.uint8))
    return f'<img class="{sharp}" src="{source}" {size} alt="{escape(label)}">'


def _condensed(matrix: Array, most: int) -> Array:
    """Large matrices by the strongest entry of each block."""
    step = -(-max(matrix.shape) // most)
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
        f'<span class="bar"><span>-{number(largest)}</span>{bar}'
        f"<span>+{number(largest)}</span></span>"
    )


def pattern(weights: Array, label: str, words: Sequence[str] | None = None) -> str:
    """Attention weights (k, k): query tokens down, tokens looked at across, with their names."""
    k, cell = len(weights), CELL
    meaning = escape(f"{label}: rows are queries, columns the tokens looked at")
    if k > (MOST_WORDS if words else MOST_WEIGHTS):
        return tile(weights, 1.0, meaning)
    size, margin = (18, WORD_ROOM) if words else (13, 0)
    parts = []
    for r, row in enumerate(weights):
        for c, weight in enumerate(row):
            place = f'x="{margin + c * cell + 1}" y="{margin + r * cell + 1}"'
            parts.append(
                f'<rect {place} width="{cell - 2}" height="{cell - 2}" '
                f'fill="#1f9d72" fill-opacity="{weight:.3f}" stroke="var(--line)"/>'
            )
            if k <= MOST_WEIGHTS:
                parts.append(
                    f'<text x="{margin + c * cell + cell // 2}" y="{margin + r * cell + 25}">'
                    f"{weight:.2f}</text>"
                )
    for i, word in enumerate(words or ()):
        middle = margin + i * cell + cell // 2
        shown = escape(word if len(word) <= MOST_LETTERS else word[: MOST_LETTERS - 1] + "\u2026")
        style = f'style="font-size:{size}px;text-anchor:'
        parts.append(f'<text x="{margin - 6}" y="{middle + 5}" {style}end">{shown}</text>')
        turned = f'transform="translate({middle + 5} {margin - 6}) rotate(-90)"'
        parts.append(f'<text {turned} {style}start">{shown}</text>')
    side = margin + k * cell
    return (
        f'<svg class="pattern" viewBox="0 0 {side} {side}" role="img" aria-label="{meaning}">'
        f"{''.join(parts)}</svg>"
    )
