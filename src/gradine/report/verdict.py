"""The top of the page: was the layer learned, how far did the run get, may one believe it?"""

from __future__ import annotations

from html import escape

from gradine.report.draw import number
from gradine.report.parts import facts
from gradine.report.story import Story

__all__ = ["verdict"]

#: The stations of the story: what a run calls them, and what a reader is told.
STATIONS = {
    "crude_sum": "1 crude sum",
    "sculpt": "2 sculpt",
    "proxy": "3 proxy",
    "sculpt_again_1": "4 sculpt again",
    "span": "5 span",
    "search": "6 search",
    "polish": "polish",
    "verify": "verify",
}


def verdict(story: Story) -> str:
    """Learned or not, in words, sign and colour."""
    fit = story.fit
    kind, sign, word = ("good", "✓", "Learned") if fit.learned else ("bad", "✗", "Not learned")
    reason = fit.reason[:1].upper() + fit.reason[1:]
    lines = [f"<p>{escape(reason)}.</p>"]
    if fit.certificate is not None:
        sentence = fit.certificate.sentence()
        lines.append(f"<p>{escape(sentence[:1].upper() + sentence[1:])}.</p>")
    elif fit.status.help:
        lines.append(f"<p><strong>What may help:</strong> {escape(fit.status.help)}.</p>")
    shown = {"heads": "-" if fit.heads is None else number(fit.heads)}
    if fit.held_out_error is not None:
        shown["held-out error (median)"] = number(fit.held_out_error)
    shown["examples"] = number(fit.examples_used)
    shown["seconds"] = f"{fit.seconds:.1f}"
    if story.match is not None and len(story.match.theta_error):
        shown["error of Theta, of W (worst head)"] = (
            f"{number(float(story.match.theta_error.max()))}, "
            f"{number(float(story.match.w_error.max()))}"
        )
    return (
        f'<section id="verdict" class="{kind}" aria-labelledby="verdict-title">\n'
        f'<h2 id="verdict-title"><span aria-hidden="true">{sign}</span> {word}</h2>\n'
        + "\n".join(lines)
        + facts(shown)
        + _stations(story)
        + "\n</section>"
    )


def _stations(story: Story) -> str:
    """The way through the phases, with the place where the run stopped."""
    fit = story.fit
    halt, passed, items = _halt(story), True, []
    for name, label in STATIONS.items():
        if name == halt:
            kind, sign, words, passed = "halt", "✗", ": stopped here", False
        elif not passed:
            kind, sign, words = "ahead", "·", ""
        elif name in fit.phases or name == "verify":
            kind, sign, words = "done", "✓", ""
        else:
            continue  # it was not asked for
        mark = f'<span aria-hidden="true">{sign}</span>'
        items.append(f'<li class="{kind}">{mark} {label}{words}</li>')
    return f'<ol class="way" aria-label="phases of the run">{"".join(items)}</ol>'


def _halt(story: Story) -> str | None:
    """The station where the run stopped: a phase that once succeeded failed in a repetition."""
    fit = story.fit
    if fit.learned:
        return None
    again = fit.status.phase in ("sculpt", "proxy") and fit.status.phase in fit.phases
    return "sculpt_again_1" if again else fit.status.phase
