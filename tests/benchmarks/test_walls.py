"""The walls: bisection finds the number, growth is told apart, and tables come of tiny sizes."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.store import Store
from benchmarks.walls import __main__ as walls
from benchmarks.walls import heads, hidden, needed, parity, speedup
from gradine.atlas import MapConfig, Setting, Trial


def trial_of(setting, learner, seed, config, *, enough):
    found = setting.n_fit >= enough
    false = "" if setting.n_fit != 16 else "wrong"
    error = 0.01 if found else 1.0
    return Trial(learner, seed, setting.n_fit, found, found, false, "-", error, error, error, 2.0)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "walls.jsonl", walls.MEASURED_BY)


def climb_of(rungs, learner="exact"):
    return needed.Climb(learner, Setting(), rungs, MapConfig(), lambda record: record["success"])


@pytest.mark.parametrize(("enough", "found"), [(1, 4), (16, 16), (17, 32), (64, 64), (65, None)])
def test_bisection_finds_the_lowest_rung(monkeypatch, store, enough, found):
    calls = []

    def fake(setting, learner, seed, config):
        calls.append(setting.n_fit)
        return trial_of(setting, learner, seed, config, enough=enough)

    monkeypatch.setattr(needed, "run_trial", fake)
    climb = climb_of((4, 8, 16, 32, 64))
    got = needed.needed(climb, store)
    assert got.examples == found and got.seconds == (None if found is None else 2.0)
    assert got.false_certificates == calls.count(16)
    done = len(calls)
    assert needed.needed(climb, store) == got and len(calls) == done  # read back


def test_growth_is_told_apart():
    power = needed.fit_growth([1, 2, 4, 8], [5 * m**1.5 for m in (1, 2, 4, 8)])
    assert power["exponent"] == pytest.approx(1.5) and power["power_leaves"] < 1e-9
    other = needed.fit_growth([1, 2, 4, 8], [5 * 3**m for m in (1, 2, 4, 8)])
    assert other["factor"] == pytest.approx(3.0) and other["exponential_leaves"] < 1e-9
    assert "power describes" in heads._words(power) and "exponential" in heads._words(other)


def test_tables_and_pictures(monkeypatch, store, tmp_path, capsys):
    def fake(setting, learner, seed, config):
        lost = setting.t in ((2, 3) if learner == "exact" else (4,))
        enough = 10**9 if lost else 40 * setting.n_heads**2
        return trial_of(setting, learner, seed, config, enough=enough)

    monkeypatch.setattr(needed, "run_trial", fake)
    out = ["--out", str(tmp_path), "--images", str(tmp_path / "images")]
    assert walls.main(["heads", "parity", *out]) == 0
    told = capsys.readouterr().out
    assert (
        told
        == (tmp_path / "walls-heads.md").read_text() + (tmp_path / "walls-parity.md").read_text()
    )
    assert "| exact | 2 | 168 | not with 4,096 | - |" in told and "- exact: m^" in told
    assert "With 8 times as many steps on as many examples, t = 4: function errors 1, 1." in told
    assert (tmp_path / "images" / "walls-heads.png").stat().st_size > 1000
    assert (tmp_path / "images" / "walls-parity.png").stat().st_size > 1000


def test_real_trials_of_tiny_layers(monkeypatch, store):
    monkeypatch.setattr(heads, "DIM", 4)
    monkeypatch.setattr(heads, "QUICK_HEADS", {"exact": (1,)})
    found = heads.measure(store, quick=True)
    (point,) = found["exact"]["points"]
    assert point["bound"] <= point["examples"] <= 8 * point["bound"]
    assert not point["false_certificates"]


def test_the_prediction_counts_orthogonal_functions():
    assert parity.orthogonal_functions(10, 3) == 10 * 84


def test_two_workers_beside_one(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(speedup.GRID, "fixed", {"heads": 1, "dim": 4})
    assert walls.main(["speedup", "--quick", "--out", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "12 trials" in told and "the same answers" in told and "at least 1.7" in told
    assert "MISSED" in speedup.page(
        {
            "ratio": 1.2,
            "seconds": {1: 1.0, 2: 0.9},
            "same": True,
            "trials": 1,
            "load": 1,
            "cores": 2,
        }
    )


def test_an_unknown_part_is_refused(capsys):
    with pytest.raises(SystemExit):
        walls.main(["doors"])
    assert "part is 'doors'" in capsys.readouterr().err


def test_parity_layers_on_every_input(store):
    assert len(np.unique(hidden.all_inputs(3, 0, 64).reshape(64, -1), axis=0)) == 64
    found = hidden.measure(store, quick=True)
    told = hidden.page(found)
    assert "holds" in told and "MISSED" not in told
    assert len(found["right"]) == 10 and max(r["error"] for r in found["right"]) < 1e-12
    assert [trial["learner"] for trial in found["tried"]] == ["exact", "sculpt"]
    found["right"][0]["error"], found["tried"][0]["false_certificate"] = 1e-3, "wrong heads"
    assert hidden.page(found).count("MISSED") == 2
