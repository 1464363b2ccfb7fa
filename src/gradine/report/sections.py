"""The sections about the phases: what one sees, and what would be wrong if it looked different."""

from __future__ import annotations

from html import escape

import numpy as np

from gradine.report import pictures
from gradine.report.draw import number
from gradine.report.parts import facts, panels, section, table
from gradine.report.story import Story
from gradine.status import Status

__all__ = ["body", "certificate", "hull", "polish", "total"]


def total(story: Story) -> str:
    """How the estimate of the sum improved."""
    items = story.estimates
    known = story.truth is not None
    text = (
        "Phases 1 and 3 estimate W, the sum of the heads' projections. The crude estimates are "
        "biased, however many examples there are; the refined ones should be far nearer, and a "
        "refined one that is no better means that the rows it was fitted on do not agree."
    )
    if known:
        text += " Distances are to the true sum."
    elif story.learned is not None:
        text += " No truth was given: distances are to the sum of the final answer."
    if not items:
        return section("sum", "How the estimate of the sum improved", text, "")
    rows = [[escape(item.name), number(item.distance), number(item.residual)] for item in items]
    reference = "distance to the truth" if known else "distance to the final answer"
    drawable = any(item.distance is not None or item.residual is not None for item in items)
    picture = pictures.estimates(items, reference) if drawable else ""
    listing = table("Estimates of W, in order", ["estimate of W", "distance", "residual"], rows)
    return section("sum", "How the estimate of the sum improved", text, panels(picture, listing))


def body(story: Story) -> str:
    """How the body shrank."""
    text = (
        "Each certified row confines all heads to a slab; together the slabs leave a convex body "
        "around them. With the refined sum the slabs of phase 4 should be much thinner than those "
        "of phase 2: if they are not, carving again bought nothing. Many dropped slabs mean that "
        "rows were certified on which the heads do not agree."
    )
    rounds, rows = [], []
    for name, again in story.rounds_of("sculpt"):
        result = story.fit.phases[name]
        label = "phase 2" if again == 0 else f"phase 4, round {again}"
        widths = result.sigma * result.feasible_slack
        rounds.append((label.replace(", ", "\n"), widths))
        middle = number(float(np.median(widths)))
        counts = [number(len(result.sigma)), number(int(result.dropped))]
        rows.append([label, *counts, middle, number(float(result.residual))])
    if not rounds:
        return section("body", "How the body shrank", text, "")
    head = ["carving", "slabs", "dropped", "median half-width", "median residual"]
    content = panels(pictures.carving(rounds), table("The body after each carving", head, rows))
    return section("body", "How the body shrank", text, content)


def hull(story: Story) -> str:
    """The singular values that show the hull."""
    title = "The singular values that show the hull"
    text = (
        "The body is thin in every direction but those of the affine hull of the m heads: m "
        "singular values are small, then comes a gap. Without a gap the number of heads could "
        "not be told. The theorem's own way, long chords measured by membership queries, must show "
        "m - 1 long chords and then a short one, in the same directions."
    )
    if story.spectrum is None:
        return section("hull", title, text, "")
    values, heads = story.spectrum
    left = pictures.spectrum(values, heads)
    span = story.fit.phases.get("span")
    if span is None:
        note = "The run stopped before the hull was settled; this is what the last carving saw."
        return section("hull", title, text, panels(left, f"<p>{note}</p>"))
    right = "<p>Chords were not measured in this run.</p>"
    if len(span.chord_lengths):
        right = pictures.chords(span.chord_lengths)
    listing = {
        "heads": number(int(span.heads)),
        "heads that the spectrum shows": number(int(span.counted)),
        "gap": f"{number(float(span.gap))} times",
    }
    if span.chord_agreement is not None:
        listing["cosine between the two hulls"] = f"{span.chord_agreement:.4f}"
    listing["membership queries"] = number(int(span.queries))
    return section("hull", title, text, panels(left, right) + facts(listing))


def polish(story: Story) -> str:
    """Net and polish."""
    title = "Net search and polish"
    text = (
        "Phase 6 tries points of a net over the hull and keeps the heads that explain fresh "
        "examples best: that is the theorem's answer. The polish, which is no part of the "
        "theorem, goes on from there and should fall steeply to rounding; a curve that levels "
        "off early means noise in the labels, or a wrong number of heads."
    )
    found, done = story.fit.phases.get("search"), story.fit.phases.get("polish")
    if found is None:
        return section("polish", title, text, "")
    listing = {
        "points of the net": number(int(found.points)),
        "tuples tried": number(int(found.tuples)),
        "error of the best tuple": number(float(found.net_error)),
        "after local refinement (the theorem's answer)": number(float(found.validation_error)),
    }
    picture = ""
    if done is None:
        picture = "<p>No polish was asked for: the answer is the theorem's own.</p>"
    elif done.skipped or len(done.losses) == 0:
        picture = f"<p>The polish was skipped: {escape(done.skipped or 'nothing to do')}.</p>"
    else:
        picture = pictures.losses(done.losses, float(found.validation_error))
        listing["steps of the polish"] = number(len(done.losses) - 1)
        listing["validation error after the polish"] = number(float(done.validation_error))
    return section("polish", title, text, panels(picture, facts(listing)))


def certificate(story: Story) -> str:
    """The certificate."""
    title, proven = "The certificate", story.fit.certificate
    if proven is None:
        made = "made the examples" if story.fit.asking is None else "answered"
        text = (
            "There is no certificate: nothing was learned that could be proven. No layer of this "
            f"run should be used as if it were the one that {made}."
        )
        return section("certificate", title, text, "", reached=True)
    text = (
        f"{proven.sentence().capitalize()}. The curve holds as a whole and may be read anywhere: "
        "at most the share p of all inputs has a relative error above eps. It rests on "
        f"{story.word} that took no part in fitting; the floor on the right is all that their "
        "number can prove, "
    )
    if story.fit.status is Status.LEARNED_UP_TO_NOISE:
        text += (
            "and the curve comes down at the noise of the labels, as held-out labels have it too: "
            "the true layer itself would do no better. How far the heads may be from it is "
            "another question, which the error bars answer."
        )
    else:
        text += "and a curve that comes down only far to the right would mean an inexact answer."
    listing = {
        "confidence": f"{proven.confidence:.1%}",
        f"held-out {story.word}": number(proven.examples),
        "median relative error": number(proven.median_error),
        "largest relative error": number(proven.largest_error),
    }
    if proven.bars is not None and story.fit.status is Status.LEARNED_UP_TO_NOISE:
        listing["noise of the labels"] = number(proven.bars.noise)
        listing["largest error bar of Theta"] = number(max(proven.bars.theta))
        listing["largest error bar of W"] = number(max(proven.bars.w))
    return section("certificate", title, text, panels(pictures.certificate(proven), facts(listing)))
