"""The outputs that a head writes to, and the head that they show."""

from __future__ import annotations

import numpy as np
import pytest

from gradine.exact.deflate import DeflateConfig, whitened_outputs
from gradine.exact.own_outputs import head_of_space
from gradine.exact.spaces import Space, find_spaces
from gradine.solvers.narrow import NarrowProblem
from gradine.solvers.narrow_walk import Walk
from tests.exact.test_deflate import narrow_layer, tokens

HEADS, DIM, RANK, K = 4, 48, 8, 6
WALK = Walk(steps=10, products=12, damping=0.1, worthwhile=0.05)


def seen(kind, n=6000, seed=1):
    """A layer whose heads write to outputs of their own, tokens of a kind, whitened outputs."""
    layer = narrow_layer(HEADS, DIM, RANK, seed=seed)
    X = tokens(n, K, DIM, 2)
    if kind == "alike":  # tokens of a sequence have much in common, and a few sizes
        X = 0.7 * X + X[:, :1] * np.random.default_rng(3).choice([0.3, 1.2], (n, 1, 1))
        X /= np.sqrt(np.mean(X**2))
    Y = layer(X).astype(np.float32)
    X = X.astype(np.float32)
    whiten, _ = whitened_outputs(X, Y, DIM, DeflateConfig())
    problem = NarrowProblem(X, Y @ whiten, DIM, free=True)
    return layer, problem, layer.w @ whiten


def left_of(problem):
    return problem.Y - problem.linear_part(problem.Y)[1]


def shares(space, w):
    """Of what each head writes, the share in the space."""
    basis = np.linalg.qr(space.write.T)[0]
    return np.sum((w @ basis) ** 2, axis=(1, 2)) / np.sum(w**2, axis=(1, 2))


@pytest.mark.parametrize("kind", ["gaussian", "alike"])
def test_every_head_has_a_space(kind):
    _, problem, w = seen(kind)
    rng = np.random.default_rng(0)
    spaces = find_spaces(left_of(problem), HEADS, RANK, starts=3, rounds=14, rng=rng)
    found = np.array([shares(space, w) for space in spaces])
    assert sorted(found.argmax(axis=1)) == list(range(HEADS))
    assert found.max(axis=1).min() > 0.8


def test_what_is_read_is_what_is_written():
    _, problem, _ = seen("gaussian")
    rng = np.random.default_rng(0)
    for space in find_spaces(left_of(problem), HEADS, RANK, starts=1, rounds=14, rng=rng):
        assert space.write @ space.read == pytest.approx(np.eye(RANK), abs=1e-4)


def test_only_the_outputs_in_which_most_is_left_are_looked_at():
    """Errors of heads that are found go up and down together, too."""
    _, problem, w = seen("gaussian")
    known = np.linalg.svd(np.concatenate(list(w[:3])))[2][: 3 * RANK].T.astype(np.float32)
    rest = left_of(problem)
    rest = rest - 0.95 * rest @ known @ known.T
    rng = np.random.default_rng(0)
    (space,) = find_spaces(rest, 1, RANK, starts=1, rounds=14, rng=rng)
    assert shares(space, w)[3] > 0.8


def test_the_same_seed_gives_the_same_spaces():
    _, problem, _ = seen("gaussian", n=600)
    both = [
        find_spaces(left_of(problem), 2, RANK, starts=2, rounds=8, rng=np.random.default_rng(5))
        for _ in range(2)
    ]
    for one, other in zip(*both, strict=True):
        assert np.array_equal(one.read, other.read)


@pytest.mark.parametrize("kind", ["gaussian", "alike"])
def test_a_head_is_learned_in_its_own_outputs(kind):
    layer, problem, w = seen(kind)
    some = problem.Y[: 1500 * K].reshape(1500, K, -1)
    rows = NarrowProblem(problem.X[:1500], some, DIM, free=True)
    for i in range(HEADS):
        # What a search would find, not exactly right: the others are in it.
        basis = np.linalg.svd(w[i])[2][:RANK].astype(np.float32)
        draw = np.random.default_rng(i).standard_normal(basis.shape).astype(np.float32)
        basis = np.linalg.qr((basis + 0.02 * draw).T)[0].T
        head = head_of_space(problem, rows, problem.Y, Space(basis.T, basis), (1.0, 2.0), WALK)
        cosine = np.sum(head.theta[0] * layer.theta[i])
        cosine /= np.linalg.norm(head.theta) * np.linalg.norm(layer.theta[i])
        assert cosine > 0.95
        assert np.linalg.norm(head.w[0] - w[i]) < 0.25 * np.linalg.norm(w[i])
