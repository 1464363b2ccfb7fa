"""The comparison of installations: what is only resolved is not called measured."""

from __future__ import annotations

from benchmarks import compared
from benchmarks.compared import Installation


def test_the_table_says_what_was_not_measured():
    told = compared.table([Installation("a", 3, 5.0, 1234.5, 0.25), Installation("b", 70)])
    assert "| a | 3 | 1,234 | 5 | 0.25 |" in told
    assert "| b | 70 | not measured | not measured | not measured |" in told


def test_results_are_kept_from_run_to_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(compared, "RESULTS", tmp_path / "compared.json")
    monkeypatch.setattr(compared, "install", lambda name: Installation(name, 1, 1.0, 1.0, 1.0))
    monkeypatch.setattr(compared, "resolve", lambda name: Installation(name, 2))
    assert compared.main(["--only", "POT"]) == 0
    assert compared.main(["--only", "TransformerLens"]) == 0
    last = capsys.readouterr().out.split("import, s of a core")[-1]
    assert "| POT | 1 |" in last and "| TransformerLens | 2 | not measured |" in last
