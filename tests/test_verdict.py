"""The judge: right answers to noisy labels pass whatever the tokens, wrong ones do not."""

from __future__ import annotations

import time

import numpy as np
import pytest

from gradine import AttentionLayer, LearnConfig, compare, learn, plant, sample_inputs
from gradine.exact.config import ExactConfig
from gradine.exact.results import HeadFit, Identified
from gradine.examples import ArrayExamples, FittingData
from gradine.hard import sparse_parity
from gradine.status import Status
from gradine.verdict import Ended, judge

NOISE = 0.1


def noisy_examples(layer, n, kind, seed, spread=0.0):
    """Examples with noise; ``spread`` makes the sequences of different sizes."""
    rng = np.random.default_rng(seed)
    X = sample_inputs(n, 3, layer.dim, kind=kind, seed=seed + 1)
    X = X * np.exp(spread * rng.standard_normal((n, 1, 1)))
    Y = layer(X)
    return X, Y + NOISE * np.sqrt(np.mean(Y**2)) * rng.standard_normal(Y.shape)


@pytest.mark.parametrize("kind", ["boolean", "gaussian"])
@pytest.mark.parametrize("seed", range(5))
def test_noisy_layers_are_learned(kind, seed):
    layer = plant(1 + seed % 2, 6, 3.0, seed=seed)
    fit = learn(*noisy_examples(layer, 3000, kind, seed), heads=layer.n_heads)
    assert fit.status is Status.LEARNED_UP_TO_NOISE, fit.reason
    assert fit.certificate.bars.noise == pytest.approx(NOISE, rel=0.05)
    assert compare(fit.layer, layer).theta_error.max() < 4 * max(fit.certificate.bars.theta)


@pytest.mark.parametrize("n", [400, 3000])
@pytest.mark.parametrize("seed", range(2))
def test_noisy_layers_of_tokens_of_many_sizes_are_learned(n, seed):
    layer = plant(1, 6, 3.0, seed=seed)
    fit = learn(*noisy_examples(layer, n, "gaussian", seed, spread=0.6), heads=1)
    assert fit.status is Status.LEARNED_UP_TO_NOISE, fit.reason


def test_heads_are_known_to_the_larger_of_both_bars():
    layer = plant(1, 6, 0.3, seed=0)  # flat attention: Theta shows less than W
    fit = learn(*noisy_examples(layer, 3000, "gaussian", 0), heads=1)
    bars = fit.certificate.bars
    assert max(bars.theta) > max(bars.w)
    assert f"known to {max(bars.theta):.2g}" in fit.detail
    swapped = judged(layer, noise=NOISE, theta_bar=0.01, w_bar=0.03)
    assert "heads known to 0.03" in swapped.detail


def judged(layer, answer=None, *, noise, theta_bar=0.01, w_bar=0.01, exact=False, n=2000, X=None):
    """The verdict on ``answer`` for noisy labels of ``layer``, whatever a fit would say."""
    if X is None:
        X, Y = noisy_examples(layer, n, "gaussian", 7)
    if exact:
        Y = layer(X)
    config = LearnConfig()
    data = FittingData(ArrayExamples(X, Y), config.split(n, 0))
    answer = answer or layer
    fitted = HeadFit(
        theta=answer.theta,
        w=answer.w,
        heads=answer.n_heads,
        rank=None,
        residual=noise,
        misfits=np.array([noise**2]),
        begins=[0],
        reasons=["given"],
        exact=exact,
        settled=True,
        validation_errors=np.array([noise**2]),
        validation_error=noise,
        equations=100.0,
        products=0,
        flops=0.0,
        examples=data.split.n_fit,
        seconds=0.0,
    )
    bars = Identified(
        singular_values=np.ones(1),
        condition=1.0,
        noise=noise,
        theta_bars=np.full(answer.n_heads, theta_bar),
        w_bars=np.full(answer.n_heads, w_bar),
        determined=True,
        samples=1,
        seconds=0.0,
    )
    return judge(Ended("exact", answer, None, bars, fitted), data, config)


def test_an_answer_that_errs_by_more_than_the_noise_is_refused():
    layer = plant(2, 6, 3.0, seed=1)
    right = judged(layer, noise=NOISE / np.sqrt(1.0 + NOISE**2))  # relative to noisy outputs
    assert right.status is Status.LEARNED_UP_TO_NOISE and right.certificate is not None
    rng = np.random.default_rng(0)
    off = AttentionLayer(layer.theta, layer.w + 0.025 * rng.standard_normal(layer.w.shape))
    assert 0.03 < compare(off, layer).function_error < NOISE  # well hidden below the noise
    wrong = judged(layer, off, noise=NOISE)
    assert wrong.status is Status.NOT_VERIFIED and wrong.certificate is None
    assert "held-out error" in wrong.detail and "but the noise is 0.1" in wrong.detail


def test_a_noise_that_was_estimated_too_small_is_noticed():
    assert judged(plant(2, 6, 3.0, seed=1), noise=0.8 * NOISE).status is Status.NOT_VERIFIED


def test_a_few_wild_errors_do_not_widen_the_slack_without_end():
    """Wrong for the largest hundredth of sequences alone, and by far."""
    layer = plant(1, 6, 3.0, seed=1)

    class Wild(AttentionLayer):
        def __call__(self, X):
            size = np.linalg.norm(X, axis=(1, 2), keepdims=True)
            return super().__call__(X) * np.where(size > np.quantile(size, 0.99), 5.0, 1.0)

    verdict = judged(layer, Wild(layer.theta, layer.w), noise=NOISE)
    assert verdict.status is Status.NOT_VERIFIED


def test_not_verified_says_how_many_examples_are_off():
    layer = plant(1, 6, 3.0, seed=1)

    class OftenRight(AttentionLayer):
        def __call__(self, X):
            Y = super().__call__(X)
            Y[::10] *= 1.01
            return Y

    verdict = judged(layer, OftenRight(layer.theta, layer.w), noise=0.0, exact=True)
    assert verdict.status is Status.NOT_VERIFIED and verdict.error < 1e-12
    assert "10% of 400 held-out examples have a relative error above 0.001" in verdict.detail
    assert judged(layer, noise=0.0, exact=True).status is Status.LEARNED


def test_outputs_that_are_zero_are_judged_by_the_size_of_the_others():
    """Half of the outputs of a hidden parity are zero: rounding is no error, a hundredth is."""
    layer = sparse_parity(8, 1, seed=0).layer

    class Off(AttentionLayer):
        by = 1e-9

        def __call__(self, X):
            return super().__call__(X) + self.by

    class FarOff(Off):
        by = 1e-2

    X = sample_inputs(2000, 2, 8, seed=1)
    assert 0.4 < np.mean(np.abs(layer(X)).max(axis=(1, 2)) < 1e-9) < 0.6
    near, far = (
        judged(layer, kind(layer.theta, layer.w), noise=0.0, exact=True, X=X)
        for kind in (Off, FarOff)
    )
    assert near.status is Status.LEARNED and near.certificate is not None
    assert near.certificate.floor > 0.0 and near.certificate.largest_error < 1e-6
    assert far.status is Status.NOT_VERIFIED


def test_seconds_leave_the_error_curve_out():
    layer = plant(1, 6, 3.0, seed=1)
    X = sample_inputs(2000, 3, 6, seed=2)
    began = time.perf_counter()
    fit = learn(X, layer(X), heads=1, config=LearnConfig(exact=ExactConfig(curve_points=3)))
    wall = time.perf_counter() - began
    others = sum(result.seconds for name, result in fit.phases.items() if name != "curve")
    assert others < fit.seconds <= wall - fit.phases["curve"].seconds
