"""The dials are measured: a tiny version, so that it cannot rot."""

from __future__ import annotations

import json

import pytest

from benchmarks import conditions, dials
from benchmarks.store import Store


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.setattr(conditions, "SCRATCH", tmp_path)
    monkeypatch.setitem(dials.EXAMPLES, "sculpt", 3000)
    return tmp_path


def test_quick(small, capsys, monkeypatch):
    for name in ("zero_sum", "flat"):
        monkeypatch.setitem(conditions.TURNS["sculpt"], name, ((), (1.0,)))
    assert conditions.main(["--quick"]) == 0
    written = json.loads((small / "conditions.json").read_text())
    assert [entry["dial"] for entry in written["dials"]] == ["zero_sum", "flat"]
    for entry in written["dials"]:
        assert entry["bad"][-1]["learned"] == 0 and entry["bad"][-1]["own_warns"] == 2
        assert len(conditions.cells_of(entry)) == len(conditions.HEADER)
        assert entry["warned"] == entry["failed"] >= 2
    assert (small / "conditions.md").read_text() == capsys.readouterr().out[:-1]


def test_a_stopped_run_goes_on(small, monkeypatch):
    store = Store(small / "conditions.jsonl", conditions.MEASURED_BY)
    monkeypatch.setitem(conditions.TURNS["exact"], "flat", ((), (1.0,)))
    first = conditions.run_dial("flat", "exact", range(1), store)
    assert first["good"][0]["learned"] == 1 and first["bad"][0]["learned"] == 0

    def nothing_may_be_run(*_):
        raise AssertionError

    monkeypatch.setattr(conditions, "trial", nothing_may_be_run)
    again = Store(store.path, conditions.MEASURED_BY)
    assert conditions.run_dial("flat", "exact", range(1), again) == first


def run(learned, holds):
    failing = [] if holds else ["sum_size"]
    status = "learned" if learned else "too_flat"
    return {
        "learned": learned,
        "holds": holds,
        "failing": failing,
        "status": status,
        "data_holds": True,
    }


def test_silent_failures_are_told(monkeypatch):
    monkeypatch.setitem(conditions.TURNS["sculpt"], "zero_sum", ((), (1.0,)))
    runs = {0.0: [run(True, True), run(True, True)], 1.0: [run(False, True), run(False, False)]}
    summary = conditions.summarise("zero_sum", "sculpt", runs)
    silent = "bad side: 1 of 2 failures without a warning"
    assert conditions.missed(summary) == [silent]
    assert f"zero_sum, sculpt: {silent}" in conditions.page([summary], "build", range(2))
    told = "On the bad side 2 runs failed, and the check warned in 1 of them"
    assert told in conditions.page([summary], "build", range(2))
    runs = {0.0: [run(False, True), run(True, False)], 1.0: [run(False, False)] * 2}
    summary = conditions.summarise("zero_sum", "sculpt", runs)
    assert conditions.missed(summary) == [
        "turn 0: learned 1 of 2",
        "turn 0: the check holds on 1 of 2",
    ]
    assert conditions.cells_of(summary)[-1] == "1"  # a failure that nothing warned of


def test_false_alarms_are_told(monkeypatch):
    monkeypatch.setitem(conditions.TURNS["sculpt"], "zero_sum", ((), (0.8, 1.0)))
    good = [run(True, True)] * 3
    learned = [run(True, False), run(True, False) | {"data_holds": False}, run(True, True)]
    refused = [run(False, False) | {"status": "refused: heads is 9", "data_holds": False}] * 3
    summary = conditions.summarise("zero_sum", "sculpt", {0.0: good, 0.8: learned, 1.0: refused})
    failures, alarms = conditions.bad_side([summary])
    assert failures.startswith("On the bad side 3 runs failed, and the check warned in 3 of them")
    assert "examples alone in 3. Of the 3, 3 are refusals" in failures
    assert "of 6 runs on the bad side 3 were learned all the same" in alarms
    assert "had warned of 2 of these, and the check of examples alone of 1." in alarms


def test_the_kept_page_is_that_of_the_kept_results():
    kept = conditions.RESULTS / "conditions.json"
    found = json.loads(kept.read_text())
    seeds = range(conditions.FIRST, conditions.FIRST + conditions.SEEDS)
    page = conditions.page(found["dials"], found["build"], seeds)
    assert kept.with_suffix(".md").read_text() == page
