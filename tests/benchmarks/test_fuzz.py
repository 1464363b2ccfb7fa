"""Fuzzing at a fixed seed, and that it would find what is wrong."""

from __future__ import annotations

import pytest

from benchmarks.fuzz import __main__ as fuzz
from benchmarks.fuzz import child
from benchmarks.fuzz.files import Case
from gradine.checks import whole_number
from gradine.engine import one_thread


def test_some_hundred_inputs(tmp_path, capsys):
    pytest.importorskip("zarr")
    assert fuzz.main(["--quick", "--seed", "7", "--out", str(tmp_path)]) == 0
    told = (tmp_path / "fuzz.md").read_text()
    assert "300 fuzzed inputs: 0 crashes, 0 tracebacks, 0 wrong" in told
    assert told in capsys.readouterr().out


def family(read):
    return {"planted": (1, lambda rng, corpus, folder: Case(read))}


def planted_defects():
    import os
    import signal

    return {
        "crash": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "traceback": lambda: {}["nothing"],
        "trespass": lambda: open(os.path.expanduser("~/.gradine-none/x"), "w"),
        "names no file": lambda: whole_number("heads", 0, 1),
        "invalid literal": lambda: int("x"),  # no refusal of ours
    }


@pytest.mark.parametrize("defect", list(planted_defects()))
def test_defects_are_found(monkeypatch, tmp_path, defect):
    monkeypatch.setattr(child, "ALL", family(planted_defects()[defect]))
    corpus = type("Corpus", (), {"data": tmp_path / "data.npz"})()
    with one_thread():
        found = fuzz.run_batch(0, 0, 2, corpus)
    assert len(found["findings"]) == 2
    assert defect in str(found)
