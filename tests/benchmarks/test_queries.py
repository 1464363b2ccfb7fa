"""The benchmark of queries runs: tiny versions of its parts, so that they cannot rot."""

from __future__ import annotations

import json

from benchmarks.queries import __main__ as queries
from benchmarks.queries import defences, planted
from benchmarks.queries.planted import INSTANCES, Planted
from benchmarks.store import Store


def test_instances_are_those_of_the_figures():
    assert len(INSTANCES) == 20
    assert {instance.dim for instance in INSTANCES} == {16, 32, 64}
    assert {instance.heads for instance in INSTANCES} == set(range(1, 9))
    assert {instance.constant for instance in INSTANCES} == {False, True}
    assert len({instance[1:] for instance in INSTANCES}) == 20


def test_a_part_is_measured_reported_and_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(planted, "INSTANCES", (Planted(0, 1, 6, False), Planted(1, 2, 6, True)))
    monkeypatch.setattr(defences, "DEFENCES", defences.DEFENCES[:2])
    monkeypatch.setattr(defences, "HEADS", 1)
    monkeypatch.setattr(defences, "DIM", 6)
    out = tmp_path / "queries.json"
    options = ["--quick", "--out", str(out), "--scratch", str(tmp_path)]
    assert queries.main(["planted", *options]) == 0
    text = out.with_suffix(".md").read_text()
    assert "theta error at most 1e-09): 2 of 2" in text and "Defences" not in text
    assert text == capsys.readouterr().out.removesuffix("\n")
    assert queries.main(["defences", *options]) == 0  # beside the figures that are there
    content = json.loads(out.read_text())
    assert set(content) == {"planted", "defences"}
    assert "## Defences" in out.with_suffix(".md").read_text()
    run = content["defences"]["rows"][1]["runs"][0]
    assert run["own"] > 1e-9 and run["error"] < 1e-4 and run["status"] == "learned"


def test_a_stopped_run_goes_on(tmp_path, monkeypatch):
    instances = (Planted(0, 1, 6, False),)
    monkeypatch.setattr(planted, "INSTANCES", instances)
    store = Store(tmp_path / "planted.jsonl", planted.MEASURED_BY)
    first = planted.measure(store, quick=False)

    def nothing_may_be_run(*_):
        raise AssertionError

    monkeypatch.setattr(planted, "trial", nothing_may_be_run)
    assert planted.measure(Store(store.path, planted.MEASURED_BY), quick=False) == first
