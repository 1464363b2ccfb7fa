"""The top of the page: was the layer learned, how far did the run get, may one believe it?"""

from __future__ import annotations

from html import escape

from gradine.fit import Fit
from gradine.report.draw import number
from gradine.report.parts import facts, prose
from gradine.report.story import Story
from gradine.status import Status

__all__ = ["EXACT", "SCULPT", "said", "sign_of", "verdict", "word_of"]

#: The stations of each learner: what a run calls them, and what a reader is told.
EXACT = {
    "scout": "first look",
    "spectrum": "moments",
    "mixing": "mixing",
    "fit": "fit",
    "refine": "refine",
    "identify": "error bars",
    "ask": "ask",  # shown only where a run stopped for want of an answer
    "verify": "verify",
}
SCULPT = {
    "crude_sum": "1 crude sum",
    "sculpt": "2 sculpt",
    "proxy": "3 proxy",
    "sculpt_again_1": "4 sculpt again",
    "span": "5 span",
    "search": "6 search",
    "polish": "polish",
    "verify": "verify",
}
NOISY = (Status.LEARNED_UP_TO_NOISE, Status.TOO_NOISY)


def verdict(story: Story) -> str:
    """Learned or not, in words, sign and colour."""
    kind, sign = sign_of(story.fit)
    return (
        f'<section id="verdict" class="{kind}" aria-labelledby="verdict-title">\n'
        f'<h2 id="verdict-title"><span aria-hidden="true">{sign}</span> {word_of(story)}</h2>\n'
        f"{said(story)}\n</section>"
    )


def sign_of(fit: Fit) -> tuple[str, str]:
    """The kind of verdict, which has a colour, and its sign."""
    return ("good", "✓") if fit.learned else ("bad", "✗")


def said(story: Story, *, links: bool = True) -> str:
    """What is below the verdict: why, what was proven, figures, and the way to it.

    ``links`` lead to the steps of the page; a notebook has none.
    """
    fit = story.fit
    reason = fit.reason[:1].upper() + fit.reason[1:]
    lines = [f"<p>{prose(reason)}.</p>"]
    if fit.certificate is not None:
        sentence = fit.certificate.sentence()
        labels = "labels" if fit.asking is None else "answers"
        noisy = f"; held-out {labels} have noise themselves, which counts as error here"
        sentence += noisy if fit.status is Status.LEARNED_UP_TO_NOISE else ""
        lines.append(f"<p>{prose(sentence[:1].upper() + sentence[1:])}.</p>")
    if fit.help:
        lines.append(f"<p><strong>What may help:</strong> {prose(fit.help)}.</p>")
    shown = {_heads_label(story): number(fit.heads)}
    if fit.held_out_error is not None:
        shown["held-out error (median)"] = number(fit.held_out_error)
    shown[story.word] = number(fit.examples_used)
    if fit.survey.left_out:
        blocks = number(len(fit.survey.left_out))
        shown["bad blocks left out"] = f"{blocks} ({number(fit.survey.skipped)} examples)"
    if fit.asking is not None:
        shown["rows of answers"] = number(fit.asking.rows_used)
    shown["seconds"] = f"{fit.seconds:.1f}"
    if story.match is not None and len(story.match.theta_error):
        shown["error of Theta, of W (worst head)"] = (
            f"{number(float(story.match.theta_error.max()))}, "
            f"{number(float(story.match.w_error.max()))}"
        )
    known = story.known if fit.status in NOISY else None
    if known is not None:
        noise_of = "labels" if fit.asking is None else "answers"
        shown[f"noise of the {noise_of}"] = number(known.noise)
        shown["error bar of Theta, of W (worst head)"] = (
            f"{number(float(known.theta_bars.max()))}, {number(float(known.w_bars.max()))}"
        )
    return "\n".join(lines) + facts(shown) + _ways(story, links)


def word_of(story: Story) -> str:
    """The verdict in a few words."""
    status = story.fit.status
    if story.function_only:
        return "Learned the function, not the heads"
    if status is Status.LEARNED_UP_TO_NOISE:
        return "Learned up to noise"
    return "Learned" if status.learned else "Not learned"


def _heads_label(story: Story) -> str:
    """What the number of heads is worth."""
    if story.function_only:
        return "heads (not determined)"
    candidate = story.fit.method != "sculpt" and not story.fit.learned
    return "heads (not believed)" if candidate else "heads"


def _ways(story: Story, links: bool) -> str:
    """The way of each learner that took part; a second one is tried where the first fails."""
    ways = []
    if story.exact_ran:
        ways.append(("exact", _stations(story, EXACT, _exact_halt(story), links)))
    if story.sculpt_ran:
        ways.append(("sculpt", _stations(story, SCULPT, _sculpt_halt(story), links)))
    if not ways:  # a design: it names its own phases
        own = _stations(story, _own_stations(story), _halt(story), links)
        ways.append((story.fit.method, own))
    return "".join(
        f'<ol class="way" aria-label="phases of the run{"" if len(ways) == 1 else f", {name}"}">'
        f"{'' if len(ways) == 1 else f'<li class=learner>{name}</li>'}{items}</ol>"
        for name, items in ways
    )


def _stations(story: Story, stations: dict[str, str], halt: str | None, links: bool) -> str:
    """The way through the phases, with the place where the run stopped."""
    passed, items = True, []
    for name, label in stations.items():
        if name == halt:
            kind, sign, words, passed = "halt", "✗", ": stopped here", False
        elif name == "identify" and story.function_only:
            kind, sign, words = "ahead", "?", ": unknown"
        elif _ran(story, name) if passed else name in story.fit.phases and name != "verify":
            kind, sign, words = "done", "✓", ""  # behind a halt, too: a refused answer has bars
        elif passed or name == "ask":
            continue  # it was not asked for
        else:
            kind, sign, words = "ahead", "·", ""
        inside = f'<span aria-hidden="true">{sign}</span> {label}{words}'
        step = "end" if kind == "halt" else _step(story, name)
        if links and step and kind != "ahead":
            inside = f'<a href="#phase-{step}">{inside}</a>'
        items.append(f'<li class="{kind}">{inside}</li>')
    return "".join(items)


def _step(story: Story, name: str) -> str:
    """The step of the page that tells of a station; empty: there is none."""
    if name in story.fit.phases:
        return name
    if name == "fit" and story.fits:
        return list(story.fits)[-1]
    return "end" if name == "verify" else ""


def _ran(story: Story, name: str) -> bool:
    """Whether a run came by; fits and the check at the end are no phases of that name."""
    return name in story.fit.phases or name == "verify" or (name == "fit" and bool(story.fits))


def _own_stations(story: Story) -> dict[str, str]:
    names = [name for name in story.fit.phases if name != "verify"]
    halt = _halt(story)
    names += [] if halt is None or halt in (*names, "verify") else [halt]
    return {name: escape(name.replace("_", " ")) for name in (*names, "verify")}


def _halt(story: Story) -> str | None:
    return None if story.fit.learned else story.fit.status.phase


def _exact_halt(story: Story) -> str | None:
    """The station where the exact learner stopped; None if its answer was verified."""
    fit, answer = story.fit, story.answer
    if story.fitted:
        return _halt(story)
    # The other learner gave the answer: this one was refused by its own check, or by the last one.
    believed = "refine" in fit.phases or (answer is not None and answer.exact)
    return "verify" if believed else "fit"


def _sculpt_halt(story: Story) -> str | None:
    """The station where the six phases stopped: one that once succeeded failed in a repetition."""
    fit = story.fit
    if fit.method != "sculpt":  # tried after the exact learner, and no better
        asked = [name for name in SCULPT if name != "polish" or fit.config.sculpt.polish]
        done = max((place for place, name in enumerate(asked) if name in fit.phases), default=-1)
        return asked[done + 1]
    if fit.learned:
        return None
    again = fit.status.phase in ("sculpt", "proxy") and fit.status.phase in fit.phases
    return "sculpt_again_1" if again else fit.status.phase
