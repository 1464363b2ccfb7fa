"""Rough fits of narrow heads."""

from __future__ import annotations

import numpy as np
import pytest

from gradine.solvers.narrow import NarrowProblem
from gradine.solvers.narrow_walk import Walk, descend, outputs_of, scaled
from tests.exact.test_deflate import factors_of, narrow_layer, tokens


def planted(n=400, seed=3):
    layer = narrow_layer(3, 24, 3, seed=seed)
    X = tokens(n, 5, 24, 4)
    return factors_of(layer, 3), NarrowProblem(X, layer(X), 24, free=True)


def test_outputs_are_those_of_the_layer():
    heads, problem = planted()
    assert outputs_of(problem, heads) == pytest.approx(problem.Y, abs=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_direction_becomes_a_head_of_its_size(sign):
    """Moments tell (Theta, W) from (-Theta, -W) as little as they tell sizes."""
    heads, problem = planted()
    others = problem.linear_part(problem.Y)[0][problem.width :]
    lost = heads._replace(U=sign * 0.1 * heads.U, O=sign * 7.0 * heads.O)
    found = scaled(problem, lost, others, (1.0, 2.5, 5.0))
    assert found.theta == pytest.approx(heads.theta, rel=1e-9)
    assert found.w == pytest.approx(heads.w, rel=0.4, abs=0.05)


def test_a_walk_leads_down_to_the_end_and_tells_of_it():
    heads, problem = planted()
    draw = np.random.default_rng(0).standard_normal
    start = type(heads)(*(p + 0.2 * p.std() * draw(p.shape) for p in heads))
    seen = []
    walk = Walk(steps=25, products=60, damping=0.1, worthwhile=1e-3)
    found = descend(problem, start, walk, lambda at: seen.append(at.misfit))
    assert seen == sorted(seen, reverse=True) and len(seen) <= 25
    assert problem.evaluate(found).misfit == seen[-1] < 1e-6 * seen[0]
    few = descend(problem, start, walk._replace(worthwhile=0.99))
    assert problem.evaluate(few).misfit > seen[-1]


def test_other_outputs_of_the_same_tokens():
    heads, problem = planted()
    other = problem.with_outputs(2.0 * problem.Y)
    assert other.evaluate(heads._replace(O=2.0 * heads.O)).misfit < 1e-24
    assert problem.evaluate(heads).misfit < 1e-24  # as it was
