"""Phase 5: chords and spectrum find the same hull, and count the heads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradine.inputs import plant
from gradine.sculpt.certify import sculpt
from gradine.sculpt.count import number_of_heads
from gradine.sculpt.pipeline import body_of
from gradine.sculpt.proxy import proxy_and_refine
from gradine.sculpt.span import span_of_heads
from gradine.status import NotLearned, Status
from tests.sculpt.conftest import planted


def find_span(case, heads=None, **settings):
    config = replace(case.config, **settings)
    carved = sculpt(case.data, case.sum, config, heads)
    body = body_of(carved)
    proxy = proxy_and_refine(case.data, body, config)
    m, _ = number_of_heads(case.data, body, carved, proxy, heads, config, seed=0)
    return span_of_heads(body, carved.center, proxy.theta, m, config, seed=0)


def distance_to_hull(span, layer):
    """Relative distance of each true head from the hull."""
    heads = (layer.theta[:, :, : layer.dim] - span.base).reshape(layer.n_heads, -1)
    Q = span.directions.reshape(span.heads - 1, -1)
    outside = heads - (heads @ Q.T) @ Q
    return np.linalg.norm(outside, axis=1) / np.linalg.norm(layer.theta, axis=(1, 2))


@pytest.mark.parametrize("case", ["two_heads", "biased"])
def test_two_heads(case, request):
    case = request.getfixturevalue(case)
    span = find_span(case)
    assert span.heads == span.counted == 2
    assert distance_to_hull(span, case.layer).max() < 0.05
    assert span.gap > 5


def test_chords_agree_with_the_spectrum(two_heads):
    span = find_span(two_heads)
    assert span.chord_agreement > 0.97
    assert span.chord_lengths[0] > 3 * span.chord_lengths[1]
    assert span.queries > 80  # lengths were measured by membership, not computed
    # The heads are within reach of the body along the hull.
    truth = two_heads.layer.theta.reshape(2, -1) @ span.directions.reshape(1, -1).T
    assert np.ptp(truth) < 1.5 * span.chord_lengths[0]


def test_three_heads_have_two_long_chords():
    case = planted(plant(3, 10, 4.0, seed=0), 120_000, 3)
    span = find_span(case)
    assert span.heads == 3
    assert distance_to_hull(span, case.layer).max() < 0.15
    assert span.chord_agreement > 0.9
    assert span.chord_lengths[1] > 1.5 * span.chord_lengths[2]


def test_one_head_is_a_point(one_head):
    span = find_span(one_head)
    assert span.heads == 1 and span.directions.shape == (0, 8, 8)
    np.testing.assert_allclose(span.base, one_head.layer.theta[0], atol=1e-5)
    assert span.chord_lengths.max() < 1e-3  # the body has shrunk to a point


def test_chords_can_be_left_out(two_heads):
    span = find_span(two_heads, chords=False)
    assert span.chord_directions.shape == (0, 8, 8) and span.heads == 2


@pytest.mark.parametrize(
    ("case", "asked", "status"),
    [("one_head", 2, Status.FEWER_HEADS), ("two_heads", 1, Status.MORE_HEADS)],
)
def test_clear_disagreement_with_the_request_is_named(case, asked, status, request):
    with pytest.raises(NotLearned) as stopped:
        find_span(request.getfixturevalue(case), heads=asked)
    assert stopped.value.status is status
    assert f"asked for {asked}" in stopped.value.detail


def test_a_body_of_random_slabs_shows_no_heads(two_heads):
    carved = sculpt(two_heads.data, two_heads.sum, two_heads.config, 2)
    body = body_of(carved)
    proxy = proxy_and_refine(two_heads.data, body, two_heads.config)
    rng = np.random.default_rng(0)
    noise = replace(body, A=rng.standard_normal(body.A.shape), b=rng.standard_normal(len(body.b)))
    with pytest.raises(NotLearned) as stopped:
        number_of_heads(two_heads.data, noise, carved, proxy, None, two_heads.config, seed=0)
    assert stopped.value.status is Status.NO_GAP


def test_an_open_count_is_settled_by_what_explains_fresh_examples(two_heads, monkeypatch):
    """Whatever order the gaps suggest, one head explains too little and three explain no more."""
    carved = sculpt(two_heads.data, two_heads.sum, two_heads.config, 2)
    body = body_of(carved)
    proxy = proxy_and_refine(two_heads.data, body, two_heads.config)
    for order in ([1, 2, 3], [3, 1, 2]):
        monkeypatch.setattr("gradine.sculpt.count.plausible_counts", lambda *_, o=order: o)
        found = number_of_heads(two_heads.data, body, carved, proxy, None, two_heads.config, seed=0)
        assert found == (2, "trial")


def test_one_head_is_believed_only_where_it_fits_exactly(one_head):
    """With too little data for the hull, only the best-fitting point of many heads is apart."""
    case = planted(plant(3, 8, 4.0, seed=0), 20_000, 3)
    for instance, heads, how in ((one_head, 1, "spectrum"), (case, 3, "trial")):
        carved = sculpt(instance.data, instance.sum, instance.config, None)
        body = body_of(carved)
        proxy = proxy_and_refine(instance.data, body, instance.config)
        found = number_of_heads(instance.data, body, carved, proxy, None, instance.config, seed=0)
        assert found == (heads, how)
