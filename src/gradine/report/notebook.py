"""What a notebook shows of layers, fits, certificates, comparisons, plans and checks.

Each is one piece of HTML with its style inside: it needs no script, no network and no file. Colours
are those of the notebook, so that light and dark need not be told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine.certificate import Certificate
from gradine.fit import Fit
from gradine.layer import AttentionLayer
from gradine.report import pictures
from gradine.report.draw import number
from gradine.report.matrices import colour_bar, tile
from gradine.report.parts import facts, panels, prose, table
from gradine.report.story import tell
from gradine.report.verdict import said, sign_of, word_of
from gradine.score import Match
from gradine.status import heads_in_words
from gradine.theory.judgement import LEARNERS, Check, Condition, Learner
from gradine.theory.plan import Budget, Plan

__all__ = ["html_of"]

Array = NDArray[np.float64]

MOST_HEADS = 8  # drawn: a notebook keeps what it shows
MOST_SIDE = 48  # entries along a side of a matrix, for the same reason

#: Mid-tones for good and bad; the rest is the ink of the notebook, on its ground.
STYLE = """\
.gradine {
  --ink: currentColor; --soft: currentColor; --line: rgba(128, 128, 128, 0.45);
  --card: transparent; --good: #1f9d72; --bad: #e0574f; max-width: 52rem; line-height: 1.4;
}
.gradine .title { margin: 0 0 0.3rem; font-size: 1.1rem; font-weight: 600; }
.gradine .good { color: var(--good); }
.gradine .bad { color: var(--bad); }
.gradine p { margin: 0.3rem 0; max-width: 46rem; }
.gradine .facts { display: flex; flex-wrap: wrap; gap: 0.3rem 1.6rem; margin: 0.4rem 0; }
.gradine .facts dt, .gradine .facts dd { float: none; width: auto; margin: 0; padding: 0; }
.gradine .facts dt { font-size: 0.8rem; font-weight: 400; opacity: 0.75; }
.gradine .facts dd { font-weight: 600; font-variant-numeric: tabular-nums; }
.gradine ol.way { display: flex; flex-wrap: wrap; gap: 0.3rem; margin: 0.5rem 0 !important;
  padding: 0; list-style: none; }
.gradine .way li { margin: 0; padding: 0 0.5rem; border: 1px solid currentColor;
  border-radius: 1rem; font-size: 0.8rem; }
.gradine .way .learner { border-color: transparent; }
.gradine .done { color: var(--good); }
.gradine .halt { color: var(--bad); font-weight: 600; }
.gradine .tiles { display: flex; flex-wrap: wrap; gap: 0.5rem; margin: 0.5rem 0 0.2rem; }
.gradine figure { margin: 0; width: 6.5rem; text-align: center; font-size: 0.75rem; }
.gradine figure img { display: block; width: 100%; height: auto; margin: 0;
  border: 1px solid var(--line); }
.gradine .sharp { image-rendering: pixelated; }
.gradine .scale { display: flex; flex-wrap: wrap; gap: 0 1.2rem; font-size: 0.75rem; }
.gradine .colours { display: inline-flex; gap: 0.3rem; align-items: center; }
.gradine .colours img { width: 4rem; height: 0.6rem; margin: 0; image-rendering: auto; }
.gradine .panels { display: flex; flex-wrap: wrap; gap: 0.5rem 1.5rem; align-items: center; }
.gradine .plot { display: block; width: 24rem; max-width: 100%; height: auto; }
.gradine .wide { overflow-x: auto; }
.gradine table { border-collapse: collapse; margin: 0.4rem 0; font-size: 0.8rem; }
.gradine th, .gradine td { padding: 0.15rem 0.6rem; border-bottom: 1px solid var(--line);
  text-align: right; font-variant-numeric: tabular-nums; }
.gradine th:first-child, .gradine caption { text-align: left; }
.gradine .words td:last-child, .gradine .words th:last-child { text-align: left; }
"""


def html_of(thing: Any) -> str:
    """The piece of HTML that a notebook shows of ``thing``.

    >>> import gradine
    >>> shown = html_of(gradine.plant(heads=2, dim=4))
    >>> shown.count("<figure>"), "<script" in shown
    (4, False)
    """
    return f'<div class="gradine"><style>{STYLE}</style>\n{_drawn(thing)}\n</div>'


@singledispatch
def _drawn(thing: Any) -> str:
    raise ValueError(f"thing is a {type(thing).__name__}; expected something that is drawn here")


def _title(text: str, kind: str = "", sign: str = "") -> str:
    mark = f'<span aria-hidden="true">{sign}</span> ' if sign else ""
    return f'<p class="title {kind}">{mark}{escape(text)}</p>'


def _sentence(text: str) -> str:
    return f"<p>{prose(text[:1].upper() + text[1:])}.</p>"


@_drawn.register
def _(layer: AttentionLayer) -> str:
    shown = {
        "dim": number(layer.dim),
        "out_dim": number(layer.out_dim),
        "constant coordinate": "yes" if layer.constant else "no",
        "attention": layer.function.name,
    }
    if layer.factors is not None:
        ranks = (layer.factors.rank, layer.factors.value_rank)
        shown["rank, value rank"] = ", ".join(number(rank) for rank in ranks)
    title = _title(f"Attention layer of {heads_in_words(layer.n_heads)}")
    return title + facts(shown) + _heads(layer)


def _heads(layer: AttentionLayer) -> str:
    """Theta and W of each head as images, all Theta on one scale and all W on another."""
    count = min(layer.n_heads, MOST_HEADS)
    rows, scales = [], []
    for symbol, matrices in (("Theta", layer.theta), ("W", layer.w)):
        largest = float(np.abs(matrices[:count]).max(initial=0.0))
        figures = "".join(_figure(matrices[i], largest, f"{symbol} {i}") for i in range(count))
        rows.append(f'<div class="tiles">{figures}</div>')
        scales.append(f"<span>{symbol}</span>{colour_bar(largest)}")
    left_out = ""
    if layer.n_heads > count:
        left_out = f"<span>{count} of {layer.n_heads} heads are drawn</span>"
    return f'{"".join(rows)}<p class="scale">{"".join(scales)}{left_out}</p>'


def _figure(matrix: Array, largest: float, label: str) -> str:
    image = tile(matrix, largest, label, most=MOST_SIDE)
    return f"<figure>{image}<figcaption>{label}</figcaption></figure>"


@_drawn.register
def _(fit: Fit) -> str:
    story = tell(fit, None, None, None)
    title = _title(word_of(story), *sign_of(fit))
    return title + said(story, links=False) + ("" if fit.layer is None else _heads(fit.layer))


@_drawn.register
def _(certificate: Certificate) -> str:
    shown = {
        "confidence": f"{certificate.confidence:.1%}",
        "held-out examples": number(certificate.examples),
        "median relative error": number(certificate.median_error),
        "largest relative error": number(certificate.largest_error),
    }
    if certificate.bars is not None:
        shown["largest error bar of Theta"] = number(max(certificate.bars.theta))
        shown["largest error bar of W"] = number(max(certificate.bars.w))
    picture = panels(pictures.certificate(certificate), facts(shown))
    return _title("Certificate") + _sentence(certificate.sentence()) + picture


@_drawn.register
def _(match: Match) -> str:
    shown = {
        "function error": number(match.function_error),
        "missing heads": number(match.missing),
        "extra heads": number(match.extra),
    }
    pairs = zip(match.order, match.theta_error, match.w_error, strict=True)
    rows = [
        (
            str(head),
            "none" if partner < 0 else str(partner),
            number(float(theta_error)),
            number(float(w_error)),
        )
        for head, (partner, theta_error, w_error) in enumerate(pairs)
    ]
    titles = ("true head", "learned head", "theta error", "w error")
    title = _title("Learned layer against the true one")
    order = _sentence("heads are those of the canonical forms, by decreasing norm of W")
    return title + facts(shown) + table("Heads and their partners", titles, rows) + order


@_drawn.register
def _(plan: Plan) -> str:
    needs = [(f"phase {need.phase}", need.examples, need.limit) for need in plan.phases]
    needs.append(("exact learner", plan.exact_fit, plan.exact_limit))
    rows = [(escape(name), number(count), escape(limit)) for name, count, limit in needs]
    budgets = [
        ("six phases", *_cells(plan.sculpt)),
        ("exact learner", *_cells(plan.exact)),
    ]
    return (
        _title(f"Plan: {number(plan.examples)} examples for the learner {plan.learner}")
        + _sentence(plan.sentence())
        + table(
            "What each learner would take",
            ("", "examples", "fit", "verify", "seconds", "MiB"),
            budgets,
        )
        + _in_words(table("What each step must fit, and why", ("", "must fit", "because of"), rows))
    )


def _cells(budget: Budget | None) -> Sequence[str]:
    if budget is None:
        return ("out of reach", "", "", "", "")
    counts = (number(count) for count in (budget.examples, budget.fit, budget.verify))
    return (*counts, f"{budget.seconds:.2g}", number(round(budget.memory / 2**20)))


@_drawn.register
def _(check: Check) -> str:
    titles = ["condition", "value"]
    for learner in LEARNERS:
        titles += [f"{learner} needs", "holds"]
    rows = []
    for condition in check.conditions:
        cells = [escape(condition.name), number(condition.value)]
        for learner in LEARNERS:
            cells += _judged(condition, learner)
        rows.append([*cells, escape(condition.rule.what.rstrip(","))])
    listing = _in_words(
        table("Conditions, and what each learner needs", (*titles, "what it is"), rows)
    )
    title = _title("Conditions of the theorem", *(("good", "✓") if check.holds else ("bad", "✗")))
    return title + _sentence(check.sentence()) + listing


def _judged(condition: Condition, learner: Learner) -> list[str]:
    """Nothing is asked of a condition that a learner does without."""
    threshold = condition.threshold_of(learner)
    if threshold is None:
        return ["-", "-"]
    bound = f"{'≥' if condition.rule.at_least else '≤'} {number(threshold)}"
    holds = condition.holds_for(learner)
    answer = '<span class="good">✓ yes</span>' if holds else '<span class="bad">✗ no</span>'
    return [bound, answer]


def _in_words(listing: str) -> str:
    """A table whose last column is text."""
    return f'<div class="words">{listing}</div>'
