"""The report of a layer that was asked: what it cost, and words that fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

import gradine
from gradine.report import report_html
from gradine.status import Status

from .outline import check_page, words_of

ASKED = ("asking", "scout", "fit", "determined")


@pytest.fixture(scope="module")
def truth():
    return gradine.plant(2, 8, seed=1)


@pytest.fixture(scope="module")
def asked(truth):
    return gradine.learn_by_queries(truth)


def test_learned(asked, truth):
    html = report_html(asked, truth=truth)
    check_page(html, *ASKED)
    words = words_of(html)
    assert "verified on queries kept away from fitting" in words
    for station in ("first look", "fit", "error bars", "verify"):
        assert f"✓ {station} " in words
    assert "stopped here" not in words and "What the queries determine" in words
    cost = html.split('<section id="asking"')[1].split("</section>")[0]
    learning = asked.asking.rows_used - asked.asking.verify_rows
    assert f"<dd>{learning / (2 * 8 * 2):.2f}</dd>" in cost  # over the bound of 32 rows
    assert f"<dd>{learning}</dd>" in cost and "<dd>float64</dd>" in cost
    assert "gap: " in html.split('<section id="scout"')[1].split("</section>")[0]


def test_a_budget_that_is_spent(truth):
    fit = gradine.learn_by_queries(truth, max_queries=206)
    html = report_html(fit, truth=truth)
    check_page(html, "asking", "scout")
    words = words_of(html)
    assert "✗ ask: stopped here" in words and "· verify" in words
    assert "allow more queries" in words and "used as if it were the one that answered" in words
    nothing = gradine.learn_by_queries(truth, max_queries=3)
    check_page(report_html(nothing), "asking")


def test_an_oracle_that_failed_while_it_was_verified(asked):
    failed = replace(
        asked, status=Status.ORACLE_FAILED, layer=None, certificate=None, detail="line is down"
    )
    words = words_of(report_html(failed))
    assert "✓ error bars" in words and "✗ ask: stopped here" in words and "line is down" in words


def test_a_learner_with_phases_of_its_own(asked):
    phases = {"frames": asked.phases["scout"], "verify": asked.phases["verify"]}
    fit = replace(asked, method="blocks", phases=phases)
    words = words_of(report_html(fit))
    assert "✓ frames" in words and "✓ verify" in words
    lost = replace(fit, status=Status.NOT_REALIZABLE, layer=None, certificate=None)
    assert "✗ fit: stopped here" in words_of(report_html(lost))


def test_up_to_noise(truth):
    fit = gradine.learn_by_queries(gradine.Rounded(truth, decimals=3), dim=8)
    assert fit.status is Status.LEARNED_UP_TO_NOISE
    html = report_html(fit, truth=truth)
    check_page(html, *ASKED)
    words = words_of(html)
    assert "Learned up to noise" in words and "noise of the answers" in words
    assert "held-out answers have noise themselves" in words
    assert "allow more queries for smaller error bars" in words
