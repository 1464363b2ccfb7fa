"""The table of attention functions: measured once, and it says what did not succeed."""

from __future__ import annotations

from benchmarks import attention
from benchmarks.attention import Grid
from benchmarks.store import Store

NAMES = ("softmax", "polynomial", "sigmoid", "relu")  # others may have been registered
TINY = Grid(heads=(1,), scales=(1.0,), seeds=1)


def test_every_function_is_measured_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(attention, "FUNCTIONS", NAMES)
    monkeypatch.setattr(attention, "DIM", 4)
    monkeypatch.setattr(attention, "MANY", 1000)
    store = Store(tmp_path / "attention.jsonl", attention.MEASURED_BY)
    records = attention.measure(TINY, store)
    assert len(records) == 8 and all(r["success"] for r in records if r["way"] == "counted")

    def nothing_may_be_run(*_):
        raise AssertionError

    monkeypatch.setattr(attention, "_run", nothing_may_be_run)
    again = Store(store.path, attention.MEASURED_BY)
    assert attention.measure(TINY, again) == records
    text = attention.page(records, TINY, "build")
    assert "| relu | 1 | 1 of 1 |" in text and text.count("| softmax | 1 | 1 of 1 |") == 2
    assert capsys.readouterr().out == ""  # standard output is for the tables

    lost = [record | {"success": False, "status": "not_verified"} for record in records]
    text = attention.page(lost, TINY, "build")
    assert "- sigmoid, 1 heads, scale 1, counted, seed 0: not_verified" in text


def test_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(attention, "SCRATCH", tmp_path)
    monkeypatch.setattr(attention, "QUICK", TINY)
    monkeypatch.setattr(attention, "FUNCTIONS", NAMES)
    monkeypatch.setattr(attention, "DIM", 4)
    monkeypatch.setattr(attention, "MANY", 1000)
    assert attention.main(["--quick"]) == 0
    assert (tmp_path / "attention.md").read_text() == capsys.readouterr().out[:-1]
