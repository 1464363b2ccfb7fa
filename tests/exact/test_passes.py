"""Heads refined by more examples than are in memory: as if all were, whoever runs the passes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gradine
from gradine import plant, sample_inputs
from gradine.engine import open_engine
from gradine.exact.config import ExactConfig
from gradine.exact.heads import refine
from gradine.exact.passes import refine_by_passes
from gradine.exact.workshop import Workshop
from gradine.examples import ArrayExamples, FittingData
from gradine.examples.split import make_split
from gradine.learn import learn_examples

NOISE = 0.1


def noisy(rank=None, attention="softmax", n=12_000):
    rng = np.random.default_rng(7)
    layer = plant(2, 6, 3.0, seed=1, rank=rank)
    layer = gradine.AttentionLayer(layer.theta, layer.w, attention=attention)
    X = sample_inputs(n, 4, 6, kind="gaussian", seed=2)
    Y = np.asarray(layer(X))
    return layer, X, Y + NOISE * np.sqrt(np.mean(Y**2)) * rng.standard_normal(Y.shape)


def workshop(X, Y, rank=None, attention="softmax", **more):
    data = FittingData(ArrayExamples(X, Y), make_split(len(X), validation=200, certify=200), **more)
    config = ExactConfig(rank=rank, attention=attention)
    return Workshop(data, len(X), None, config, 0, lambda name, kind, work: work())


@pytest.mark.parametrize(("rank", "attention"), [(None, "softmax"), (2, "softmax"), (None, "relu")])
def test_the_answer_is_that_of_all_examples_at_once(rank, attention):
    _, X, Y = noisy(rank, attention)
    shop = workshop(X, Y, rank, attention, block_size=500)
    few = shop.task(2, rank, count=600)
    start = refine(few, shop.fit(2))
    all_at_once = refine(shop.task(2, rank, count=len(X)), start)
    by_passes = refine_by_passes(shop.data, few, start)
    assert by_passes.examples == all_at_once.examples == shop.data.split.n_fit
    assert by_passes.equations == pytest.approx(all_at_once.equations)
    assert by_passes.residual == pytest.approx(all_at_once.residual, rel=1e-5)
    assert by_passes.settled and by_passes.validation_error < start.validation_error

    def off(fit, other):
        return float(np.linalg.norm(fit.theta - other.theta) / np.linalg.norm(other.theta))

    # A few hundredths of what the sample was off by: noise moves the answer by far more.
    assert off(by_passes, all_at_once) < 0.1 * off(start, all_at_once)


def test_a_small_sample_takes_more_steps_and_gets_there():
    _, X, Y = noisy()
    shop = workshop(X, Y, block_size=2000)
    few = shop.task(2, None, count=60)  # ten equations for each unknown
    start = refine(few, shop.fit(2))
    found = refine_by_passes(shop.data, few, start)
    expected = refine(shop.task(2, None, count=len(X)), start)
    assert found.residual == pytest.approx(expected.residual, rel=1e-4)
    assert len(found.misfits) > 3 and np.all(np.diff(found.misfits) < 0.0)


def test_engines_give_the_same_bits():
    _, X, Y = noisy(n=3000)
    shop = workshop(X, Y, block_size=400)
    few = shop.task(2, None, count=400)
    start = shop.fit(2)
    here = refine_by_passes(shop.data, few, start)
    with open_engine("pool", 2) as pool:
        there = refine_by_passes(replace(shop.data, engine=pool), few, start)
    assert here.theta.tobytes() == there.theta.tobytes() and here.w.tobytes() == there.w.tobytes()


def test_a_learner_with_little_memory_uses_every_example(tmp_path):
    layer, X, Y = noisy(n=20_000)

    def learn(**settings):
        config = gradine.LearnConfig(**settings)
        return gradine.learn(X, Y, heads=2, method="exact", config=config)

    plenty, little = learn(), learn(memory=6_000_000)
    assert plenty.status.code == little.status.code == "learned_up_to_noise"
    assert "refine_by_passes" in little.phases and "refine_by_passes" not in plenty.phases
    assert little.phases["refine_by_passes"].examples == plenty.phases["refine"].examples
    for fit in (plenty, little):
        match = gradine.compare(fit.layer, layer, seq_len=4)
        assert np.all(match.theta_error < 4.0 * fit.phases["identify"].theta_bars)
    difference = gradine.compare(little.layer, plenty.layer, seq_len=4).theta_error
    assert np.all(difference < 0.2 * plenty.phases["identify"].theta_bars)


def test_a_block_that_is_held_out_as_a_whole_adds_nothing():
    _, X, Y = noisy(n=4000)
    shop = workshop(X, Y)
    start, few = shop.fit(2), shop.task(2, None, count=400)
    split = shop.data.split
    first = int(split.validation[0])
    one = replace(shop.data, block_size=1, between=(first, first + 40))
    assert len(split.fit_rows(first, first + 1)) == 0
    found = refine_by_passes(one, few, start)
    assert found.examples == len(split.fit_rows(first, first + 40))


def test_reads_that_fail_once_are_tried_again():
    """Not only in passes: samples, and examples that are held out."""
    X = sample_inputs(600, 3, 3, kind="gaussian", seed=2)
    Y = plant(1, 3, 2.0, seed=1)(X)

    class Flaky(ArrayExamples):
        reads, bad = 0, -1

        def _read(self, start, stop):
            self.reads += 1
            if self.reads == self.bad:
                raise OSError("a failure on purpose")
            return super()._read(start, stop)

    calm = Flaky(X, Y)
    expected = learn_examples(calm, 1, "exact").layer
    for bad in range(1, calm.reads + 1):
        flaky = Flaky(X, Y)
        flaky.bad = bad
        found = learn_examples(flaky, 1, "exact").layer
        assert flaky.reads == calm.reads + 1 and found.theta.tobytes() == expected.theta.tobytes()
