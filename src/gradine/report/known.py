"""What an answer can say of the heads, and what no example and no question could."""

from __future__ import annotations

from html import escape

import numpy as np
from numpy.typing import NDArray

from gradine.report.draw import number
from gradine.report.parts import section, table
from gradine.report.story import Story

__all__ = ["known"]

Array = NDArray[np.float64]

MOST_HEADS = 64
LEAST_SEEN = (
    1e-6  # singular value, relative to the largest, that counts where nothing else is known
)

ALWAYS_OPEN = {
    "the order of the heads": "they are summed; learned and true ones are matched by what they do",
    "queries and keys apart": "only Theta = Q K^T shows: any invertible matrix may be moved from "
    "one to the other",
    "values and outputs apart": "only W = V O shows, for the same reason",
}
OPEN_KEY_BIAS = {
    "a key bias, and what depends on the query alone": "it adds the same number to all logits of "
    "a row, and the softmax takes it away",
}
OPEN_OUTPUT_BIASES = {
    "the value and output biases of single heads": "attention sums to one, so that only their sum "
    "shows; it is shared out evenly",
}
OPEN_SCALE = {
    "the scales of Theta and W apart": "a Theta twice as large and a W half as large are the same "
    "head; every Theta shown has norm 1",
}


def known(story: Story) -> str:
    """The ranks and norms that were found, and what is open whatever is asked."""
    title = "What can be known of these heads"
    layer = story.learned
    if layer is None:
        return section("known", title, "", "")
    text = (
        "Two heads with one Theta are one head, and a head with W = 0 is none. Ranks are those of "
        "the matrices (biases of W left out) above their errors: the size of a head, where it is "
        "smaller than the layer."
    )
    if story.function_only:
        text = "Other heads compute the same function: these are one choice. " + text
    rows = [
        [
            f"Head {i}",
            number(float(np.linalg.norm(layer.theta[i]))),
            str(_rank(layer.theta[i], theta_bar)),
            number(float(np.linalg.norm(layer.w[i]))),
            str(_rank(layer.w[i, : layer.dim], w_bar)),
        ]
        for i, (theta_bar, w_bar) in enumerate(_bars(story))
    ]
    head = ["head", "norm of Theta", "its rank", "norm of W", "its rank"]
    content = table("Norms and ranks of the heads", head, rows[:MOST_HEADS])
    function, still_open = layer.function, dict(ALWAYS_OPEN)
    if layer.constant and function.shift_invariant:
        still_open |= OPEN_KEY_BIAS
    if layer.constant and function.normalised:
        still_open |= OPEN_OUTPUT_BIASES
    if function.scale_free:
        still_open |= OPEN_SCALE
    items = "".join(
        f"<li><strong>{escape(what)}</strong>: {escape(why)}</li>"
        for what, why in still_open.items()
    )
    return section(
        "known", title, text, f"{content}\n<p>Open, whatever one asks:</p><ul>{items}</ul>"
    )


def _bars(story: Story) -> list[tuple[float, float]]:
    """Relative errors of each Theta and W: bars where there are some, else next to nothing."""
    assert story.learned is not None
    certificate = story.fit.certificate
    bars = None if certificate is None else certificate.bars
    if bars is None or len(bars.theta) != story.learned.n_heads:
        return [(0.0, 0.0)] * story.learned.n_heads
    return list(zip(bars.theta, bars.w, strict=True))


def _rank(matrix: Array, bar: float) -> int:
    values = np.linalg.svd(matrix, compute_uv=False)
    least = max(LEAST_SEEN, bar if np.isfinite(bar) else 0.0)
    return int(np.sum(values > least * values[0])) if values[0] > 0.0 else 0
