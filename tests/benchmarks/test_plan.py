"""The benchmark of the plan, and that of the tail bounds: tiny versions of them."""

from __future__ import annotations

import json

import pytest

from benchmarks import plan, tails


def test_quick(tmp_path, capsys):
    assert plan.main(["--quick", "--out", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "| exact | 1, 2, 6, 2 | 18 |" in told and "2 of 2" in told
    assert not (tmp_path / "plan.md").exists()  # only the whole is kept


def test_a_stopped_run_goes_on_and_the_whole_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(plan, "EXACT", plan.EXACT[:1])
    monkeypatch.setattr(plan, "SCULPT", ())
    monkeypatch.setattr(plan, "EFFORT", dict.fromkeys(("exact", "sculpt"), plan.Effort(3, 2)))
    asked = []

    def learner(setting, name, fitted, seed):
        asked.append((fitted, seed))
        if len(asked) == 3:
            raise KeyboardInterrupt
        return {"success": fitted >= 22, "status": "learned", "seconds": 0.1}

    monkeypatch.setattr(plan, "attempt", learner)
    with pytest.raises(KeyboardInterrupt):
        plan.main(["--out", str(tmp_path)])
    assert plan.main(["--out", str(tmp_path)]) == 0
    assert len(set(asked)) == len(asked) - 1  # the one that was stopped came again, no other
    (record,) = json.loads((tmp_path / "plan.json").read_text())["settings"]
    assert record["succeeded"] == 3 and 22 <= record["least_fit"] <= 26
    assert record["above_fit"] == record["fit"] / record["least_fit"]
    assert "within 4 times the smallest number in 1 of 1" in (tmp_path / "plan.md").read_text()


def test_a_plan_that_is_not_enough_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(plan, "EXACT", plan.EXACT[:1])
    monkeypatch.setattr(plan, "SCULPT", ())
    failure = {"success": False, "status": "not_verified", "seconds": 0.1}
    monkeypatch.setattr(plan, "attempt", lambda *_: failure)
    assert plan.main(["--out", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "0 of 100" in told and "in 0 of 1 settings (fewest: 0%)" in told


def test_too_few_examples_to_be_asked_are_a_failure():
    refused = plan.attempt(plan.Setting(4, 2, 8, 2.0), "exact", 5, 0)
    assert refused["status"] == "refused" and not refused["success"]


def test_bisection_stops_early_where_the_rate_is_out_of_reach(tmp_path, monkeypatch):
    asked = []

    def failing(setting, name, fitted, seed):
        asked.append(seed)
        return {"success": False, "status": "not_verified", "seconds": 0.0}

    monkeypatch.setattr(plan, "attempt", failing)
    store = plan.Store(tmp_path / "plan.jsonl", plan.MEASURED_BY)
    found = plan.runs(store, plan.EXACT[0], "exact", 20, 40, all_of_them=False)
    assert len(found) == len(asked) == 7 and not plan.enough(found, 40)


def test_looseness_is_printed(capsys):
    assert tails.main(["--quick"]) == 0
    told = capsys.readouterr().out
    assert "| Hanson-Wright, two tokens, 2 sd |" in told and "Predicted over seen: " in told


def test_bounds_hold_in_the_table():
    for name, bound, truth, _ in tails.bound_rows(20_000):
        above = float(bound.replace(",", "")) >= float(truth.replace(",", ""))
        assert above != name.endswith("(from below)"), name
