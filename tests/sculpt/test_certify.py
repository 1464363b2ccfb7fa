"""Phases 2 and 4: certified rows carve slabs that hold at the truth."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from gradine.inputs import plant
from gradine.layer import AttentionLayer
from gradine.sculpt.body import slab_normals
from gradine.sculpt.certify import Slabs, sculpt
from gradine.sculpt.config import SculptConfig
from gradine.solvers.simplex import simplex_regression, simplex_regression_lp
from gradine.status import NotLearned, Status
from tests.sculpt.conftest import planted


def deviations(carved, layer):
    """How far each true head is from each slab's center, in units of sigma: (m, K)."""
    A = slab_normals(carved.queries, carved.differences)
    heads = layer.theta[:, :, : layer.dim].reshape(layer.n_heads, -1)
    return np.abs(heads @ A.T - carved.offsets) / carved.sigma


def test_slabs_of_one_head_hold_exactly_when_the_sum_is_known(one_head):
    carved = sculpt(one_head.data, one_head.sum, one_head.config, 1)
    A = slab_normals(carved.queries, carved.differences)
    exact = A @ one_head.layer.theta[0].ravel() - carved.offsets
    assert np.abs(exact).max() < 1e-6
    assert carved.residual < 1e-9
    np.testing.assert_allclose(carved.center, one_head.layer.theta[0], atol=1e-6)


def test_slabs_hold_at_all_heads_within_a_few_sigma(two_heads):
    carved = sculpt(two_heads.data, two_heads.sum, two_heads.config, 2)
    z = deviations(carved, two_heads.layer)
    assert np.median(z) < 4 and np.quantile(z, 0.99) < 20
    # They mean something: heads of another layer are far outside.
    assert np.median(deviations(carved, plant(2, 8, 3.0, seed=99))) > 10 * np.median(z)


def test_sigma_predicts_the_error_of_the_offset(two_heads):
    """Slabs predicted to be tighter are tighter."""
    carved = sculpt(two_heads.data, two_heads.sum, two_heads.config, 2)
    z = deviations(carved, two_heads.layer).max(axis=0)
    order = np.argsort(carved.sigma)
    third = len(order) // 3
    error = z * carved.sigma
    assert np.median(error[order[:third]]) < 0.7 * np.median(error[order[-third:]])


def test_biased_layer_uses_all_query_coordinates(biased):
    carved = sculpt(biased.data, biased.sum, biased.config, 2)
    assert carved.queries.shape[1] == 9 and carved.differences.shape[1] == 8
    assert (carved.queries[:, -1] == 1.0).all()
    assert np.median(deviations(carved, biased.layer)) < 4


def test_certified_rows_are_those_of_the_linear_program(two_heads):
    """On real rows the paper's LP certifies what the fast form does, with the same pattern."""
    X, Y = two_heads.data.sample(150, seed=0)
    Z = np.repeat(X @ two_heads.sum, 3, axis=0)
    y = Y.reshape(450, 8)
    fast, residual = simplex_regression(Z, y)
    residual /= np.linalg.norm(y, axis=1)
    exact = [simplex_regression_lp(Z[row], y[row]) for row in range(450)]
    lp_residual = np.array([misfit for _, misfit in exact]) / np.abs(y).sum(axis=1)
    best = np.argsort(residual)[:45]
    assert np.isin(best, np.argsort(lp_residual)[:60]).all()
    difference = np.abs(np.array([v for v, _ in exact]) - fast).max(axis=1)
    assert np.median(difference[best]) < 0.1 * np.median(np.delete(difference, best))


def test_blocks_agree_with_one_pass(two_heads):
    """Blocks screen a little more than one pass does; the tightest slabs are the same."""
    config = replace(two_heads.config, screened_share=1.0)
    whole = sculpt(replace(two_heads.data, block_size=30_000), two_heads.sum, config, 2)
    parts = sculpt(replace(two_heads.data, block_size=1_111), two_heads.sum, config, 2)
    np.testing.assert_allclose(parts.sigma, whole.sigma, rtol=1e-6)
    np.testing.assert_allclose(parts.center, whole.center, atol=1e-3)


def test_each_normal_counts_once(two_heads):
    carved = sculpt(two_heads.data, two_heads.sum, two_heads.config, 2)
    A = slab_normals(carved.queries, carved.differences)
    assert len(np.unique(A, axis=0)) == len(A)


def test_contradicting_slabs_are_dropped():
    """With three heads some rows are certified although the heads differ there."""
    case = planted(plant(3, 10, 4.0, seed=0), 120_000, 3)
    kept = sculpt(case.data, case.sum, case.config, 3)
    all_of_them = sculpt(case.data, case.sum, replace(case.config, contradiction=np.inf), 3)
    assert kept.dropped > 0 and all_of_them.dropped == 0
    wrong, before = (
        np.mean(deviations(c, case.layer).max(axis=0) > 30) for c in (kept, all_of_them)
    )
    assert wrong < before / 3


def test_sharp_attention_is_named():
    layer = plant(2, 10, seed=0)
    case = planted(AttentionLayer(1e4 * layer.theta, layer.w), 20_000, 3)
    with pytest.raises(NotLearned) as stopped:
        sculpt(case.data, case.sum, case.config, 2)
    assert stopped.value.status is Status.TOO_SHARP


def test_too_few_rows_say_how_many_examples_would_do():
    case = planted(plant(2, 16, 3.0, seed=0), 150, 2)
    with pytest.raises(NotLearned) as stopped:
        sculpt(case.data, case.sum, case.config, 2)
    assert stopped.value.status is Status.TOO_FEW_PATTERNS
    assert "examples" in stopped.value.detail


def test_more_tokens_than_outputs_is_named():
    case = planted(plant(1, 8, 3.0, seed=0, out_dim=3), 3_000, 4)
    with pytest.raises(NotLearned) as stopped:
        sculpt(case.data, case.sum, case.config, 1)
    assert stopped.value.status is Status.TOO_MANY_TOKENS


def test_screening_ends_when_the_body_no_longer_shrinks(two_heads):
    few = replace(two_heads.data, block_size=1_000)  # 30 blocks: legs of 4, 4, 8 and 14
    every = sculpt(few, two_heads.sum, SculptConfig(), 2)
    some = sculpt(few, two_heads.sum, SculptConfig(first_leg=4, shrinking=0.9), 2)
    # Four blocks have slabs enough, and four more do not make them ten times tighter.
    assert every.examples == few.split.n_fit
    assert some.examples == len(few.split.fit_rows(0, 8_000))
    whole = sculpt(few, two_heads.sum, SculptConfig(first_leg=4, shrinking=0.0), 2)
    assert whole.examples == every.examples
    np.testing.assert_array_equal(whole.offsets, every.offsets)
    np.testing.assert_array_equal(whole.queries, every.queries)


def test_after_the_time_screening_goes_on_with_what_it_has(two_heads):
    late = replace(two_heads.data, block_size=5_000, deadline=time.monotonic() - 1.0)
    carved = sculpt(late, two_heads.sum, SculptConfig(), 2)
    assert 4_000 < carved.examples <= 5_000


@pytest.mark.parametrize("count", [3, 10, 60])
def test_merging_keeps_the_tightest_of_all_each_normal_once(count):
    """Whatever comes in parts, and however often the same row does."""
    rng = np.random.default_rng(count)
    normals = rng.choice([-1.0, 1.0], (25, 4))  # some are the same, up to sign

    def some(n):
        which = rng.integers(0, 25, n)
        sigma = np.round(rng.exponential(size=n), 1)  # and some are equally wide
        values = rng.standard_normal(n)
        return Slabs(normals[which, :2], normals[which, 2:], values, sigma, values, n, n, 1)

    parts = [some(n).tightest(count) for n in (40, 5, 30, 50, 1)]
    columns = zip(*(part[:5] for part in parts), strict=True)
    whole = Slabs(*(np.concatenate(column) for column in columns), 0, 0, 0)
    expected, merged = whole.tightest(count), parts[0]
    for part in parts[1:]:
        merged = merged.merge(part, count)
    for name in Slabs._fields[:5]:
        np.testing.assert_array_equal(getattr(merged, name), getattr(expected, name))
    assert (merged.rows, merged.screened, merged.informative) == (126, 126, 5)
    assert np.all(np.diff(merged.sigma) >= 0.0)
