"""The sections about the answer: the heads as matrices, and their attention on an example."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradine.layer import AttentionLayer
from gradine.report.draw import number
from gradine.report.matrices import MOST_SIDE, colour_bar, pattern, tile
from gradine.report.parts import section
from gradine.report.story import HeadPair, Story
from gradine.status import Status

__all__ = ["attention", "heads"]

Array = NDArray[np.float64]

MOST_HEADS = 16
UNVERIFIED = (
    "These are the last candidates of a run that was not verified: they are shown to find out "
    "why, not to be used. "
)
NOT_DETERMINED = (
    "These heads compute the function that was learned, and so do others: the examples do not "
    "determine them. "
)


def heads(story: Story) -> str:
    """The matrices of each head, beside the true ones where they are known."""
    title = "The heads"
    if story.learned is None:
        return section("heads", title, "", "")
    text = _caveat(story)
    text += "Theta decides where a head looks, W what it writes. "
    if story.truth is None:
        text += "Colours are symmetric about zero; a head that is blank would not matter."
    else:
        text += (
            "Each learned head stands beside the true one it was matched with, on one scale of "
            "colours"
        )
        text += (
            "." if story.function_only else ": the difference should be blank. " + _colour(story)
        )
    if story.learned.constant:
        text += " The last row belongs to the constant coordinate (biases)"
        if story.learned.function.shift_invariant:
            text += "; the last column of Theta is zero because it cancels in the softmax."
        else:
            text += ", and so does the last column of Theta."
    if story.learned.function.scale_free:
        text += " Every Theta has norm 1: only its product with W has a scale."
    if max(*story.learned.theta.shape[1:], story.learned.out_dim) > MOST_SIDE:
        text += " Matrices are too large to show whole: a pixel is the strongest entry of a block."
    pairs = story.pairs
    content = "\n".join(_head(story, pair) for pair in pairs[:MOST_HEADS])
    return section("heads", title, text, content + _left_out(len(pairs)) + _function_error(story))


def _caveat(story: Story) -> str:
    """What to know before one looks at the heads."""
    if story.function_only:
        return NOT_DETERMINED
    return "" if story.fit.learned else UNVERIFIED


def _colour(story: Story) -> str:
    noisy = story.fit.status is Status.LEARNED_UP_TO_NOISE
    return f"Colour in it is error that remains{', here that of noisy labels' if noisy else ''}."


def _left_out(count: int) -> str:
    if count <= MOST_HEADS:
        return ""
    return f'<p class="note">{MOST_HEADS} of {count} heads are shown.</p>'


def _function_error(story: Story) -> str:
    match = story.match
    if match is None:
        return ""
    lost = f"; {match.missing} true heads were not found" if match.missing else ""
    lost += f"; {match.extra} learned heads have no true partner" if match.extra else ""
    inputs = (
        "fresh standard Gaussian inputs" if story.fit.survey.kind == "other" else "fresh inputs"
    )
    return (
        f"<p>As a function, the answer differs from the truth by {number(match.function_error)} "
        f"(relative, over {inputs}){lost}.</p>"
    )


def _name(pair: HeadPair) -> str:
    if pair.learned is None:
        return f"True head {pair.true}: not found"
    return f"Head {pair.learned}"


def _head(story: Story, pair: HeadPair) -> str:
    rows = []
    for symbol, error in (("theta", pair.theta_error), ("w", pair.w_error)):
        learned = _matrix(story.learned, symbol, pair.learned)
        true = _matrix(story.truth, symbol, pair.true)
        rows.append(_tiles(_name(pair), symbol.capitalize(), learned, true, error))
    if pair.true is None and story.truth is not None:
        rows.append('<p class="note">No true head is left to match this one.</p>')
    inside = f'<h3>{_name(pair)}</h3><div class="panels">{"".join(rows)}</div>'
    return f'<div class="head">{inside}</div>'


def _matrix(layer: AttentionLayer | None, symbol: str, index: int | None) -> Array | None:
    return None if layer is None or index is None else getattr(layer, symbol)[index]


def _tiles(
    name: str, symbol: str, learned: Array | None, true: Array | None, error: float | None
) -> str:
    """Learned, true and difference on one scale, whatever of them there is."""
    shown = {"learned": learned, "true": true}
    if learned is not None and true is not None:
        shown["difference"] = learned - true
    present = {label: matrix for label, matrix in shown.items() if matrix is not None}
    largest = float(max(np.abs(matrix).max() for matrix in present.values()))
    figures = "".join(
        f"<figure>{tile(matrix, largest, f'{name}: {symbol}, {label}')}"
        f"<figcaption>{symbol}, {label}</figcaption></figure>"
        for label, matrix in present.items()
    )
    words = "" if error is None else f"<span>relative error {number(error)}</span>"
    return (
        f'<div class="panel"><div class="tiles">{figures}</div>'
        f'<p class="scale">{colour_bar(largest)}{words}</p></div>'
    )


def attention(story: Story) -> str:
    """The attention patterns on one example."""
    title = "Attention patterns on an example"
    if story.learned is None:
        return section("attention", title, "", "")
    if story.example is None:
        return section("attention", title, "No example was given to show.", "", reached=True)
    text = _caveat(story)
    text += (
        "One sequence of tokens: each row is a query, each column a token it may look at"
        f"{', and a row sums to 1' if story.learned.function.normalised else ''}; more colour is "
        "more weight. Rows that are all alike would mean a head that ignores the query"
    )
    equal = story.truth is not None and not story.function_only
    text += "; learned and true patterns should be equal." if equal else "."
    learned = story.learned.attention(story.example)
    true = None if story.truth is None else story.truth.attention(story.example)
    blocks = []
    for pair in story.pairs[:MOST_HEADS]:
        shown = []
        if pair.learned is not None:
            shown.append(("learned", learned[pair.learned]))
        if pair.true is not None and true is not None:
            shown.append(("true", true[pair.true]))
        figures = "".join(
            f"<figure>{pattern(weights, f'{_name(pair)}, {label}', story.words)}"
            f"<figcaption>{_name(pair)}{'' if true is None else f', {label}'}</figcaption></figure>"
            for label, weights in shown
        )
        blocks.append(f'<div class="tiles">{figures}</div>')
    kind = "named" if story.words else "panels"
    content = f'<div class="{kind}">{"".join(blocks)}</div>{_left_out(len(story.pairs))}'
    return section("attention", title, text, content)
