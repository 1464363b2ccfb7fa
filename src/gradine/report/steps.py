"""The run phase by phase: what each does, and what it came to. The page's script steps through."""

from __future__ import annotations

import re
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine.fit import figures_of
from gradine.report.draw import number
from gradine.report.matrices import colour_bar, tiles
from gradine.report.parts import facts, prose, section
from gradine.report.story import Story
from gradine.report.verdict import EXACT, SCULPT
from gradine.status import heads_in_words

__all__ = ["estimates_of", "steps"]

Array = NDArray[np.float64]

#: What a phase does, and the section that draws it; a repetition or a number of heads follows the
#: name. Phases that are not named here are shown under their own names.
PHASES = {
    "crude_sum": (
        "Correlates inputs with outputs for a first estimate of the sum of the W.",
        "sum",
    ),
    "sculpt": (
        "Certifies rows on which all heads agree: each confines the heads to a slab.",
        "body",
    ),
    "proxy": ("Takes the smallest point of the body, and fits the sum where it is sure.", "sum"),
    "span": (
        "Finds the directions in which the body is long: the affine hull of the heads.",
        "hull",
    ),
    "search": ("Tries points of a net over the hull: the theorem's answer.", "polish"),
    "polish": ("Least squares over all heads at once, from the theorem's answer.", "polish"),
    "spectrum": ("Counts the heads by third-order moments.", "moments"),
    "mixing": ("Finds heads inside the span that the moments show.", "moments"),
    "fit": ("Fits so many heads at once.", "fit"),
    "refine": ("Fits them again, to all examples.", "fit"),
    "ripe": ("Fits a start that had not settled to its end.", "fit"),
    "needed": ("Fits again without heads that are not needed.", "fit"),
    "identify": ("Asks how well the data determine the heads.", "determined"),
    "curve": ("Fits ever more of the examples, for this page alone.", "curve"),
    "scout": ("Asks a few small questions, to count the heads.", "scout"),
    "verify": ("Asks fresh questions, and compares the answers.", "certificate"),
}
#: Figures worth a line, and what to call them; those of a phase that is not named here are shown
#: under their own names.
LABELS = {
    "energy": "share of the outputs' energy",
    "rows": "rows",
    "informative": "share of informative rows",
    "slabs": "slabs kept",
    "dropped": "slabs dropped",
    "feasible_slack": "smallest slack",
    "residual": "residual",
    "heads": "heads",
    "gap": "gap",
    "chord_agreement": "agreement with chords",
    "queries": "queries",
    "span queries": "membership queries",
    "points": "points of the net",
    "tuples": "tuples tried",
    "net_error": "error of the net",
    "validation_error": "validation error",
    "skipped": "skipped",
    "edge": "noise edge",
    "spectrum energy": "share beyond the linear part",
    "exact": "exact",
    "settled": "settled",
    "equations": "equations an unknown",
    "products": "products with the Jacobian",
    "flops": "operations",
    "samples": "simulated noises",
    "seconds": "seconds",
}
NOT_FIGURES = {"counted", "applies"}


def steps(story: Story) -> str:
    """All phases as a list, with their names in JSON; the script shows one at a time."""
    names = list(story.fit.phases)
    items = [_step(story, name) for name in names] + [_end(story)]
    bar = (
        '<div id="steps-bar" class="bar" role="group" aria-label="Phases" hidden>'
        '<button type="button" id="step-before">Previous</button>'
        '<button type="button" id="step-after">Next</button>'
        '<output id="steps-said" aria-live="polite"></output>'
        '<label><input type="checkbox" id="steps-all"> show all</label></div>'
    )
    text = "What each phase came to, in the order in which they ran."
    content = f'{bar}\n<ol id="steps">{"".join(items)}</ol>'
    return section("phases", "Phase by phase", text, content)


def _step(story: Story, name: str) -> str:
    kind, label = _title(name)
    words, drawn = PHASES.get(kind, ("", ""))
    figures = _figures(name, figures_of(story.fit.phases[name]))
    more = f' <a href="#{drawn}">See it drawn.</a>' if drawn and _has(story, drawn) else ""
    text = f"<p>{escape(words)}{more}</p>" if words else ""
    title = escape(label) if label == name else f"{escape(label)} <code>{escape(name)}</code>"
    return _item(f"phase-{name}", title, text + facts(figures) + _estimate(story, name))


def _end(story: Story) -> str:
    fit = story.fit
    reason = fit.reason[:1].upper() + fit.reason[1:]
    lines = [reason, *([] if fit.certificate is None else [fit.certificate.sentence()])]
    lines += [f"What may help: {fit.help}"] if fit.help else []
    words = "".join(f"<p>{prose(line[:1].upper() + line[1:])}.</p>" for line in lines)
    title = "the end: verified" if fit.learned else f"the end: stopped at {fit.status.phase}"
    return _item("phase-end", escape(title), words)


def _item(name: str, title: str, content: str) -> str:
    return f'<li id="{escape(name)}"><h3>{title}</h3>{content}</li>\n'


def _title(name: str) -> tuple[str, str]:
    """The phase that a name belongs to, and what to call it."""
    known = EXACT | SCULPT
    parts = re.fullmatch(r"(.+?)(_again)?(?:_(\d+))?", name)
    assert parts is not None
    kind, again, count = parts.groups()
    if kind not in PHASES:
        return name, name.replace("_", " ")
    if again:
        return kind, f"4 {kind} again" + (f", round {count}" if count != "1" else "")
    label = known.get(kind, kind)
    return kind, label if count is None else f"{label}, {heads_in_words(int(count))}"


def _has(story: Story, drawn: str) -> bool:
    """Whether the page has the section: those of moments and the like only where they say
    something, the others always."""
    if drawn == "curve":
        return "curve" in story.fit.phases
    return drawn != "determined" or story.known is not None


def _figures(phase: str, figures: dict[str, Any]) -> dict[str, str]:
    shown = {}
    for name, value in figures.items():
        if isinstance(value, list) and name == "examples":
            value = value[-1]  # ever more of them
        if name in NOT_FIGURES or isinstance(value, list) or value in ("", None):
            continue
        label = LABELS.get(f"{phase} {name}") or LABELS.get(name, name.replace("_", " "))
        shown[label] = f"{value:.2f}" if name == "seconds" else _shown(value)
    return shown


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else number(value)


def estimates_of(story: Story) -> dict[str, dict[str, Array]]:
    """The sum of the W as phases of the theorem know it, beside the true or the last one."""
    reference, d = story.reference, len(story.fit.survey.x_mean)
    found = {}
    for name, result in story.fit.phases.items():
        value = getattr(result, "estimate", getattr(result, "refined_sum", None))
        if value is None and name in ("search", "polish"):
            value = result.w.sum(axis=0)
        if value is None:
            continue
        found[name] = {"estimate": value[:d]}
        if reference is not None:
            label = "final" if story.truth is None else "true"
            found[name] |= {label: reference[:d], "difference": value[:d] - reference[:d]}
    return found


def _estimate(story: Story, name: str) -> str:
    shown = estimates_of(story).get(name)
    if not shown:
        return ""
    largest = float(max(np.abs(matrix).max() for matrix in shown.values()))
    names = {label: f"sum-{label}-{name}" for label in shown}
    return (
        f"<p>Sum of the W as it is known now:</p>{tiles(shown, largest, 'Sum of W', names)}"
        f'<p class="scale">{colour_bar(largest)}</p>'
    )
