"""Variable projection: gradient, products and solver against what they are defined as."""

from __future__ import annotations

import numpy as np
import pytest

from gradine import AttentionLayer, compare, plant, sample_inputs
from gradine.exact.low_rank import truncated
from gradine.solvers import projection
from gradine.solvers.gauss_newton import Path, Rules, conjugate_gradients, descend
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

    down = problem.linearise(problem.evaluate(p, penalty)).gradient()
    slope = (loss(h) - loss(-h)) / (2 * h)
    assert slope == pytest.approx(-2.0 * dot(down, way) / problem.energy, rel=1e-4)


@pytest.mark.parametrize("rank", [None, 2])
def test_product_and_transposed_are_adjoint_and_free_of_the_features(rank):
    _, X, Y = examples()
    problem = Projection(X, Y)
    at = problem.evaluate(parameters(rank), Penalty())
    line = problem.linearise(at)
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
    for x, y in zip(whole.linearise(a).gradient(), blocks.linearise(b).gradient(), strict=True):
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


def test_conjugate_gradients_solve_and_show_the_spectrum():
    layer, X, Y = examples(n=200)
    noisy = Y + 0.1 * np.random.default_rng(0).standard_normal(Y.shape)
    problem = Projection(X, noisy)
    line = problem.linearise(problem.evaluate((layer.theta,), Penalty()))
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


@pytest.mark.parametrize("rank", [None, 2])
def test_units_make_heads_of_any_size_alike(rank):
    layer, X, _ = examples()
    uneven = layer.w * np.array([1.0, 1e-4])[:, None, None]
    Y = AttentionLayer(layer.theta, uneven)(X)
    problem = Projection(X, Y)
    start = (layer.theta,) if rank is None else truncated(layer.theta, uneven, rank)
    line = problem.linearise(problem.evaluate(start, Penalty()))
    units, rng = line.units(), np.random.default_rng(0)
    for part in line.shaped(np.arange(units.size)):
        for head in part:
            step = np.zeros_like(units)
            at = head.ravel().astype(int)
            step[at] = rng.standard_normal(at.size)
            shown = np.concatenate(line.unprojected_product(line.shaped(units * step)))
            assert 0.3 < np.linalg.norm(shown) / np.linalg.norm(step) < 3.0
