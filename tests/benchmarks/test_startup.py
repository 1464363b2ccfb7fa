"""The benchmark of starts: what is measured, and that a slow start would show."""

from __future__ import annotations

from benchmarks import startup


def test_starts_are_measured_and_reported(monkeypatch, capsys):
    monkeypatch.setattr(startup, "STARTS", {"python": ["-c", "pass"], "x": ["-c", "import json"]})
    monkeypatch.setattr(startup, "AIMS", (("x", "python", 99.0),))
    assert startup.main(["--quick"]) == 0
    told = capsys.readouterr().out
    assert "| x / python | " in told and told.rstrip().endswith("| 99 | yes |")


def test_imports_are_measured_without_the_interpreter():
    found = {
        "python": {"cpu": 0.01, "wall": 0.02},
        "import gradine": {"cpu": 0.03, "wall": 0.04},
        "import sklearn": {"cpu": 0.05, "wall": 0.10},
        "gradine --help": {"cpu": 0.9, "wall": 1.0},
        "bare typer --help": {"cpu": 0.3, "wall": 0.5},
    }
    assert round(startup.ratio(found, "import gradine", "import sklearn", "cpu"), 9) == 0.5
    assert round(startup.ratio(found, "gradine --help", "bare typer --help", "cpu"), 9) == 3.0
    assert startup.table(found).count("| no |") == 2
