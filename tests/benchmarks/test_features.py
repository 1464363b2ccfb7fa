"""The benchmark of random features: its tables, from sizes that take seconds."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from benchmarks.features import __main__ as features
from benchmarks.features import orderings, regime, speed
from gradine.features import experiments

TINY = replace(experiments.FULL, n_heads=20, n_neurons=340, seeds=2, choosing=50, testing=100)


def test_speed_is_compared_for_the_same_answer(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(speed, "SOLVERS", ("cholesky",))
    out, scratch = tmp_path / "features.json", str(tmp_path)
    arguments = ["speed", "--quick", "--scratch", scratch, "--out", str(out)]
    assert features.main(arguments) == 0
    told = capsys.readouterr().out
    assert "The best of scikit-learn that is right to 1e-6, sklearn cholesky" in told
    assert "| ours | done |" in told and out.with_suffix(".md").read_text() in told
    assert "predictions" not in out.read_text()


def test_a_way_that_runs_out_of_memory_is_said(tmp_path, monkeypatch):
    def out_of_memory(*_):
        raise MemoryError("Unable to allocate 12.7 GiB for an array")

    monkeypatch.setattr(speed, "_sklearn", out_of_memory)
    monkeypatch.setattr(speed, "FRESH", 20)
    monkeypatch.setattr(speed.resource, "setrlimit", lambda *_: None)
    entry = speed._fit_in_child("sklearn cholesky", 50, tmp_path / "p.npy")
    assert entry == {"failed": "out of memory: Unable to allocate 12.7 GiB"}


def test_orderings_and_regimes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(experiments, "FULL", TINY)
    monkeypatch.setattr(orderings, "EXAMPLES", 64)
    monkeypatch.setattr(regime, "TESTING", 100)
    regimes = ((4, 1, None, (32, 64), (0.5, 0.25)), (4, 3, 20, (32, 64), (0.5,)))
    monkeypatch.setattr(regime, "REGIMES", regimes)
    options = ["--scratch", str(tmp_path), "--out", str(tmp_path / "f.json")]
    features.main(["orderings", "regime", *options])
    told = capsys.readouterr().out
    assert "MISSED" in told and "over 2 seeds" in told
    assert told.count("| 4 | 1 | infinitely many | 64 |") == 2
    assert told.count("| 4 | 3 | 20 | 64 |") == 1


def test_the_sampler_sees_products():
    A = np.random.default_rng(0).standard_normal((1500, 1500))
    with speed._Sampler() as busy:
        until = time.perf_counter() + 0.5
        while time.perf_counter() < until:
            A = A @ A / 1500.0
    with speed._Sampler() as idle:
        time.sleep(0.3)
    assert busy.shares["large_share"] > 0.5 and idle.shares["share"] == 0.0 and idle.looks > 3
