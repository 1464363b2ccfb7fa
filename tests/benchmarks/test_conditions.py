"""The dials are measured: a tiny version, so that it cannot rot."""

from __future__ import annotations

import json

import pytest

from benchmarks import conditions
from benchmarks.store import Store


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.setattr(conditions, "SCRATCH", tmp_path)
    monkeypatch.setattr(conditions, "EXAMPLES", {"sculpt": 3000, "exact": 1500})
    return tmp_path


def test_quick(small, capsys):
    assert conditions.main(["--quick"]) == 0
    written = json.loads((small / "conditions.json").read_text())
    assert [entry["dial"] for entry in written["dials"]] == ["zero_sum", "flat"]
    for entry in written["dials"]:
        assert entry["turns"][-1]["learned"] == 0 and entry["turns"][-1]["own_warns"] == 2
        assert len(conditions.cells_of(entry)) == len(conditions.HEADER)
        assert entry["warned"] == entry["failed"] >= 2
    assert (small / "conditions.md").read_text() == capsys.readouterr().out[:-1]


def test_a_stopped_run_goes_on(small, monkeypatch):
    store = Store(small / "conditions.jsonl", conditions.MEASURED_BY)
    monkeypatch.setitem(conditions.TURNS["exact"], "flat", (1.0,))
    first = conditions.run_dial("flat", "exact", range(1), store)
    assert first["turns"][0]["learned"] == 1 and first["turns"][1]["learned"] == 0

    def nothing_may_be_run(*_):
        raise AssertionError

    monkeypatch.setattr(conditions, "trial", nothing_may_be_run)
    again = Store(store.path, conditions.MEASURED_BY)
    assert conditions.run_dial("flat", "exact", range(1), again) == first


def test_silent_failures_are_told():
    def run(learned, holds):
        failing = [] if holds else ["sum_size"]
        ended = {"status": "learned" if learned else "too_flat", "data_holds": True}
        return {"learned": learned, "holds": holds, "failing": failing, **ended}

    runs = {0.0: [run(True, True), run(True, True)], 1.0: [run(False, True), run(False, False)]}
    summary = conditions.summarise("zero_sum", "sculpt", runs)
    assert conditions.missed(summary) == ["1 silent failures"]
    runs[0.0] = [run(False, False), run(True, True)]
    found = conditions.missed(conditions.summarise("zero_sum", "sculpt", runs))
    assert found[0] == "good side learned 1 of 2" and "1 silent failures" in found
    assert "zero_sum, sculpt: 1 silent failures" in conditions.page([summary], "b", range(2))
