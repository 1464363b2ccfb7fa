"""The benchmarks run: tiny versions of them, so that they cannot rot."""

from __future__ import annotations

import json
import os
from functools import partial

import pytest

from benchmarks import theorem
from benchmarks.instances import Row, Targets, examples_of
from benchmarks.memory import measure_memory, report
from benchmarks.peer import PeerConfig
from benchmarks.store import Store
from benchmarks.table import HEADER, cells_of
from benchmarks.text import markdown

TINY = Row(1, 3, 6, 3.0, (8_000,), 1, Targets(theorem=0.05, successes=1.0))


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "theorem.jsonl", theorem.MEASURED_BY)


def test_a_row_is_measured_and_reported(store, capsys):
    summary = theorem.run_row(TINY, "boolean", [0], store)
    assert summary["successes"] == summary["counted_right"] == summary["seeds"] == 1
    assert summary["missed"] == []
    assert summary["refined_to_paper"]["worst"] > 20
    assert sum(summary["phase_seconds"].values()) <= summary["seconds"]
    cells = cells_of(summary)
    assert len(cells) == len(HEADER)
    assert "1 of 1" in markdown(HEADER, [cells])
    json.dumps(summary, allow_nan=False)
    assert "None." in theorem.notes([summary], PeerConfig(), store.build)
    assert capsys.readouterr().out == ""  # standard output is for the table


def test_a_stopped_run_goes_on(store, monkeypatch):
    first = theorem.run_row(TINY, "boolean", [0], store)
    with store.path.open("a") as file:
        file.write('{"build": "torn')  # stopped in the middle of a line
    again = Store(store.path, theorem.MEASURED_BY)

    def nothing_may_be_run(*_, **__):
        raise AssertionError

    monkeypatch.setattr(theorem, "run_trial", nothing_may_be_run)
    assert theorem.run_row(TINY, "boolean", [0], again) == first
    again.put({"learned": False}, "other", "boolean", 0)
    assert Store(store.path, theorem.MEASURED_BY).get("other", "boolean", 0) is not None
    assert Store(store.path, theorem.MEASURED_BY, fresh=True).get(TINY.name, "boolean", 0) is None


def test_results_of_other_sources_are_not_used(store, monkeypatch):
    store.put({"learned": True}, "row", "boolean", 0)
    monkeypatch.setattr("benchmarks.store.build_of", lambda _: "0.0+other")
    assert Store(store.path, theorem.MEASURED_BY).get("row", "boolean", 0) is None


def test_a_seed_that_fails_is_reported_with_its_reason(store):
    short = Row(3, 3, 6, 3.0, (600, 900), 1, Targets(theorem=0.05, successes=1.0))
    summary = theorem.run_row(short, "gaussian", [0], store)
    assert summary["successes"] == 0 and summary["missed"]
    assert len(cells_of(summary)) == len(HEADER)
    json.dumps(summary, allow_nan=False)
    assert summary["failures"][0]["reason"] in theorem.notes([summary], PeerConfig(), "build")
    assert [tried["examples"] for tried in store.get(short.name, "gaussian", 0)["tried"]] == [
        600,
        900,
    ]


def test_the_peer_is_measured(store):
    pytest.importorskip("torch")
    peer = PeerConfig(examples=300)
    summary = theorem.run_row(TINY, "boolean", [0], store, peer, peer_seeds=1)
    assert summary["peers"] == summary["peers_solved"] == 1
    assert "1 of 1 here" in theorem.notes([summary], peer, "build")
    assert summary["peer_seconds"] > 0


def test_the_control_is_measured(store):
    summary = theorem.run_row(TINY, "boolean", [0], store, None, peer_seeds=1)
    assert summary["controls"] == 1 and summary["peers"] == 0
    assert summary["control_seconds"] > 0


def test_many_examples_come_from_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.instances.IN_MEMORY", 10)
    monkeypatch.setattr("benchmarks.instances.BLOCK", 8)
    examples = examples_of(TINY, 20, 0, "boolean", tmp_path)
    X, Y = examples.block(0, 20)
    assert X.shape == Y.shape == (20, 3, 6)
    assert set(X.ravel()) == {-1.0, 1.0}


def test_options(tmp_path):
    assert theorem._parse(["--quick"]).rows == [1, 2]
    assert theorem._parse([]).out == theorem.RESULTS / "theorem.json"
    assert theorem._parse(["--rows", "1"]).out.parent == theorem.SCRATCH
    for wrong in (["--rows", "9"], ["--inputs", "uniform"]):
        with pytest.raises(SystemExit):
            theorem._parse(wrong)


@pytest.mark.slow
def test_memory_is_measured():
    found = measure_memory(20_000)
    assert found["status"] in ("learned", "not_verified")
    assert 0 < found["imports_bytes"] < found["peak_bytes"] < 2**30
    assert "20,000" in report(found)


def test_trials_run_side_by_side(tmp_path):
    store = Store(tmp_path / "runs.jsonl", (), workers=2)
    store.put({"pid": 0}, "known")
    store.ahead([(partial(_where, 1), ("known",)), *((partial(_where, i), (i,)) for i in range(4))])
    found = [store.once(lambda: {"pid": os.getpid()}, key) for key in ("known", 0, 1, 2, 3)]
    assert found[0]["pid"] == 0 and os.getpid() not in [record["pid"] for record in found]
    assert [record["number"] for record in found[1:]] == [0, 1, 2, 3]
    assert Store(store.path, ()).get(3) == found[4]


def _where(number):
    return {"number": number, "pid": os.getpid()}
