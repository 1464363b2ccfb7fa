"""The report of a run: it says what happened, all of it, and nothing from outside."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gradine
from gradine.report import report_html, write_report
from gradine.report.matrices import pattern
from gradine.report.parts import prose
from gradine.report.story import tell
from gradine.report.verdict import EXACT, SCULPT
from gradine.sculpt.results import Span
from gradine.status import Status

from .outline import Outline, check_page, words_of


@pytest.fixture(scope="module")
def full(pair) -> str:
    return report_html(pair.fit, truth=pair.truth, example=pair.example)


def heads_of(html: str) -> str:
    return html.split('<section id="heads"')[1].split("</section>")[0]


def test_learned_run_with_its_truth(pair, full):
    assert pair.fit.learned
    check_page(full)
    words = words_of(full)
    assert "✓ Learned" in words and "Not learned" not in words
    assert prose(pair.fit.certificate.sentence()[1:]) in words
    assert "Distances are to the true sum" in words
    assert "constant coordinate" in words
    assert heads_of(full).count("difference</figcaption>") == 4
    assert "stopped" not in words
    assert f"{pair.fit.phases['span'].chord_agreement:.4f}" in words
    slabs = len(pair.fit.phases["sculpt"].sigma)
    assert f">{slabs}<" in full.replace("\u202f", "")


def test_without_truth_the_last_answer_is_the_reference(pair):
    html = report_html(pair.fit)
    check_page(html)
    words = words_of(html)
    assert "No truth was given" in words and "difference" not in heads_of(html)
    assert "No example was given" in words
    names = [item.name for item in tell(pair.fit, None, None, None).estimates]
    assert names[-1] == "net search"  # the polished sum is what they are compared with


def test_the_glossary_has_both_names_of_every_phase():
    glossary = (Path(__file__).parents[2] / "docs" / "notation.md").read_text(encoding="utf-8")
    for name, words in (EXACT | SCULPT).items():
        shown = ("fit_2", "fit, 2 heads") if name == "fit" else (name, words)
        assert "| `{}` | {} |".format(*shown) in glossary


def test_one_head(single):
    html = report_html(single.fit, truth=single.truth, example=single.example)
    check_page(html)
    words = words_of(html)
    assert "cosine between the two hulls" not in words
    assert f"{single.truth.attention(single.example)[0, 0, 0]:.2f}" in words


def test_run_that_stops_at_once(cancelled):
    assert cancelled.fit.status is Status.SUM_NEAR_ZERO and not cancelled.fit.phases
    html = report_html(cancelled.fit, truth=cancelled.truth, example=cancelled.example)
    check_page(html)
    words = words_of(html)
    assert "✗ Not learned" in words and "✗ 1 crude sum: stopped here" in words
    assert Status.SUM_NEAR_ZERO.help in words
    assert "There is no certificate" in words and "confidence" not in words.split("Settings")[0]


def test_run_that_stops_on_the_way(flat):
    assert list(flat.fit.phases) == ["crude_sum", "sculpt"]
    for truth in (None, flat.truth):
        html = report_html(flat.fit, truth=truth)
        check_page(html)
        words = words_of(html)
        assert "3 proxy: stopped here" in words
        assert "what the last carving saw" in words


def test_run_that_stops_when_it_repeats_a_phase(flat, pair):
    names = ["crude_sum", "sculpt", "proxy", "sculpt_again_1"]
    phases = {name: pair.fit.phases[name] for name in names}
    words = words_of(report_html(replace(flat.fit, phases=phases, survey=pair.fit.survey)))
    assert "✓ 3 proxy" in words and "✗ 4 sculpt again: stopped here" in words


def test_every_prefix_of_the_phases(pair):
    names = list(pair.fit.phases)
    for count in range(len(names)):
        phases = {name: pair.fit.phases[name] for name in names[:count]}
        stopped = replace(
            pair.fit,
            status=Status.NO_GAP,
            layer=None,
            certificate=None,
            candidate=None,
            theorem=None,
            heads=None,
            held_out_error=None,
            phases=phases,
        )
        check_page(report_html(stopped, truth=pair.truth if count % 2 else None))


def test_candidate_that_was_not_verified_is_not_called_learned(pair):
    fit = replace(
        pair.fit, status=Status.NOT_VERIFIED, layer=None, certificate=None, held_out_error=0.25
    )
    html = report_html(fit, truth=pair.truth, example=pair.example)
    check_page(html)
    words = words_of(html)
    assert "✗ verify: stopped here" in words
    assert words.count("a run that was not verified") == 2
    assert "There is no certificate" in words


def test_polish_skipped_and_no_chords(pair):
    phases = dict(pair.fit.phases)
    phases["polish"] = replace(phases["polish"], skipped="9 & more", losses=np.zeros(0))
    phases["span"] = replace(phases["span"], chord_lengths=np.zeros(0))
    fit = replace(pair.fit, phases=phases, candidate=pair.fit.theorem)
    words = words_of(report_html(fit))
    assert "skipped: 9 &amp; more" in words and "Chords were not measured" in words


def test_text_is_escaped(cancelled):
    fit = replace(cancelled.fit, detail="<script>alert('x')</script>")
    html = report_html(fit)
    check_page(html)
    assert "&lt;script&gt;" in html
    html = report_html(replace(fit, method="<b>&"))  # a learner of somebody's own
    assert Outline(html).open == [] and "&lt;b&gt;&amp;" in html and "<b>" not in html


def test_data_cannot_end_its_script(single):
    words = ["</script><script>alert(1)</script>", "<!--", "ok"]
    html = report_html(single.fit, example=single.example, words=words)
    check_page(html)
    data = html.split('id="data">')[1].split("</script>")[0]
    assert json.loads(data)["words"] == words and "<" not in data


def test_heads_lost_and_left_over(pair):
    one = gradine.AttentionLayer(pair.truth.theta[:1], pair.truth.w[:1], constant=True)
    html = report_html(pair.fit, truth=one, example=pair.example)
    check_page(html)
    assert "No true head is left" in html
    html = report_html(replace(pair.fit, candidate=one), truth=pair.truth, example=pair.example)
    check_page(html)
    assert "not found" in html


def test_truth_without_the_constant_coordinate(pair):
    plain = gradine.plant(heads=2, dim=8, scale=3.0, seed=1, out_dim=6)
    check_page(report_html(pair.fit, truth=plain, example=pair.example))


def test_many_large_heads_stay_small(pair):
    large = gradine.plant(heads=16, dim=64, scale=3.0, seed=1)
    phases = {"span": wide_span(pair.fit.phases["span"])}
    answers = {"theorem": large, "candidate": large, "layer": large}
    survey = replace(pair.fit.survey, x_mean=np.zeros(64), y_mean=np.zeros(64))
    fit = replace(pair.fit, **answers, phases=phases, survey=survey)
    example = gradine.sample_inputs(1, seq_len=12, dim=64)[0]
    assert len(report_html(fit, truth=large, example=example)) < 5_000_000


def wide_span(span: Span) -> Span:
    spectrum = np.concatenate([np.full(16, 0.01), np.full(4, 0.5)])
    return replace(span, heads=16, spectrum=spectrum, chord_lengths=np.arange(16.0, 0.0, -1.0))


def test_same_run_same_bytes_and_nothing_left_behind(tmp_path, pair, full):
    import matplotlib

    before = dict(matplotlib.rcParams)
    write_report(tmp_path / "report.html", pair.fit, truth=pair.truth, example=pair.example)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == full
    assert dict(matplotlib.rcParams) == before


def test_attention_is_shown_on_words(pair):
    words = ["the", "<cat>", "internationally"]
    page = report_html(pair.fit, truth=pair.truth, example=pair.example, words=words)
    plain = report_html(pair.fit, truth=pair.truth, example=pair.example)
    heads = pair.fit.candidate.n_heads
    # Beside the rows and above the columns, of the learned and of the true pattern.
    for word in ("the", "&lt;cat&gt;", "internationally"):
        assert page.count(f'<th scope="row">{word}</th>') == 2 * heads
        assert page.count(f'<th scope="col"><span>{word}</span></th>') == 2 * heads
    assert 'class="named"' in page and 'class="named"' not in plain
    for wrong in (["one", "two"], "the"):
        with pytest.raises(ValueError, match="one for each of the 3 tokens"):
            report_html(pair.fit, example=pair.example, words=wrong)
    with pytest.raises(ValueError, match="no example whose tokens they name"):
        report_html(pair.fit, words=words)


def test_long_sentences_are_pictures():
    long, short = np.eye(30), np.eye(20)
    words = [f"w{i}" for i in range(30)]
    assert pattern(long, "head", words).startswith("<img")
    assert pattern(short, "head").startswith("<img")
    drawn = pattern(short, "head", words[:20])
    assert drawn.count("<td style") == 400 and 'class="pattern named dense"' in drawn


def test_what_can_be_known_of_the_heads(pair, full):
    assert "What can be known of these heads" in full
    rows = re.findall(r"<th scope=\"row\">Head \d</th><td>[^<]*</td><td>(\d+)</td>", full)
    assert rows == ["8"] * pair.fit.candidate.n_heads
    assert "a key bias" in full and "queries and keys apart" in full


def test_ranks_are_those_above_the_errors(exact):
    fit, truth = exact.fit, exact.truth
    low = gradine.AttentionLayer(truth.theta.copy(), truth.w.copy(), truth.constant)
    left, values, right = np.linalg.svd(low.theta[0])
    values[2:] = 0.0
    theta = low.theta.copy()
    theta[0] = (left * values) @ right
    page = report_html(replace(fit, candidate=gradine.AttentionLayer(theta, low.w, low.constant)))
    found = re.findall(r"<th scope=\"row\">Head \d</th><td>[^<]*</td><td>(\d+)</td>", page)
    assert "2" in found and "a key bias" in page
