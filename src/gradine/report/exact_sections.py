"""The sections about the exact learner; each is empty text where its phase did not run."""

from __future__ import annotations

from html import escape

import numpy as np

from gradine.exact.results import Curve, HeadFit, Identified, Mixed, Spectrum
from gradine.report import exact_pictures as pictures
from gradine.report.draw import number
from gradine.report.parts import facts, panels, section, table
from gradine.report.story import Story
from gradine.status import Status

__all__ = ["curve", "determined", "fits", "moments"]


def moments(story: Story) -> str:
    """What the moments say about the number of heads."""
    seen: Spectrum | None = story.fit.phases.get("spectrum")
    if seen is None:
        return ""
    title = "The moments' spectrum"
    if not seen.applies:
        text = (
            f"The moments were not used to count the heads: {seen.reason}. The fit below counts "
            "them itself, beginning with one."
        )
        return section("moments", title, text, "", reached=True)
    text = (
        "Third-order moments of inputs and outputs make a matrix that has one large singular value "
        "for each head, then a gap. The edge is the largest value that as many examples would show "
        "without any head; values near it say nothing. "
    )
    if seen.heads == 0:
        text += (
            f"Here no head was counted{f': {seen.reason}' if seen.reason else ''}. "
            "The fit below counts them itself, beginning with one."
        )
    else:
        text += (
            "The number is only where the fit begins: a wrong one costs time, and the fits below "
            "mend it."
        )
    listing = {
        "heads counted": number(seen.heads),
        "confidence in this number": _percent(seen.confidence),
        "examples": number(seen.examples),
        "passes over them": number(seen.passes),
        "share of the outputs beyond their linear part": f"{seen.energy:.1%}",
    }
    mixed: Mixed | None = story.fit.phases.get("mixing")
    if mixed is not None:
        listing["residual of the heads that the moments give"] = number(mixed.residual)
    picture = pictures.moments(seen) if len(seen.values) else ""
    return section("moments", title, text, panels(picture, facts(listing)))


def _percent(share: float) -> str:
    """A chance in per cent that is never rounded up to certainty."""
    return "> 99.9%" if 0.999 < share < 1.0 else f"{share:.1%}"


def fits(story: Story) -> str:
    """Loss against evaluations, for each number of heads."""
    found = story.fits
    if not found:
        return ""
    answer = story.answer
    text = (
        "All heads are fitted at once; their number is right when one more explains nothing more. "
        "A dot is where a start begins, a number how many heads the curve has. "
        "Without noise the curve of the right number of heads falls to rounding, and those with "
        "fewer level off; with noise the right one levels off at the noise, and more heads are no "
        "better on validation examples. An annealed start goes down slowly, from strong penalties "
        "to none."
    )
    if story.fit.status is Status.NOT_REALIZABLE:
        text += " Here no curve came down to rounding, nor to what could be noise."
    rows = [row for name, fit in found.items() for row in _starts(name, fit)]
    head = ["heads", "start", "reason", "residual", "validation error", "evaluations"]
    listing = {}
    if answer is not None:
        rank = "full" if answer.rank is None else number(answer.rank)
        listing = {
            "heads": number(answer.heads),
            "rank of a head": rank,
            f"{story.word} fitted": number(answer.examples),
            "equations for each unknown": number(float(answer.equations)),
            "residual": number(answer.residual),
            "validation error": number(answer.validation_error),
        }
    believed = story.fit.learned and story.fitted
    picture = pictures.fits(found, answer, "the answer" if believed else "last candidate")
    content = panels(picture, facts(listing) if listing else "")
    content += f'<div class="starts">{table("Every start of every fit", head, rows)}</div>'
    return section("fit", "The fit", text, content)


def _starts(name: str, fit: HeadFit) -> list[list[str]]:
    """One row for each start; the validation error stands where the best one is."""
    ends = [*fit.begins[1:], len(fit.misfits)]
    parts = [fit.misfits[begin:end] for begin, end in zip(fit.begins, ends, strict=True)]
    # The last evaluations are those without penalties; the lowest of a start is where it ended.
    residuals = [float(np.sqrt(part.min())) for part in parts]
    best = int(np.argmin(residuals))
    rows = []
    for index, (part, reason, residual) in enumerate(
        zip(parts, fit.reasons, residuals, strict=True)
    ):
        start = "refined" if name.startswith("refine") else number(index + 1)
        validated = number(fit.validation_error) if index == best else "-"
        cells = [start, escape(reason), number(residual), validated, number(len(part))]
        rows.append([number(fit.heads), *cells])
    return rows


def curve(story: Story) -> str:
    """Where learning sets in."""
    measured: Curve | None = story.fit.phases.get("curve")
    if measured is None:
        return ""
    noisy = story.fit.status is Status.LEARNED_UP_TO_NOISE
    text = (
        "Fits to ever more of the examples, each begun near the answer. The counting bound is as "
        "many examples as give one equation for each unknown number: with fewer nothing is "
        "determined, however one learns. The error should fall to "
        + ("the noise of the labels" if noisy else "rounding, all at once,")
        + " soon after it; a curve that falls late means heads that few examples show."
    )
    rows = [
        [number(int(n)), number(float(ratio)), number(float(error))]
        for n, ratio, error in zip(measured.examples, measured.ratio, measured.errors, strict=True)
    ]
    head = ["examples", "over the bound", "validation error"]
    listing = table("Fits to ever more examples", head, rows)
    content = panels(pictures.curve(measured), listing)
    return section("curve", "Error against examples", text, content)


def determined(story: Story) -> str:
    """Singular values of the Jacobian, and error bars."""
    known = story.known
    if known is None:
        return ""
    text = (
        "The Jacobian says how the outputs move when the heads do: a singular value near zero "
        "would be a direction in which the heads could move and no example would notice. An error "
        "bar is how far noise of the labels moves a head (relative standard error)"
    )
    beside = (
        story.match is not None and story.fitted and story.learned is not None
    ) and story.learned.n_heads == len(known.theta_bars)
    text += _meaning(story, beside)
    listing = {
        "noise of the labels (what is left, relative)": number(known.noise),
        "condition (largest over smallest)": number(float(known.condition)),
        "simulated noises": number(known.samples),
    }
    bars = _bars_with_errors(story, known) if beside else _bars(known)
    side = facts(listing) + bars
    picture = pictures.jacobian(known.singular_values) if len(known.singular_values) else ""
    return section("determined", f"What the {story.word} determine", text, panels(picture, side))


def _meaning(story: Story, beside: bool) -> str:
    """What the bars are worth in this run; ``beside``: true errors stand beside them."""
    answer, status = story.answer, story.fit.status
    if not story.fitted or status in (Status.NOT_REALIZABLE, Status.NOT_VERIFIED):
        return (
            ". This answer was not believed: what it leaves is no noise, and bars that take it for "
            "noise say too little."
        )
    if story.function_only:
        return (
            ". Here it would be unbounded: other heads compute the same function of inputs like "
            "these, and nothing is claimed of the ones that are shown."
        )
    if answer is not None and answer.exact:
        size = ", which is not random: true errors may be several bars" if beside else ""
        return f"; here there is no noise but rounding{size}."
    if status is Status.TOO_NOISY:
        text = "; here the bars are too large for the heads to be believed."
    else:
        text = "; four times as many examples would halve it."
    return text + (" True errors should be within a few bars." if beside else "")


def _bars(known: Identified) -> str:
    rows = [
        [f"Head {head}", number(float(theta)), number(float(w))]
        for head, (theta, w) in enumerate(zip(known.theta_bars, known.w_bars, strict=True))
    ]
    return table("Error bars (relative)", ["error bar of", "Theta", "W"], rows)


def _bars_with_errors(story: Story, known: Identified) -> str:
    rows = []
    for pair in story.pairs:
        if pair.learned is None:
            continue
        theta, w = known.theta_bars[pair.learned], known.w_bars[pair.learned]
        cells = [float(theta), pair.theta_error, float(w), pair.w_error]
        rows.append([f"Head {pair.learned}", *map(number, cells)])
    head = ["head", "Theta: bar", "true error", "W: bar", "true error"]
    return table("Error bars beside true errors (relative)", head, rows)
