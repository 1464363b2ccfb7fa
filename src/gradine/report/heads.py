"""The sections about the answer: the heads as matrices, and their attention on an example."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradine.report.controls import beside_patterns, editor
from gradine.report.draw import number
from gradine.report.matrices import MOST_SIDE, colour_bar, pattern, tiles
from gradine.report.parts import section
from gradine.report.story import HeadPair, Story
from gradine.status import Status

__all__ = ["attention", "heads", "matrices_of", "name_of", "shown_pairs"]

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
    shown = enumerate(shown_pairs(story))
    content = "\n".join(_head(story, pair, place) for place, pair in shown)
    more = _left_out(len(story.pairs)) + _function_error(story)
    return section("heads", title, text, content + more)


def shown_pairs(story: Story) -> list[HeadPair]:
    """The heads that there is room for."""
    return story.pairs[:MOST_HEADS]


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


def name_of(pair: HeadPair) -> str:
    """What a reader is told that a head is called."""
    if pair.learned is None:
        return f"True head {pair.true}: not found"
    return f"Head {pair.learned}"


def matrices_of(story: Story, pair: HeadPair, symbol: str) -> dict[str, Array]:
    """Theta or W of a head: learned, true and their difference, whatever of them there is."""
    shown = {}
    for label, layer, index in (
        ("learned", story.learned, pair.learned),
        ("true", story.truth, pair.true),
    ):
        if layer is not None and index is not None:
            shown[label] = getattr(layer, symbol)[index]
    if len(shown) == 2:
        shown["difference"] = shown["learned"] - shown["true"]
    return shown


def _head(story: Story, pair: HeadPair, place: int) -> str:
    rows = []
    for symbol, error in (("theta", pair.theta_error), ("w", pair.w_error)):
        shown = matrices_of(story, pair, symbol)
        names = {label: f"{symbol}-{label}-{place}" for label in shown}
        largest = float(max(np.abs(matrix).max() for matrix in shown.values()))
        pictures = tiles(shown, largest, f"{name_of(pair)}: {symbol.capitalize()}", names)
        words = "" if error is None else f"<span>relative error {number(error)}</span>"
        scale = f'<p class="scale">{colour_bar(largest)}{words}</p>'
        rows.append(f'<div class="panel">{pictures}{scale}</div>')
    if pair.true is None and story.truth is not None:
        rows.append('<p class="note">No true head is left to match this one.</p>')
    inside = f'<h3>{name_of(pair)}</h3><div class="panels">{"".join(rows)}</div>'
    return f'<div class="head" data-head="{place}">{inside}</div>'


def attention(story: Story) -> str:
    """The attention patterns on one example, and on tokens of the reader's own."""
    title = "Attention patterns on an example"
    if story.learned is None:
        return section("attention", title, "", "")
    if story.example is None:
        text = "No example was given to show."
    else:
        text = _caveat(story) + _meaning(story)
    kind = "named" if story.words else "panels"
    patterns = f'<div id="patterns" class="{kind}">{_patterns(story)}</div>'
    more = _left_out(len(story.pairs)) if story.example is not None else ""
    content = editor(story) + patterns + beside_patterns() + more
    return section("attention", title, text, content)


def _meaning(story: Story) -> str:
    assert story.learned is not None
    text = (
        "One sequence of tokens: each row is a query, each column a token it may look at"
        f"{', and a row sums to 1' if story.learned.function.normalised else ''}; more colour is "
        "more weight. Rows that are all alike would mean a head that ignores the query"
    )
    equal = story.truth is not None and not story.function_only
    return text + ("; learned and true patterns should be equal." if equal else ".")


def _patterns(story: Story) -> str:
    if story.example is None or story.learned is None:
        return ""
    learned = story.learned.attention(story.example)
    true = None if story.truth is None else story.truth.attention(story.example)
    blocks = []
    for place, pair in enumerate(shown_pairs(story)):
        shown = []
        if pair.learned is not None:
            shown.append(("learned", learned[pair.learned]))
        if pair.true is not None and true is not None:
            shown.append(("true", true[pair.true]))
        figures = "".join(
            "<figure>"
            + pattern(
                weights, f"{name_of(pair)}{'' if true is None else f', {label}'}", story.words
            )
            + "</figure>"
            for label, weights in shown
        )
        blocks.append(f'<div class="tiles" data-head="{place}">{figures}</div>')
    return "".join(blocks)
