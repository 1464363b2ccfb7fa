"""The first look counts heads, measures logits and sees biases, by a few short sequences."""

from __future__ import annotations

import numpy as np
import pytest

import gradine
from gradine.layer import AttentionLayer
from gradine.queries import Rounded, as_oracle, probe_precision
from gradine.queries.asking.precision import Precision, glance_at_precision
from gradine.queries.by_fit.scout import scout
from gradine.status import NotLearned, Status

EXACT = Precision("float64", 2**-52, 2**-54, 0.0, True, 0)


@pytest.mark.parametrize("heads", [1, 3, 4, 7])
@pytest.mark.parametrize("constant", [False, True])
def test_heads_and_biases_are_seen(heads, constant):
    layer = gradine.plant(heads, 12, 2.0, seed=heads, constant=constant)
    seen = scout(as_oracle(layer), EXACT, seed=0)
    assert (seen.heads, seen.sure, seen.constant) == (heads, True, constant)
    assert 0.5 < seen.logit / 2.0 < 2.0
    assert seen.values[heads - 1] > 100 * seen.values[heads]


def test_it_is_cheap():
    oracle = as_oracle(gradine.plant(2, 16, seed=3))
    seen = scout(oracle, EXACT, seed=0)
    assert seen.rows == oracle.rows_used == 2 + 6


@pytest.mark.parametrize("scale", [1e-4, 0.02, 50.0])
def test_tokens_become_as_large_as_the_layer_needs_them(scale):
    seen = scout(as_oracle(gradine.plant(3, 10, scale, seed=5)), EXACT, seed=1)
    assert seen.heads == 3 and seen.sure
    assert 1 / 3 < seen.logit / scale < 3.0  # by one token a: an estimate, and no more


def test_equal_heads_are_one_and_silent_ones_none():
    layer = gradine.plant(3, 8, seed=2)
    theta = np.stack([layer.theta[0], layer.theta[0], layer.theta[2]])
    w = np.stack([layer.w[0], layer.w[1], np.zeros_like(layer.w[2])])
    assert scout(as_oracle(AttentionLayer(theta, w)), EXACT, seed=0).heads == 1


def test_no_gap_is_no_certainty():
    seen = scout(as_oracle(gradine.plant(4, 8, seed=1, out_dim=2)), EXACT, seed=0)
    assert seen.heads == 2 and not seen.sure


def test_a_query_bias_alone_is_seen():
    layer = gradine.plant(2, 8, seed=4, constant=True)
    w = layer.w.copy()
    w[:, -1] = 0.0
    assert scout(as_oracle(AttentionLayer(layer.theta, w, True)), EXACT, seed=0).constant


def test_limits_are_kept():
    oracle = as_oracle(gradine.plant(2, 8, seed=1), limit=gradine.Box(0.2, 0.7))
    seen = scout(oracle, EXACT, seed=0)  # a token outside would be refused
    assert seen.heads == 2 and seen.constant


@pytest.mark.parametrize("defence", [{"dtype": "float32"}, {"dtype": "float16"}, {"decimals": 4}])
def test_rounded_answers_are_asked_with_larger_steps(defence):
    oracle = as_oracle(Rounded(gradine.plant(2, 16, seed=7), **defence), dim=16)
    seen = scout(oracle, probe_precision(oracle), seed=0)
    assert seen.heads == 2


@pytest.mark.parametrize("scale", [0.05, 2.0, 20.0])
def test_projections_that_cancel_are_no_sharp_heads(scale):
    layer = gradine.plant(3, 10, scale, seed=3)
    w = np.stack([*layer.w[:2], 1e-6 * layer.w[2] - layer.w[0] - layer.w[1]])
    seen = scout(as_oracle(AttentionLayer(layer.theta, w)), EXACT, seed=0)
    assert seen.heads in (2, 3)  # the a W_h are nearly dependent, too
    assert 0.2 < seen.logit / scale < 5.0


def test_a_layer_that_says_nothing():
    silent = AttentionLayer(np.zeros((1, 4, 4)), np.zeros((1, 4, 4)))
    with pytest.raises(NotLearned) as stopped:
        scout(as_oracle(silent), EXACT, seed=0)
    assert stopped.value.status is Status.NOTHING_TO_SEE


def test_a_glance_is_cheaper_than_a_probe_and_says_the_same():
    layer = gradine.plant(2, 8, seed=1)
    glance = glance_at_precision(as_oracle(layer))
    assert (glance.kind, glance.queries, glance.deterministic) == ("float64", 2, True)
    rounded = glance_at_precision(as_oracle(Rounded(layer, decimals=3), dim=8))
    assert rounded.kind == "decimals"
    noisy = glance_at_precision(as_oracle(gradine.Noisy(layer, 1e-3), dim=8))
    assert noisy.kind == "noisy" and 0.5e-3 < noisy.absolute < 2e-3
