"""The benchmark of the exact learner runs: tiny versions of its parts, with a stand-in learner."""

from __future__ import annotations

import dataclasses
import importlib.util
import json

import numpy as np
import pytest

from benchmarks.exact import __main__ as exact
from benchmarks.exact import count, curve, noise, table
from benchmarks.exact.instances import ROWS, Instance, Row, with_noise
from benchmarks.exact.ours import HELD_OUT, ours
from benchmarks.exact.scope import Scope
from benchmarks.exact.watch import Watch

TINY = Instance(1, 3, 4, 2.0)
TORCH = importlib.util.find_spec("torch") is not None


@pytest.fixture
def scope(tmp_path):
    return Scope(tmp_path, seeds=2, peers=False)


def checked(module, summary):
    """The page of a summary, which must be fit for a JSON file too."""
    json.dumps(summary, allow_nan=False)
    return module.page(summary)


def test_counting_bound():
    assert Instance(4, 8, 16, 2.0).examples_at(1) == 16
    assert Instance(4, 8, 16, 2.0).examples_at(1.25) == 20
    assert Instance(8, 8, 64, 2.0, 8).examples_at(4) == 120
    assert Instance(8, 8, 64, 2.0, 64).n_parameters == Instance(8, 8, 64, 2.0).n_parameters
    assert Instance(2, 3, 8, 2.0).n_parameters == Instance(2, 3, 8, 2.0).truth(0).n_parameters


def test_the_rows_are_those_that_were_asked_for():
    asked = [(r.instance.name, r.ratio, r.seeds, r.successes, r.faster) for r in ROWS]
    assert asked == [
        ("m4-k8-d16-s2", 4, 20, 20, 3),
        ("m4-k8-d16-s2", 2, 20, 18, 3),
        ("m4-k8-d16-s6", 4, 20, 20, 3),
        ("m2-k2-d16-s2", 8, 20, 18, 3),
        ("m8-k8-d32-s2", 4, 10, 10, 10),
        ("m16-k8-d32-s2", 4, 10, 10, 10),
        ("m8-k8-d64-s2-r8", 4, 5, 5, 10),
        ("m32-k8-d64-s2", 4, 1, None, None),
    ]
    # The last is so large that its peers have to be short for the table to fit in an hour.
    assert (ROWS[-1].patience, ROWS[-1].starts, ROWS[-1].expand) == (1.5, 1, False)
    assert {row.patience for row in ROWS[:-1]} == {10.0}
    assert "last row of the whole table: 1.5 times" in table.page({"rows": []})


def test_table(fake_learner, scope, monkeypatch):
    row = Row(TINY, 8, 2, 2, 0.001, peer_seeds=1, starts=1, patience=1.0)
    monkeypatch.setattr(table, "ROWS", (row,))
    scope = dataclasses.replace(scope, peers=TORCH)
    summary = table.measure(scope)
    found = summary["rows"][0]
    assert found["successes"] == found["seeds"] == 2 and found["missed"] == []
    assert found["examples"] == TINY.examples_at(8)
    assert len(table.cells_of(found)) == len(table.HEADER)
    assert "2 of 2" in checked(table, summary)
    assert found["peer_seeds"] == TORCH
    monkeypatch.setattr("benchmarks.exact.race.race", dict)  # nothing may be run again
    assert table.measure(scope) == summary


def test_targets_that_do_not_hold_are_said():
    ours = {"theta_error": None, "outside_share": 0.1, "status": "no"}
    ours.update(solved_seconds=1.0, seconds=2.0)
    rival = {"solved": True, "seconds": 0.5, "total": 2.0}
    rivals = {"rate": 0.01, "allowed": 10.0, **dict.fromkeys(("adam", "lbfgs"), rival)}
    won = {**ours, "success": True, "theta_error": 1e-9}
    record = {"examples": 9, "load": 0.0, "rivals": rivals, "ours": won}
    row = Row(TINY, 8, 1, 1, 3)
    assert "0.5 times as fast, not 3" in table.summarise(row, [record])["missed"][0]
    lost = table.summarise(row, [{**record, "ours": {**ours, "success": False}}])
    assert lost["faster"]["ratio"] == 0.0 and len(lost["missed"]) == 2
    lost_rival = {**rival, "solved": False}
    open_ended = {**rivals, **dict.fromkeys(("adam", "lbfgs"), lost_rival)}
    best = table.summarise(row, [{**record, "rivals": open_ended}])
    assert best["faster"] == {"ratio": 10.0, "at_least": True} and best["missed"] == []
    assert best["faster_whole"] == {"ratio": 5.0, "at_least": True}
    assert "> 10" in table.cells_of(best)


def test_the_clock_stops_when_the_heads_are_there():
    truth = TINY.truth(0)
    X = TINY.inputs(TINY.examples_at(8) + HELD_OUT, 0)
    answer = ours(X, truth(X), 1, 0, truth=truth)
    assert answer.learned and 0.0 < answer.solved_seconds < answer.seconds
    watch = Watch(truth, 1e-6)
    watch.fit_went_on(1e-3, lambda: truth.theta)  # not believed, whatever they are
    watch.fit_went_on(1e-7, lambda: truth.theta * (1.0 + 2e-6))
    watch.fit_went_on(1e-7, lambda: np.concatenate([truth.theta, truth.theta]))
    assert watch.seconds is None and watch.looking > 0.0
    watch.fit_went_on(1e-7, lambda: truth.theta * (1.0 + 5e-7))
    assert watch.seconds is not None


def test_curve(fake_learner, scope, monkeypatch, tmp_path):
    monkeypatch.setattr(curve, "CURVE", TINY)
    monkeypatch.setattr(curve, "RATIOS", (0.5, 8))
    summary = curve.measure(scope)
    assert [point["ours"]["solved"] for point in summary["points"]] == [0, 2]
    assert summary["smallest"] == 8
    assert "| 8 |" in checked(curve, summary)
    curve.draw(summary, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 1000


def test_count(fake_learner, scope, monkeypatch):
    monkeypatch.setattr(count, "planted", lambda number: Instance(1 + number, 3, 4, 2.0))
    monkeypatch.setattr(count, "EXAMPLES", 400)
    summary = count.measure(scope)
    assert (summary["right"], summary["layers"]) == (2, 2)
    assert "2 of 2" in checked(count, summary)


def test_count_plants_what_was_asked():
    planted = [count.planted(number) for number in range(100)]
    assert {layer.heads for layer in planted} == set(range(1, 9))
    assert {layer.dim for layer in planted} == {16, 32}
    assert all(1 <= layer.scale <= 4 for layer in planted)


def test_noise(fake_learner, scope, monkeypatch):
    monkeypatch.setattr(noise, "INSTANCES", (TINY,))
    summary = noise.measure(scope)
    assert summary["rows"][0]["ratio"] == pytest.approx(1.0, abs=1e-3)
    assert "holds" in checked(noise, summary)


def test_noise_has_the_size_asked_for():
    Y = np.random.default_rng(0).standard_normal((400, 3, 4))
    added = with_noise(Y, 20.0, 0) - Y
    assert np.std(added) == pytest.approx(0.1 * np.std(Y), rel=0.05)


def test_parts_in_one_text(fake_learner, scope, monkeypatch, tmp_path):
    monkeypatch.setattr(curve, "CURVE", TINY)
    monkeypatch.setattr(curve, "RATIOS", (8,))
    text, content = exact.run(scope, ["curve"], tmp_path / "out.json")
    assert "(out-curve.png)" in text and list(content) == ["curve"]
    assert content["curve"]["build"] in text


def test_the_command_writes_tables_and_figures(fake_learner, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(exact, "SCRATCH", tmp_path)
    monkeypatch.setattr(noise, "INSTANCES", (TINY,))
    out = tmp_path / "found" / "exact.json"
    assert exact.main(["noise", "--seeds", "1", "--no-peer", "--out", str(out)]) == 0
    assert capsys.readouterr().out == out.with_suffix(".md").read_text() + "\n"
    assert json.loads(out.read_text())["noise"]["rows"][0]["seeds"] == 1


def test_options():
    assert exact._parse([]).out == exact.RESULTS / "exact.json"
    assert exact._parse(["--quick"]).out.parent == exact.SCRATCH
    assert exact._parse(["table", "--rows", "1,3"]).rows == (1, 3)
    for wrong in (["--rows", "9"], ["nonsense"]):
        with pytest.raises(SystemExit):
            exact._parse(wrong)
