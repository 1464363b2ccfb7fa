"""Every way in which a claim can be false is noticed, and cases are what they say."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

import gradine
from benchmarks.exact import cases, certificates
from benchmarks.exact.instances import Instance
from benchmarks.exact.ours import HELD_OUT, Answer
from benchmarks.exact.scope import Scope
from gradine.certificate import HeadBars, certify

TINY = Instance(1, 3, 4, 2.0)
TWO = Instance(2, 3, 5, 2.0)


def small_case(category, number):
    make = {"learnable": cases._learnable, "misfit": cases._network}[category]
    return make(TINY, number, np.random.default_rng(number))


def answer_of(layer, theta: Any = (1e-9, 1e-9), w: Any = (1e-9, 1e-9), status: Any = "learned"):
    """What a run that found ``layer``, in canonical form, would give with these bars."""
    bars = None if theta is None else HeadBars(0.0, tuple(theta), tuple(w), 1.0)
    return Answer(
        layer=layer,
        status=status,
        reason="",
        seconds=1.0,
        solved_seconds=0.5,
        wall=1.0,
        phase_seconds={},
        flops=None,
        certificate=certify(np.full(200, 1e-12), bars=bars),
        fitted=np.arange(9),
        examples=9,
    )


def moved(layer, head, *, theta=0.0, w=0.0):
    """One head of a layer, off by these relative errors."""
    thetas, ws = layer.theta.copy(), layer.w.copy()
    thetas[head] *= 1.0 + theta
    ws[head] *= 1.0 + w
    return gradine.AttentionLayer(thetas, ws)


@pytest.fixture
def truth():
    return TWO.truth(3).canonical()


def test_certificates(fake_learner, tmp_path, monkeypatch):
    makers = {"learnable": (cases._learnable,), "misfit": (cases._network,)}
    monkeypatch.setattr(certificates, "CATEGORIES", makers)
    monkeypatch.setattr(certificates, "make_case", small_case)
    summary = certificates.measure(Scope(tmp_path, seeds=2, peers=False))
    json.dumps(summary, allow_nan=False)
    learnable, misfit = summary["categories"]
    assert (learnable["heads_claimed"], learnable["false"], misfit["heads_claimed"]) == (2, 0, 0)
    page = certificates.page(summary)
    assert "| all | 4 | 2 | 0 | 0 | 0 | 0 | 0 | 0 |" in page and "None." in page


def test_fresh_examples_contradict(fake_learner):
    case = small_case("learnable", 0)
    X = case.draw(case.examples, 0)
    answer = fake_learner(X, case.label(X, 0), 1, 0)
    assert not certificates.contradicted(answer, case, 0)
    false = dataclasses.replace(answer, layer=moved(answer.layer, 0, theta=1e-3))
    assert certificates.contradicted(false, case, 0)
    assert certificates.contradicted(dataclasses.replace(answer, certificate=None), case, 0)


def test_theta_and_w_are_both_checked(truth):
    assert certificates.wrong_heads(answer_of(truth), truth) == ""
    assert certificates.wrong_heads(answer_of(moved(truth, 0, theta=1e-7, w=1e-7)), truth) == ""
    assert "Theta" in certificates.wrong_heads(answer_of(moved(truth, 0, theta=1e-3)), truth)
    assert "W" in certificates.wrong_heads(answer_of(moved(truth, 0, w=1e-3)), truth)


@pytest.mark.parametrize("part", ["theta", "w"])
@pytest.mark.parametrize("head", [0, 1])
def test_each_head_has_its_own_bar(truth, part, head):
    """A wide bar excuses its own head and matrix, up to five times itself, and no other."""
    tight = (1e-9, 1e-9)
    wide = tuple(1e-3 if i == head else 1e-9 for i in range(2))
    elsewhere = wide[::-1]
    off = moved(truth, head, **{part: 4e-3})
    other = {"theta": "w", "w": "theta"}[part]
    assert certificates.wrong_heads(answer_of(off, **{part: wide}), truth) == ""
    assert certificates.wrong_heads(answer_of(off, **{part: elsewhere}), truth)
    assert certificates.wrong_heads(answer_of(off, **{other: wide, part: tight}), truth)
    further = moved(truth, head, **{part: 6e-3})
    assert certificates.wrong_heads(answer_of(further, **{part: wide}), truth)


def test_bars_follow_the_heads_of_the_answer(truth):
    """The answer's order differs from the truth's where norms of W are nearly equal."""
    ws = truth.w.copy()
    ws[1] *= np.linalg.norm(ws[0]) / np.linalg.norm(ws[1]) * (1.0 - 1e-3)
    level = gradine.AttentionLayer(truth.theta, ws).canonical()
    swapped = moved(level, 1, w=4e-3).canonical()  # now the heavier one comes first
    np.testing.assert_array_equal(gradine.compare(swapped, level, examples=1).order, [1, 0])
    assert certificates.wrong_heads(answer_of(swapped, w=(1e-3, 1e-9)), level) == ""
    assert certificates.wrong_heads(answer_of(swapped, w=(1e-9, 1e-3)), level)


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_heads_without_a_bar_are_no_heads(truth, bad):
    assert "bar" in certificates.wrong_heads(answer_of(truth, theta=(1e-9, bad)), truth)
    assert "bar" in certificates.wrong_heads(answer_of(truth, w=(bad, 1e-9)), truth)
    assert "bar" in certificates.wrong_heads(answer_of(truth, theta=None), truth)
    assert "bar" in certificates.wrong_heads(answer_of(truth, theta=(1e-9,)), truth)
    assert answer_of(truth, theta=(1e-9, bad)).error_bar is None
    assert answer_of(truth, theta=(1e-9, 1e-8)).error_bar == 1e-8


def test_a_head_too_many_or_too_few_is_wrong(truth):
    one = gradine.AttentionLayer(truth.theta[:1], truth.w[:1])
    assert "1 heads missing" in certificates.wrong_heads(answer_of(one), truth)
    assert "1 too many" in certificates.wrong_heads(answer_of(truth), one)
    assert certificates.wrong_heads(answer_of(truth), None) == "no layer made the labels"


@pytest.mark.parametrize(
    ("status", "claims", "false"),
    [
        ("learned", "heads", True),
        ("learned_up_to_noise", "heads", True),
        ("learned_function", "function", False),
        ("not_verified", None, False),
    ],
)
def test_what_is_claimed_depends_on_the_ending(truth, status, claims, false, monkeypatch):
    """Infinite bars are a lie where heads are claimed, and honest where they are not."""
    case = cases.plain(TWO, 3, "learnable")
    unknown = (math.inf, math.inf)
    answer = answer_of(case.truth.canonical(), unknown, unknown, status)
    monkeypatch.setattr(certificates, "make_case", lambda *_: case)
    monkeypatch.setattr(certificates, "ours", lambda *_: answer)
    record = certificates.trial("learnable", 0)
    assert (record["claims"], bool(record["wrong_heads"])) == (claims, false)
    assert not record["contradicted"]
    summary = certificates._summarise("learnable", [{**record, "key": ["learnable", 7]}])
    assert (summary["heads_claimed"], summary["function_claimed"]) == (
        claims == "heads",
        claims == "function",
    )
    assert summary["false"] == false
    page = certificates.page({"categories": [summary]})
    assert (f"- learnable 7, learnable (heads 2, boolean), {status}" in page) == false


def test_a_function_that_is_not_the_one_is_false_too(truth, monkeypatch):
    case = cases.plain(TWO, 3, "learnable")
    off = answer_of(moved(case.truth.canonical(), 0, w=1e-2), status="learned_function")
    monkeypatch.setattr(certificates, "make_case", lambda *_: case)
    monkeypatch.setattr(certificates, "ours", lambda *_: off)
    record = certificates.trial("learnable", 0)
    assert record["contradicted"] and not record["wrong_heads"]


@pytest.mark.parametrize(
    ("error", "status"), [(ValueError, "refused"), (np.linalg.LinAlgError, "crashed")]
)
def test_a_refusal_claims_nothing(monkeypatch, error, status):
    def refuse(*_):
        raise error("too few")

    monkeypatch.setattr(certificates, "ours", refuse)
    record = certificates.trial("unlearnable", 1)
    assert record["status"] == status and record["claims"] is None
    summary = certificates._summarise("unlearnable", [{**record, "key": ["unlearnable", 1]}])
    assert (summary[status], summary["false"]) == (1, 0)
    assert ("crashed: unlearnable 1" in certificates.page({"categories": [summary]})) == (
        status == "crashed"
    )


@pytest.mark.parametrize("category", cases.CATEGORIES)
def test_cases_are_as_they_say(category):
    for number in range(2 * len(cases.CATEGORIES[category])):
        case = cases.make_case(category, number)
        X = case.draw(30, number)
        assert X.shape == (30, case.instance.seq_len, case.instance.dim)
        assert case.label(X, 0).shape == X.shape and case.examples > HELD_OUT
        again = cases.make_case(category, number)
        np.testing.assert_array_equal(X, again.draw(30, number))
        np.testing.assert_array_equal(case.label(X, 0), again.label(X, 0))
        if case.truth is not None:  # up to the noise that some of them have
            errors = case.truth(X) - case.label(X, 0)
            assert np.linalg.norm(errors) <= 0.5 * np.linalg.norm(case.label(X, 0))


def test_heads_are_counted_in_a_third_and_tokens_gaussian_in_a_quarter():
    for category, makers in cases.CATEGORIES.items():
        made = [cases.make_case(category, number) for number in range(12 * len(makers))]
        counted = Counter(case.kind for case in made if case.heads == "auto")
        gaussian = Counter(case.kind for case in made if case.instance.tokens == "gaussian")
        kinds = {case.kind for case in made}
        assert len(kinds) == len(makers)
        assert counted == dict.fromkeys(kinds - {cases.FEWER_ASKED}, 4)
        assert gaussian == dict.fromkeys(kinds, 3)


def degenerate(kind):
    made = (cases.make_case("degenerate", number) for number in range(len(cases.DEGENERATE)))
    return next(case for case in made if case.kind == kind)


def test_tokens_that_hide_a_part_of_the_heads():
    X = degenerate("one-hot tokens").draw(50, 0)
    assert set(X.ravel()) == {0.0, 1.0} and (X.sum(axis=2) == 1.0).all()
    X = degenerate("a coordinate twice").draw(50, 0)
    np.testing.assert_array_equal(X[..., 0], X[..., 1])
    X = degenerate("a coordinate that is zero").draw(50, 0)
    assert not X[..., 0].any() and X[..., 1:].all()
    case = degenerate("ten sequences, repeated")
    given, fresh = case.draw(200, 0), case.draw(200, 1)
    assert len(np.unique(given, axis=0)) == 10
    assert len(np.unique(np.concatenate([given, fresh]), axis=0)) == 10


def test_scales_leave_the_logits_as_they_were():
    for kind in ("tokens of another scale", "coordinates of unequal scale"):
        case = degenerate(kind)
        X, plain = case.draw(50, 0), case.instance.inputs(50, 0)
        assert not np.allclose(X, plain)
        logits = np.einsum("nra,mab,njb->nmrj", X, case.truth.theta, X)
        assert np.std(logits) == pytest.approx(case.instance.scale, rel=0.5)


def test_weak_heads_are_weak_and_some_labels_come_from_no_layer():
    for kind in ("a weak head", "a weak head and noise of 1e-5"):
        case = degenerate(kind)
        sizes = np.linalg.norm(case.truth.w, axis=(1, 2))
        assert 1e-6 < sizes.min() / sizes.max() < 3e-2
        X = case.draw(50, 0)
        clean = case.truth(X)
        noise = np.linalg.norm(case.label(X, 0) - clean) / np.linalg.norm(clean)
        assert noise == pytest.approx(1e-5 if "noise" in kind else 0.0, rel=0.1)
    assert degenerate("F(X) + X").truth is None and degenerate("X W").truth is None
