"""Phase 3: the minimum-norm point, the rows of large margin, the refined sum."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from gradine.inputs import plant
from gradine.layer import AttentionLayer, softmax
from gradine.sculpt.body import Body
from gradine.sculpt.certify import sculpt
from gradine.sculpt.crude_sum import crude_sum
from gradine.sculpt.pipeline import body_of
from gradine.sculpt.proxy import large_margin_rows, proxy_and_refine
from gradine.status import NotLearned, Status
from tests.sculpt.conftest import planted


@pytest.mark.parametrize("case", ["one_head", "two_heads", "biased"])
def test_refined_sum_is_far_better_than_the_crude_one(case, request):
    case = request.getfixturevalue(case)
    crude = crude_sum(case.data, case.config)
    carved = sculpt(case.data, crude.estimate, case.config, None)
    proxy = proxy_and_refine(case.data, body_of(carved), case.config)
    assert case.sum_error(proxy.refined_sum) < case.sum_error(crude.paper) / 20


def test_proxy_points_to_the_mean_of_the_heads(two_heads):
    carved = sculpt(two_heads.data, two_heads.sum, two_heads.config, 2)
    proxy = proxy_and_refine(two_heads.data, body_of(carved), two_heads.config)
    mean = two_heads.layer.theta.mean(axis=0)
    cosine = np.sum(proxy.theta * mean) / np.linalg.norm(proxy.theta) / np.linalg.norm(mean)
    assert cosine > 0.97
    # It is the point of smallest norm: smaller than any head, and inside the body.
    assert np.linalg.norm(proxy.theta) < np.linalg.norm(two_heads.layer.theta, axis=(1, 2)).min()


def test_large_margin_rows_look_at_one_token(two_heads):
    X, Y = two_heads.data.sample(3000, seed=0)
    theta = two_heads.layer.theta.mean(axis=0)
    rows = large_margin_rows(X, Y, theta, 50)
    logits = (X @ theta) @ X.swapaxes(1, 2)
    ordered = np.sort(logits, axis=-1)
    margins = np.sort((ordered[..., -1] - ordered[..., -2]).ravel())[::-1]
    np.testing.assert_allclose(np.sort(rows.margins)[::-1], margins[:50])
    attention = softmax(logits).max(axis=-1)
    assert np.sort(attention.ravel())[-50:].min() > 0.999


def test_rows_of_blocks_merge_to_those_of_all(two_heads):
    X, Y = two_heads.data.sample(3000, seed=0)
    theta, count = two_heads.layer.theta.mean(axis=0), 40
    whole = large_margin_rows(X, Y, theta, len(X) * X.shape[1]).widest(count)
    blocks = [slice(0, 400), slice(400, 900), slice(900, 3000)]
    parts = [large_margin_rows(X[b], Y[b], theta, 9000).widest(count) for b in blocks]
    merged = reduce(lambda a, b: a.merge(b, count), parts)
    for expected, found in zip(whole, merged, strict=True):
        np.testing.assert_array_equal(expected, found)
    assert len(np.unique(merged.tokens, axis=0)) == count


def test_flat_attention_is_named():
    layer = plant(2, 8, seed=0)
    case = planted(AttentionLayer(0.02 * layer.theta, layer.w), 20_000, 3)
    carved = sculpt(case.data, case.sum, case.config, 2)
    with pytest.raises(NotLearned) as stopped:
        proxy_and_refine(case.data, body_of(carved), case.config)
    assert stopped.value.status is Status.TOO_FLAT


def test_disagreeing_heads_are_named(two_heads):
    """A body about a point that has nothing to do with the heads: margins without agreement."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((500, 64))
    lie = Body(A, A @ (3.0 * rng.standard_normal(64)), np.full(500, 1e-3), 1.0)
    with pytest.raises(NotLearned) as stopped:
        proxy_and_refine(two_heads.data, lie, two_heads.config)
    assert stopped.value.status is Status.NO_AGREEMENT
