"""Trials: success is what the truth says, and a false certificate is counted."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gradine
from gradine import learners as registry
from gradine.atlas import MapConfig, Setting, learners, run_trial
from gradine.atlas.claims import contradicted, wrong_heads
from gradine.atlas.learners import LEARNERS, Answer
from gradine.certificate import HeadBars, certify
from gradine.learners import Learner

SMALL = Setting(heads=1, dim=4, seq_len=3, scale=2.0)


def test_learners_of_the_map_cannot_see_a_truth():
    tree = ast.parse(Path(learners.__file__).read_text())
    seen = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    hidden = {"gradine.score", "gradine.atlas.trial", "gradine.atlas.setting", "gradine.hard"}
    assert not seen & (hidden | {"gradine.inputs"})


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_finds_a_small_layer(learner):
    if learner in ("adam", "lbfgs"):
        pytest.importorskip("torch")
    setting = replace(SMALL, examples=8000 if learner == "sculpt" else None, dim=5)
    trial = run_trial(setting, learner)
    assert trial.success and trial.theta_error < 1e-2 and trial.function_error < 1e-2
    assert trial.certified == (learner in ("exact", "sculpt")) and not trial.false_certificate
    assert (trial.theorem_error is not None) == (learner == "sculpt")
    assert trial.examples == setting.n_fit and trial.seconds > 0


def test_below_the_counting_bound_nothing_is_found():
    trial = run_trial(replace(SMALL, ratio=0.5), "exact")
    assert not trial.success and not trial.certified and trial.status == "too_few_examples"


def test_noise_that_hides_the_heads():
    clean, noisy = (run_trial(replace(SMALL, noise=noise), "exact") for noise in (0.0, 0.5))
    assert clean.success and not noisy.success and not noisy.false_certificate


def test_a_parity_is_judged_by_its_function(monkeypatch):
    setting = Setting(dim=5, t=2, examples=300)
    truth = setting.truth(np.random.default_rng([0, 0]))
    monkeypatch.setitem(LEARNERS, "lbfgs", lambda task: Answer(truth, "fitted"))
    assert run_trial(setting, "lbfgs").success
    empty = gradine.AttentionLayer(truth.theta, 0.5 * truth.w)
    monkeypatch.setitem(LEARNERS, "lbfgs", lambda task: Answer(empty, "fitted"))
    trial = run_trial(setting, "lbfgs")
    assert not trial.success and trial.function_error == pytest.approx(0.5)


@pytest.mark.parametrize("dial", ["equal_theta", "faint_head"])
def test_heads_that_cannot_be_told_apart_are_not_found(monkeypatch, dial):
    for turn in (0.0, 1.0):
        setting = Setting(dial=dial, turn=turn, examples=300)
        truth = setting.truth(np.random.default_rng([0, 0]))
        monkeypatch.setitem(LEARNERS, "lbfgs", lambda task, it=truth: Answer(it, "fitted"))
        trial = run_trial(setting, "lbfgs")
        assert trial.success == (turn == 0.0) and trial.function_error == 0.0


def test_what_is_near_but_not_certified_is_no_success(monkeypatch):
    truth = SMALL.truth(np.random.default_rng([0, 0]))
    monkeypatch.setitem(LEARNERS, "exact", lambda task: Answer(truth, "not_verified"))
    trial = run_trial(SMALL, "exact")
    assert trial.theta_error == 0.0 and not trial.success


@pytest.mark.parametrize(
    ("claims", "bars", "false"),
    [("heads", None, True), ("heads", 1.0, False), ("function", None, False)],
)
def test_wrong_heads_are_a_false_certificate(monkeypatch, claims, bars, false):
    truth = SMALL.truth(np.random.default_rng([0, 0]))
    moved = gradine.AttentionLayer(1.1 * truth.theta, truth.w)
    given = None if bars is None else HeadBars(0.0, (bars,), (bars,), 1.0)
    loose = certify(np.full(500, 1.0), bars=given)
    monkeypatch.setitem(LEARNERS, "exact", lambda task: Answer(moved, "learned", claims, loose))
    trial = run_trial(SMALL, "exact")
    assert not trial.success and trial.certified and bool(trial.false_certificate) == false


def test_a_certificate_that_fresh_examples_contradict(monkeypatch):
    truth = SMALL.truth(np.random.default_rng([0, 0]))
    moved = gradine.AttentionLayer(truth.theta, 1.001 * truth.w)
    tight = certify(np.full(500, 1e-9))
    answer = Answer(moved, "learned_function", "function", tight)
    monkeypatch.setitem(LEARNERS, "exact", lambda task: answer)
    assert "contradict" in run_trial(SMALL, "exact").false_certificate
    assert contradicted(None, np.ones((9, 2, 2)), np.ones((9, 2, 2)))


@pytest.mark.parametrize("bar", [np.inf, np.nan])
def test_a_bar_that_is_unknown_allows_nothing(bar):
    truth = gradine.plant(heads=1, dim=4, seed=0)
    moved = gradine.AttentionLayer(1.1 * truth.theta, truth.w)
    bars = HeadBars(0.0, (bar,), (bar,), 1.0)
    assert "Theta" in wrong_heads(moved, truth, bars) and not wrong_heads(truth, truth, bars)


@pytest.mark.parametrize("error", [ValueError, np.linalg.LinAlgError])
def test_a_refusal_is_no_success(monkeypatch, error):
    def refuse(*_, **__):
        raise error("no")

    monkeypatch.setattr(learners, "learn", refuse)
    trial = run_trial(SMALL, "exact")
    assert not trial.success and trial.status in ("refused", "crashed")


@pytest.mark.parametrize("tolerance", [0.0, 1.0, float("nan")])
def test_a_tolerance_that_is_none(tolerance):
    with pytest.raises(ValueError, match="tolerance is"):
        MapConfig(tolerance)


def test_a_registered_learner_is_one_of_the_map(monkeypatch):
    """Who adds a learner sees it on the map, beside the others."""
    exact = registry.LEARNERS["exact"]
    monkeypatch.setitem(registry.LEARNERS, "mine", Learner("mine", exact.learn))
    trial = run_trial(SMALL, "mine")
    assert trial.success and trial.certified and trial.learner == "mine"
    with pytest.raises(ValueError, match=r"^learner is 'yours'; expected one of .*, mine$"):
        run_trial(SMALL, "yours")
