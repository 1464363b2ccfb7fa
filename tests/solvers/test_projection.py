"""Variable projection: gradient, products and solver against what they are defined as."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradine import AttentionLayer, compare, plant, sample_inputs
from gradine.exact.low_rank import truncated
from gradine.solvers import projection
from gradine.solvers.gauss_newton import Path, Rules, conjugate_gradients, descend
from gradine.solvers.linearisation import Linearisation
from gradine.solvers.projection import Penalty, Projection

PENALTIES = [Penalty(), Penalty(0.1, 0.05)]


def examples(heads=2, dim=6, n=40, k=4, scale=2.0, seed=0, **more):
    layer = plant(heads, dim, scale, seed=seed, **more)
    X = sample_inputs(n, k, dim, seed=seed + 1)
    return layer, X, layer(X)


def parameters(rank, heads=2, dim=6, seed=3):
    rng = np.random.default_rng(seed)
    if rank is None:
        return (0.3 * rng.standard_normal((heads, dim, dim)),)
    return tuple(0.6 * rng.standard_normal((heads, dim, rank)) for _ in range(3))


def dot(a, b):
    return sum(float(np.sum(x.astype(float) * y)) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize("penalty", PENALTIES, ids=["plain", "penalties"])
def test_envelope_gradient_is_the_gradient(rank, penalty):
    _, X, Y = examples()
    problem, p = Projection(X, Y), parameters(rank)
    rng = np.random.default_rng(0)
    way, h = tuple(rng.standard_normal(part.shape) for part in p), 1e-5

    def loss(t):
        return problem.evaluate(tuple(a + t * b for a, b in zip(p, way, strict=True)), penalty).loss

    down = Linearisation(problem, problem.evaluate(p, penalty)).gradient()
    slope = (loss(h) - loss(-h)) / (2 * h)
    assert slope == pytest.approx(-2.0 * dot(down, way) / problem.energy, rel=1e-4)


@pytest.mark.parametrize("rank", [None, 2])
def test_product_and_transposed_are_adjoint_and_free_of_the_features(rank):
    _, X, Y = examples()
    problem = Projection(X, Y)
    at = problem.evaluate(parameters(rank), Penalty())
    line = Linearisation(problem, at)
    rng = np.random.default_rng(0)
    step = tuple(rng.standard_normal(p.shape).astype(np.float32) for p in line.parameters)
    image = line.product(step)
    other = line.product(tuple(rng.standard_normal(p.shape).astype(np.float32) for p in step))
    left, right = float(np.sum(image.astype(float) * other)), dot(line.transposed(other), step)
    assert left == pytest.approx(right, rel=1e-3)
    basis = np.concatenate([block.basis for block in line.blocks])
    assert np.abs(basis.T @ image).max() < 1e-3 * np.abs(image).max() * len(image) ** 0.5


def test_best_out_is_least_squares():
    layer, X, Y = examples()
    noisy = Y + 0.1 * np.random.default_rng(0).standard_normal(Y.shape)
    problem = Projection(X, noisy)
    at = problem.evaluate((layer.theta,), Penalty())
    from gradine.layer import attention_features

    A = attention_features(X, layer.theta).swapaxes(1, 2).reshape(-1, 12)
    expected = np.linalg.lstsq(A, noisy.reshape(-1, 6), rcond=None)[0]
    np.testing.assert_allclose(at.out, expected, atol=1e-10)


def test_blocks_do_not_change_the_answer(monkeypatch):
    _, X, Y = examples()
    whole = Projection(X, Y)
    monkeypatch.setattr(projection, "BLOCK_BYTES", 10_000)
    blocks = Projection(X, Y)
    assert len(blocks.blocks()) > 3 and len(whole.blocks()) == 1
    p = parameters(None)
    a, b = whole.evaluate(p, PENALTIES[1]), blocks.evaluate(p, PENALTIES[1])
    assert a.loss == pytest.approx(b.loss, rel=1e-12)
    for x, y in zip(
        Linearisation(whole, a).gradient(), Linearisation(blocks, b).gradient(), strict=True
    ):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("rank", [None, 2])
def test_descent_ends_at_rounding(rank):
    layer, X, Y = examples(n=200, rank=rank)
    truth = (layer.theta,) if rank is None else truncated(layer.theta, layer.w, rank)
    start = tuple(a + 0.1 * b for a, b in zip(truth, parameters(rank), strict=True))
    problem, path = Projection(X, Y), Path()
    end = descend(problem, start, Penalty(), Rules(steps=150), path)
    assert path.misfits[0] > 1e-4
    assert end.misfit < 1e-20 and end.misfit == min(path.misfits)
    found = AttentionLayer(end.theta, problem.projections(end))
    assert compare(found, layer).theta_error.max() < 1e-8


@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize("penalty", PENALTIES, ids=["plain", "penalties"])
def test_single_precision_sees_the_same_slope(rank, penalty):
    _, X, Y = examples()
    problem, p = Projection(X, Y), parameters(rank)
    exact, rough = (problem.evaluate(p, penalty, rough=flag) for flag in (False, True))
    assert not exact.rough and rough.rough and rough.residual.dtype == np.float32
    assert rough.loss == pytest.approx(exact.loss, rel=1e-4)
    slopes = (Linearisation(problem, at).gradient() for at in (exact, rough))
    for x, y in zip(*slopes, strict=True):
        assert np.linalg.norm(x - y) < 1e-3 * np.linalg.norm(x)


@pytest.mark.parametrize("rank", [None, 2])
def test_rough_points_are_far_from_the_end_only(rank):
    layer, X, Y = examples(n=200, rank=rank)
    truth = (layer.theta,) if rank is None else truncated(layer.theta, layer.w, rank)
    start = tuple(a + 0.1 * b for a, b in zip(truth, parameters(rank), strict=True))
    rules = Rules(steps=150, rough=1e-4)
    problem, path = Projection(X, Y), Path()
    end = descend(problem, start, Penalty(), rules, path)
    assert path.misfits[0] > rules.rough
    assert end.misfit < 1e-20 and not end.rough
    # With noise the walk ends where single precision is enough.
    noisy = Projection(X, Y + 0.1 * np.random.default_rng(0).standard_normal(Y.shape))
    end = descend(noisy, start, Penalty(), rules)
    assert end.rough and end.parameters[0].dtype == np.float64
    assert end.misfit == pytest.approx(noisy.evaluate(end.parameters, Penalty()).misfit, rel=1e-4)


def test_what_single_precision_cannot_factor_is_evaluated_in_double(monkeypatch):
    layer, X, Y = examples(n=200)
    problem, evaluate = Projection(X, Y), Projection.evaluate
    flags = []

    def failing(self, at, penalty, rough=False):
        flags.append(rough)
        if rough:
            raise FloatingPointError("matrix is not positive definite")
        return evaluate(self, at, penalty)

    monkeypatch.setattr(Projection, "evaluate", failing)
    start = (layer.theta + 0.1 * parameters(None)[0],)
    end = descend(problem, start, Penalty(), Rules(rough=1e-4))
    assert end.misfit < 1e-20 and any(flags) and not all(flags)


def test_steps_grow_where_they_gain_more_than_promised():
    layer, X, Y = examples(n=200)
    start = (0.05 * parameters(None)[0],)
    lengths = {}
    for stretch in (1.0, 1.5):
        problem, path = Projection(X, Y), Path()
        rules = Rules(stretch=stretch, surplus=0.0, slow=0.0)  # every step but the first
        descend(problem, start, Penalty(), replace(rules, steps=2), path)
        lengths[stretch] = path.misfits
    assert lengths[1.0][:2] == lengths[1.5][:2] and lengths[1.0][2] != lengths[1.5][2]
    # By default it is done where it helps, and the end is the same.
    path = Path()
    end = descend(Projection(X, Y), start, Penalty(), Rules(steps=150, inexact=0.4), path)
    found = AttentionLayer(end.theta, Projection(X, Y).projections(end))
    assert compare(found, layer).theta_error.max() < 1e-8


def test_conjugate_gradients_solve_and_show_the_spectrum():
    layer, X, Y = examples(n=200)
    noisy = Y + 0.1 * np.random.default_rng(0).standard_normal(Y.shape)
    problem = Projection(X, noisy)
    line = Linearisation(problem, problem.evaluate((layer.theta,), Penalty()))
    columns = [
        line.transposed(line.product((e.reshape(2, 6, 6),)))[0].ravel()
        for e in np.eye(72, dtype=np.float32)
    ]
    H = np.array(columns, dtype=float)
    values = np.linalg.eigvalsh((H + H.T) / 2)
    target = line.transposed(line.projected([line.at.residual.astype(np.float32)]))
    found = conjugate_gradients(line, line.flat(target), 1e-4, 300)
    expected = np.linalg.solve(H, target[0].ravel())
    assert found.solved
    assert np.linalg.norm(found.step - expected) < 1e-2 * np.linalg.norm(expected)
    assert found.ritz[0] == pytest.approx(values[0], rel=0.2)
    assert found.ritz[-1] == pytest.approx(values[-1], rel=0.05)
    assert not conjugate_gradients(line, line.flat(target), 1e-4, 2).solved
    seen = []
    early = conjugate_gradients(
        line, line.flat(target), 1e-4, 300, enough=lambda step: seen.append(step) or len(seen) >= 5
    )
    assert early.solved and len(early.ritz) == 5


@pytest.mark.parametrize("rank", [None, 2])
def test_units_make_heads_of_any_size_alike(rank):
    layer, X, _ = examples()
    uneven = layer.w * np.array([1.0, 1e-4])[:, None, None]
    Y = AttentionLayer(layer.theta, uneven)(X)
    problem = Projection(X, Y)
    start = (layer.theta,) if rank is None else truncated(layer.theta, uneven, rank)
    line = Linearisation(problem, problem.evaluate(start, Penalty()))
    units, rng = line.units(), np.random.default_rng(0)
    for part in line.shaped(np.arange(units.size)):
        for head in part:
            step = np.zeros_like(units)
            at = head.ravel().astype(int)
            step[at] = rng.standard_normal(at.size)
            shown = np.concatenate(line.unprojected_product(line.shaped(units * step)))
            assert 0.3 < np.linalg.norm(shown) / np.linalg.norm(step) < 3.0
