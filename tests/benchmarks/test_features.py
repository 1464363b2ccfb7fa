"""The benchmark of random features: its tables, from sizes that take seconds."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from benchmarks import features
from gradine.features import experiments

TINY = replace(experiments.FULL, n_heads=20, n_neurons=340, seeds=2, choosing=50, testing=100)


def test_speed_is_compared_for_the_same_answer(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(features, "SOLVERS", ("cholesky",))
    monkeypatch.setattr(features, "MANY", 150)
    out = tmp_path / "features.md"
    assert features.main(["speed", "--examples", "100", "--out", str(out)]) == 0
    told = capsys.readouterr().out
    assert "The best of scikit-learn that is right to 1e-6, sklearn cholesky" in told
    assert "| ours | done |" in told and not out.exists()  # only the whole is kept


def test_a_way_that_runs_out_of_memory_is_said(tmp_path, monkeypatch):
    def out_of_memory(*_):
        raise MemoryError("Unable to allocate 12.7 GiB for an array")

    monkeypatch.setattr(features, "_sklearn", out_of_memory)
    monkeypatch.setattr(features, "FRESH", 20)
    monkeypatch.setattr(features.resource, "setrlimit", lambda *_: None)
    entry = features._fit_in_child("sklearn cholesky", 50, tmp_path / "p.npy")
    assert entry == {"failed": "out of memory: Unable to allocate 12.7 GiB"}


def test_orderings_and_regimes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(experiments, "FULL", TINY)
    monkeypatch.setattr(features, "ORDERED", 64)
    monkeypatch.setattr(features, "REGIMES", ((4, 3, 20, (32, 64), (0.5, 0.25)),))
    features.main(["orderings", "regime", "--out", str(tmp_path / "f.md")])
    told = capsys.readouterr().out
    assert "MISSED" in told and "over 2 seeds" in told
    assert told.count("| 4 | 3 | 20 | 64 |") == 2


def test_the_sampler_sees_products():
    A = np.random.default_rng(0).standard_normal((1500, 1500))
    with features._Sampler() as busy:
        until = time.perf_counter() + 0.5
        while time.perf_counter() < until:
            A = A @ A / 1500.0
    with features._Sampler() as idle:
        time.sleep(0.3)
    assert busy.shares["large_share"] > 0.5 and idle.shares["share"] == 0.0 and idle.looks > 3
