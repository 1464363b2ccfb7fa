"""The cost of the exact learner: what is said to grow grows, and rates are those of products."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.exact import cost, ours
from benchmarks.exact.instances import Instance
from benchmarks.exact.scope import Scope

TINY = Instance(1, 3, 4, 2.0)


def test_cost(fake_learner, tmp_path, monkeypatch):
    runs = tuple((TINY, ratio) for ratio in (8.0, 16.0))
    rates = {"float32": 4e9, "float64": 1e9}
    monkeypatch.setattr(cost, "SWEEPS", {"n": runs})
    monkeypatch.setattr(cost, "product_rate", rates.__getitem__)
    monkeypatch.setattr(cost, "run_child", lambda *arguments: cost.child(arguments[1:]))
    summary = cost.measure(Scope(tmp_path, seeds=1, peers=False))
    json.dumps(summary, allow_nan=False)
    point = summary["sweeps"]["n"]["points"][0]
    assert point["product_rates"] == rates
    assert point["share"] == pytest.approx(point["rate"] / rates["float32"])
    assert point["sizes"]["n"] == TINY.examples_at(8)
    page = cost.page(summary)
    assert "n^" in page and "| 4.0 | 1.0 |" in page and "rate of a float32 product" in page
    assert summary["memory"]["m1-k3-d4-s2-x16"]["peak_bytes"] > 0


def test_fitted_examples_grow_by_eight():
    """With the learner itself: left to its settings, it takes 8 times the bound and no more."""
    fitted = [cost.trial(TINY, ratio, 0)["examples"] for ratio in (4.0, 32.0)]
    assert fitted == [TINY.examples_at(4), TINY.examples_at(32)] and fitted[1] >= 7.8 * fitted[0]
    truth, X = TINY.truth(0), TINY.inputs(TINY.examples_at(32) + ours.HELD_OUT, 0)
    left_alone = ours.ours(X, truth(X), 1, 0)
    assert left_alone.examples == TINY.examples_at(8) < len(left_alone.fitted)


@pytest.mark.parametrize("name", cost.SWEEPS)
def test_each_sweep_spans_a_factor_of_eight(name):
    sizes = [
        {"m": instance.heads, "d": instance.dim, "n": instance.examples_at(ratio)}
        for instance, ratio in cost.SWEEPS[name]
    ]
    grown = [size[name] for size in sizes]
    assert grown == sorted(grown) and grown[-1] >= 8 * grown[0]


def test_time_is_shared_out():
    """Error bars are a phase, the curve of a report is none here, and the rest is outside."""
    truth, X = TINY.truth(0), TINY.inputs(300, 0)
    answer = ours.ours(X, truth(X), 1, 0)
    assert ours.CHECKING in answer.phase_seconds and "curve" not in answer.phase_seconds
    found = ours.figures(answer, truth)
    fitting = answer.wall - sum(
        seconds for name, seconds in answer.phase_seconds.items() if name.startswith("fit_")
    )
    assert found["outside_share"] == pytest.approx(fitting / answer.wall)


def test_exponents_are_fitted():
    points = [{"size": size, "seconds": 3.0 * size**2.5} for size in (1, 2, 4, 8)]
    assert cost.exponent(points) == pytest.approx(2.5)


def test_products_are_of_the_precision_that_is_named(monkeypatch):
    made, make = [], cost.factors

    def watched(precision, size):
        made.append(make(precision, size))
        return made[-1]

    monkeypatch.setattr(cost, "factors", watched)
    assert all(cost.product_rate(precision, 50) > 0 for precision in cost.PRECISIONS)
    assert [(left @ right).dtype for left, right in made] == [np.float32, np.float64]
