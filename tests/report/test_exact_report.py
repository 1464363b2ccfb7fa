"""The report of the exact learner: its own sections, only those, and words for every ending."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from gradine.exact.results import Curve, Spectrum
from gradine.report import exact_pictures, report_html
from gradine.report.draw import number
from gradine.report.story import tell
from gradine.status import Status

from .outline import SCULPT, check_page, words_of

EXACT = ("moments", "fit", "curve", "determined")
NO_CURVE = ("moments", "fit", "determined")


def section_of(html: str, name: str) -> str:
    return html.split(f'<section id="{name}"')[1].split("</section>")[0]


def test_learned_without_noise(exact):
    assert exact.fit.status is Status.LEARNED
    html = report_html(exact.fit, truth=exact.truth, example=exact.example)
    check_page(html, *EXACT)
    words = words_of(html)
    assert "✓ Learned" in words and "Learned up to noise" not in words
    assert "no noise but rounding, which is not random" in words
    assert "carved" not in words and "net search" not in words
    assert "stopped" not in words and "What may help" not in words
    for station in ("moments", "mixing", "fit", "error bars", "verify"):
        assert f"✓ {station} " in words
    assert "refine" not in words.split("Settings")[0].split("Time, examples")[0]


def test_every_start_has_its_row(exact, noisy):
    for run in (exact, noisy):
        html = report_html(run.fit)
        rows = re.findall(r'<tr><th scope="row">', section_of(html, "fit"))
        fits = tell(run.fit, None, None, None).fits
        assert len(rows) == sum(len(fit.reasons) for fit in fits.values())
        for fit in fits.values():
            assert all(reason in html for reason in fit.reasons)
            assert f"<td>{number(fit.validation_error)}</td>" in html


def test_error_bars_stand_beside_true_errors(noisy):
    html = report_html(noisy.fit, truth=noisy.truth)
    check_page(html, *EXACT)
    assert "should fall to the noise of the labels" in words_of(section_of(html, "curve"))
    known, story = noisy.fit.phases["identify"], tell(noisy.fit, noisy.truth, None, None)
    table = section_of(html, "determined")
    for pair in story.pairs:
        bars = known.theta_bars[pair.learned], known.w_bars[pair.learned]
        cells = (bars[0], pair.theta_error, bars[1], pair.w_error)
        row = "".join(f"<td>{number(float(cell))}</td>" for cell in cells)
        assert f'<th scope="row">Head {pair.learned}</th>{row}' in table
        assert pair.theta_error < 5.0 * bars[0]  # and the bars are those of this head
    assert "true error" not in report_html(noisy.fit)


def test_learned_up_to_noise(noisy):
    assert noisy.fit.status is Status.LEARNED_UP_TO_NOISE
    html = report_html(noisy.fit, truth=noisy.truth, example=noisy.example)
    words = words_of(html)
    assert "<title>Gradine report: learned up to noise</title>" in html
    assert "✓ Learned up to noise" in words and "Not learned" not in words
    assert '<section id="verdict" class="good"' in html
    assert "held-out labels have noise themselves" in words
    assert "the true layer itself would do no better" in words
    assert Status.LEARNED_UP_TO_NOISE.help in words
    assert "✓ refine" in words and "refined by all examples" in words
    assert "not verified" not in words


def test_not_realizable(misfit):
    assert misfit.fit.status is Status.NOT_REALIZABLE
    html = report_html(misfit.fit, example=misfit.example)
    check_page(html, *NO_CURVE)
    words = words_of(html)
    assert "✗ Not learned" in words
    way = words_of(re.findall(r'<ol class="way".*?</ol>', html)[0])
    assert way.split("fit: stopped here ")[0].strip() == "✓ moments ✗"
    assert "· ask" not in way and "✓ error bars" in way and way.strip().endswith("· verify")
    fitted = words_of(section_of(html, "fit"))
    assert "validation error" in fitted and "held-out error" not in fitted
    heads = misfit.fit.heads
    told = "1 head" if heads == 1 else f"{heads} heads"
    assert f"last candidate, {told}" in words and "the answer, " not in words
    assert "heads (not believed)" in words and Status.NOT_REALIZABLE.help in words
    assert "no head was counted" in words and misfit.fit.phases["spectrum"].reason in words
    assert "This answer was not believed" in words and "There is no certificate" in words


def test_too_noisy(drowned):
    assert drowned.fit.status is Status.TOO_NOISY
    html = report_html(drowned.fit, truth=drowned.truth)
    check_page(html, "fit", "determined")  # the number of heads was given: nothing to count
    words = words_of(html)
    assert ("✓ refine" in words) == ("refine" in drowned.fit.phases)
    assert "✗ error bars: stopped here" in words
    assert "the bars are too large" in words and "noise of the labels" in words
    assert "error bar of Theta, of W (worst head)" in words


def test_tokens_of_another_kind(small_tokens):
    assert small_tokens.fit.survey.kind == "other"
    html = report_html(small_tokens.fit, truth=small_tokens.truth, example=small_tokens.example)
    check_page(html, *EXACT)
    moments = section_of(html, "moments")
    assert "tokens are neither uniform on +-1 nor standard Gaussian" in moments
    assert "<svg" not in moments and "confidence" not in moments
    assert "fresh standard Gaussian inputs" in words_of(html)


def test_six_phases_after_the_exact_learner(exact, misfit, pair):
    """Both took part: the answer of the second, or of neither."""
    lost = {name: misfit.fit.phases[name] for name in misfit.fit.phases}
    rescued = replace(pair.fit, phases=lost | pair.fit.phases)
    html = report_html(rescued, truth=pair.truth, example=pair.example)
    check_page(html, *NO_CURVE, *SCULPT)
    words = words_of(html)
    assert "exact ✓ moments ✗ fit: stopped here" in words and "sculpt ✓ 1 crude sum" in words
    assert "This answer was not believed" in words

    first = {name: pair.fit.phases[name] for name in ("crude_sum", "sculpt")}
    lost_fit = replace(misfit.fit, phases=lost | first, survey=pair.fit.survey, candidate=None)
    html = report_html(lost_fit)
    check_page(html, *NO_CURVE, *SCULPT)
    assert "✓ 2 sculpt ✗ 3 proxy: stopped here" in words_of(html)

    unverified = replace(pair.fit, phases=exact.fit.phases | pair.fit.phases)
    assert "✗ verify: stopped here" in words_of(report_html(unverified))


def test_every_prefix_of_the_phases(exact):
    names = list(exact.fit.phases)
    for count in range(1, len(names)):
        phases = {name: exact.fit.phases[name] for name in names[:count]}
        gone = dict.fromkeys(("layer", "certificate", "candidate", "heads", "held_out_error"))
        fit = replace(exact.fit, status=Status.NOT_REALIZABLE, phases=phases, **gone)
        html = report_html(fit, truth=exact.truth if count % 2 else None)
        sections = [
            "moments",
            *(["fit"] if any(name.startswith("fit_") for name in phases) else []),
        ]
        check_page(html, *sections, *(["determined"] if "identify" in phases else []))


def test_reasons_are_escaped(exact):
    phases = dict(exact.fit.phases)
    fit = phases["fit_2"]
    phases["fit_2"] = replace(fit, reasons=["<b>&" for _ in fit.reasons])
    phases["spectrum"] = Spectrum.not_applicable("<b>&", 6, 5)
    html = report_html(replace(exact.fit, phases=phases))
    check_page(html, *EXACT)
    assert "<b>" not in html and "&lt;b&gt;&amp;" in section_of(html, "moments")


def test_every_figure_is_told(exact, noisy):
    html = report_html(exact.fit)
    steps, words = (words_of(section_of(html, name)) for name in ("phases", "ledger"))
    assert "exact yes" in steps and "True" not in steps
    assert "moments spectrum " in steps and "fit, 2 heads fit_2 " in steps
    assert "error bars identify " in steps and "mixing mixing" not in steps
    assert f"curve {int(exact.fit.phases['curve'].examples[-1])} " in words
    assert "exact no" in words_of(section_of(report_html(noisy.fit), "phases"))
    assert "exact.starts" in words and "exact.moments.probes" in words


@pytest.mark.parametrize("heads", [0, 1, 3])
def test_moments_bear_degenerate_figures(exact, heads):
    seen = replace(exact.fit.phases["spectrum"], values=np.zeros(3), edge=0.0, heads=heads)
    assert exact_pictures.moments(seen).startswith("<svg")


def test_pictures_bear_degenerate_figures(exact):
    fit = exact.fit.phases["fit_2"]
    zero = replace(fit, misfits=np.zeros(1), begins=[0], reasons=["once"])
    parts = [
        (m, *(np.resize(it, (m, *it.shape[1:])) for it in (fit.theta, fit.w))) for m in range(1, 20)
    ]
    many = {f"fit_{m}": replace(fit, heads=m, theta=theta, w=w) for m, theta, w in parts}
    flat = Curve(np.ones(1), np.ones(1), np.array([np.nan]), 0.0)
    for svg in (
        exact_pictures.fits({"fit_2": zero}, None),
        exact_pictures.fits(many, fit),
        exact_pictures.curve(flat),
        exact_pictures.jacobian(np.zeros(2)),
    ):
        assert svg.startswith("<svg") and "#010203" not in svg


def test_heads_that_are_not_determined_get_no_tick(undetermined):
    fit = undetermined.fit
    assert fit.status is Status.LEARNED_FUNCTION and fit.heads == 1
    html = report_html(fit, truth=undetermined.truth, example=undetermined.example)
    words = words_of(html)
    assert "<title>Gradine report: learned the function, not the heads</title>" in html
    assert "✓ Learned the function, not the heads" in words and "✓ verify" in words
    assert "✓ error bars" not in words and "? error bars: unknown" in words
    assert "heads (not determined)" in words and "do not determine them" in words
    assert "nothing is claimed of the ones" in words_of(section_of(html, "determined"))
    assert "no noise but rounding" not in words and "difference should be blank" not in words
    assert fit.status.help in words


def test_the_last_word_on_the_heads_counts(noisy):
    """Where one head turned out to be too many, the bars are those of the others."""
    known = noisy.fit.phases["identify"]
    fewer = replace(known, theta_bars=known.theta_bars[:1], w_bars=known.w_bars[:1])
    story = tell(
        replace(noisy.fit, phases=noisy.fit.phases | {"identify_1": fewer}), None, None, None
    )
    assert story.known is fewer
    assert story.answer is None or story.answer.heads == 1
