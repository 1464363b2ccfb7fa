"""The Python in a report: it runs, and gives the same answer."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest

import gradine
from gradine.exact.moments import MomentConfig
from gradine.report.again import attention_python, run_python
from gradine.report.story import tell


def python_of(fit: gradine.Fit, data: str | None = None) -> str:
    return run_python(tell(fit, None, None, None, data=data))


def run(code: str, given: dict[str, object]) -> gradine.Fit:
    with contextlib.redirect_stdout(io.StringIO()):
        exec(code, given)
    fit = given["fit"]
    assert isinstance(fit, gradine.Fit)
    return fit


def test_a_run_on_arrays_with_its_settings():
    truth = gradine.plant(1, 4, scale=2.0, seed=1)
    X = gradine.sample_inputs(1500, 3, 4, seed=2)
    exact = gradine.ExactConfig(moments=MomentConfig(probes=12), curve_points=0)
    config = gradine.LearnConfig(exact=exact, confidence=0.9)
    fit = gradine.learn(X, truth(X), heads=1, method="exact", seed=7, config=config)
    code = python_of(fit)
    assert "from gradine.exact.moments import MomentConfig" in code
    assert "# X (1500, 3, 4) and Y (1500, 3, 4)" in code
    again = run(code, {"X": X, "Y": truth(X)})
    assert np.array_equal(again.layer.theta, fit.layer.theta)
    assert again.config == fit.config and again.seed == 7


def test_a_run_on_a_file_by_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    truth = gradine.plant(1, 4, scale=2.0, seed=1)
    X = gradine.sample_inputs(1500, 3, 4, seed=2)
    np.savez("data.npz", X=X, Y=truth(X))
    fit = gradine.learn_examples(gradine.open_examples("data.npz"))
    code = python_of(fit, "data.npz")
    assert "config" not in code and "heads='auto', method='auto', seed=0" in code
    assert np.array_equal(run(code, {}).layer.w, fit.layer.w)


def test_a_layer_that_was_asked():
    truth = gradine.plant(1, 4, seed=1)
    fit = gradine.learn_by_queries(truth, max_queries=400, seed=3)
    again = run(python_of(fit), {"oracle": truth})
    assert np.array_equal(again.layer.theta, fit.layer.theta)
    assert again.asking.queries_used == fit.asking.queries_used


@pytest.mark.parametrize(
    "options",
    [{"limit": gradine.Box(-1.0, 1.0)}, {"limit": gradine.Ball(1.0), "rows": "last", "output": 2}],
)
def test_a_layer_that_was_asked_within_limits(options):
    truth = gradine.plant(1, 4, seed=1)
    fit = gradine.learn_by_queries(gradine.as_oracle(truth, **options), seed=3)
    free = gradine.learn_by_queries(truth, seed=3)
    again = run(python_of(fit), {"oracle": truth})
    assert np.array_equal(again.layer.theta, fit.layer.theta)
    assert not np.array_equal(again.layer.theta, free.layer.theta)


def test_heads_that_were_not_verified_come_from_the_run(flat, single):
    story = tell(single.fit, None, None, None)
    assert "layer.safetensors" in attention_python(story)
    lost = gradine.Status.NOT_VERIFIED
    story = tell(replace_status(single.fit, lost), None, None, None)
    assert attention_python(story).endswith("layer = fit.candidate.canonical()")
    assert attention_python(tell(flat.fit, None, None, None)) == ""


def replace_status(fit: gradine.Fit, status: gradine.Status) -> gradine.Fit:
    from dataclasses import replace

    return replace(fit, status=status, layer=None, certificate=None)
