"""Controls that the script of the page brings to life; without it they stay hidden."""

from __future__ import annotations

from gradine.report.parts import code
from gradine.report.story import Story

__all__ = ["beside_patterns", "editor", "heads_bar", "theme"]


def theme() -> str:
    """Light and dark."""
    return (
        '<p id="theme-bar" hidden><label for="theme">Colours</label> <select id="theme">'
        '<option value="system">as the system</option><option value="light">light</option>'
        '<option value="dark">dark</option></select></p>'
    )


def heads_bar(story: Story) -> str:
    """Which heads, and in which order; by match only where there is a truth."""
    orders = {"listed": "as listed"}
    if story.match is not None:
        orders |= {"best": "match, best first", "worst": "match, worst first"}
    orders |= {"w": "size of W", "theta": "size of Theta"}
    options = "".join(f'<option value="{name}">{label}</option>' for name, label in orders.items())
    return (
        '<div id="heads-bar" class="bar" role="group" aria-label="Heads shown" hidden>'
        '<label>Head <select id="head"></select></label>'
        '<button type="button" id="head-before" aria-label="previous head">&larr;</button>'
        '<button type="button" id="head-after" aria-label="next head">&rarr;</button>'
        f'<label>Order <select id="order">{options}</select></label></div>'
    )


def editor(story: Story) -> str:
    """Tokens of one's own, and what the layer makes of them."""
    assert story.learned is not None
    d = story.learned.dim
    example = "" if story.example is None else _button("example", "Example of the run")
    changes = {
        "shuffle": "Shuffle",
        "reverse": "Reverse",
        "negate": "Negate",
        "double": "Times 2",
        "halve": "Half",
    }
    return f"""\
<div id="editor" hidden>
<h3>Tokens of your own</h3>
<p>Attention is computed in this page from the heads above, as you type. A token is a row of {d}
numbers; rows of text, JSON, or an array as Python prints it will do.</p>
<div class="bar" role="group" aria-label="Start from">{example}{
        _button("draw", "New random tokens")
    }
<label>of <select id="sampled"><option value="boolean">±1</option>
<option value="gaussian">Gaussian</option></select></label>
<label>how many <input type="number" id="count" min="1" max="128" step="1"></label></div>
<label for="tokens-text">Tokens, one a row</label>
<textarea id="tokens-text" rows="5" spellcheck="false" autocomplete="off" wrap="off"
 aria-describedby="tokens-error"></textarea>
<p id="tokens-error" class="halt" role="alert"></p>
<div class="bar" role="group" aria-label="Change all tokens">{
        "".join(_button(name, label) for name, label in changes.items())
    }</div>
<div class="bar" role="group" aria-label="Change one number">
<label>Token <input type="number" id="token" min="1" value="1"></label>
<label>coordinate <input type="number" id="coordinate" min="1" value="1"></label>
<label>value <input type="number" id="value" step="any"></label></div>
<p><output id="tokens-said" aria-live="polite"></output></p>
</div>"""


def beside_patterns() -> str:
    """What stands below the patterns: the output, and the Python that gives them."""
    python = code("attention-python", "")
    return (
        '<div id="output"></div><p id="no-editor" class="note"></p>'
        f'<details id="python" hidden><summary>Python that gives these weights</summary>{python}'
        "</details>"
    )


def _button(name: str, label: str) -> str:
    return f'<button type="button" data-tokens="{name}">{label}</button>'
