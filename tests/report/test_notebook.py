"""What a notebook shows: small, whole, escaped, and with the figures that it is about."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import gradine
from gradine.report.notebook import MOST_HEADS, html_of
from gradine.report.parts import prose
from tests.report.outline import Outline


@pytest.fixture(scope="module")
def truth() -> gradine.AttentionLayer:
    return gradine.plant(heads=2, dim=5, scale=3.0, seed=1)


@pytest.fixture(scope="module")
def fit(truth) -> gradine.Fit:
    X = gradine.sample_inputs(1000, seq_len=3, dim=5, seed=2)
    return gradine.learn(X, truth(X), heads=2)


def words(html: str) -> str:
    """What a reader sees of it."""
    without_style = re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", without_style).split())


@pytest.fixture(
    scope="module", params=["layer", "fit", "not learned", "certificate", "match", "plan", "check"]
)
def thing(request, truth, fit):
    if request.param == "not learned":
        return replace(fit, status=gradine.Status.NOT_VERIFIED, layer=None, certificate=None)
    if request.param == "plan":
        return gradine.plan(heads=2, dim=5, seq_len=3, scale=3.0)
    if request.param == "check":
        return gradine.check(truth, seq_len=3)
    if request.param == "match":
        return gradine.compare(fit.layer, truth)
    return {"layer": truth, "fit": fit, "certificate": fit.certificate}[request.param]


def test_it_is_small_whole_and_of_its_own(thing):
    shown = thing._repr_html_()
    outline = Outline(shown)
    assert outline.open == [] and outline.wordless == 0
    assert len(set(outline.ids)) == len(outline.ids)
    assert len(shown) < 40_000
    assert not re.search(r"<script|https?://|\son\w+=|<a ", shown)  # nothing to go to
    # Nothing outside of it is styled: every rule begins with its own class.
    style = shown[shown.index("<style>") + 7 : shown.index("</style>")]
    selectors = [
        rule.split("{")[0] for rule in re.sub(r"\s+", " ", style).split("}") if "{" in rule
    ]
    assert all(part.strip().startswith(".gradine") for s in selectors for part in s.split(","))
    if 'alt="colour bar"' in shown:  # one pixel high, if nothing says otherwise
        bar = re.search(r'<span class="([^"]+)">(?:(?!</p>).)*?alt="colour bar"', shown, re.DOTALL)
        assert bar is not None and f".gradine .{bar[1]} img {{ width" in style


def test_the_plain_form_is_short(thing):
    assert len(repr(thing)) < 400 and "array" not in repr(thing)
    assert repr(thing).startswith(f"{type(thing).__name__}(")


def test_the_figures_are_those_of_the_thing(truth, fit):
    sentence = prose(fit.certificate.sentence()[1:])
    assert "Learned" in words(html_of(fit)) and sentence in words(html_of(fit))
    assert sentence in words(html_of(fit.certificate))
    failed = replace(fit, status=gradine.Status.NOT_VERIFIED, layer=None, certificate=None)
    told = words(html_of(failed))
    assert "Not learned" in told and "What may help" in told
    assert "<img" not in html_of(
        failed
    )  # a candidate that was not verified is not shown as a layer


def test_a_lost_head_is_named(truth):
    half = gradine.AttentionLayer(truth.theta[:1], truth.w[:1])
    match = gradine.compare(half, truth)
    told = words(html_of(match))
    assert "missing heads 1" in told and "none" in told
    assert "missing=1" in repr(match)


def test_conditions_say_which_fail():
    checked = gradine.check(gradine.plant(heads=2, dim=5, scale=0.1, seed=1), seq_len=3)
    told = html_of(checked)
    assert "✗ no" in told and "✓ yes" in told
    assert "logits_not_flat" in repr(checked)


def test_of_many_large_heads_some_are_drawn():
    layer = gradine.plant(heads=12, dim=100, seed=0)
    shown = html_of(layer)
    assert shown.count("<figure>") == 2 * MOST_HEADS
    assert f"{MOST_HEADS} of 12 heads are drawn" in words(shown)
    assert len(shown) < 120_000


def test_heads_that_are_zero_can_be_shown():
    nothing = gradine.AttentionLayer(np.zeros((1, 3, 3)), np.zeros((1, 3, 2)))
    assert html_of(nothing).count("<figure>") == 2


def test_names_are_escaped(truth):
    checked = replace(gradine.check(truth, seq_len=3), subject="<img src=x>")
    assert "<img src=x>" not in html_of(checked) and "&lt;img src=x&gt;" in html_of(checked)


def test_other_things_are_refused():
    with pytest.raises(ValueError, match="thing is a int"):
        html_of(3)
