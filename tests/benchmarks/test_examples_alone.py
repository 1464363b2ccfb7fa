"""What examples alone show is measured: a tiny version, so that it cannot rot."""

from __future__ import annotations

from benchmarks import examples_alone


def test_quick(monkeypatch, capsys):
    monkeypatch.setattr(examples_alone, "NARROW", (1e-2, 1e-8))
    monkeypatch.setattr(examples_alone, "TURNS", {"low_rank": 1.0})
    monkeypatch.setattr(examples_alone, "OTHERS", ())
    monkeypatch.setattr(examples_alone, "NOISES", ((1.0, 0.01),))
    assert examples_alone.main(["--quick"]) == 0
    lines = capsys.readouterr().out.splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "|" in line]
    wide, narrow = cells[2:4]
    assert wide[3] == "1 learned" and float(wide[4]) < 1e-9
    assert narrow[3] == "1 learned_function"
    clear, lost = cells[-2:]
    assert float(clear[3]) > 1.0 > float(lost[4])
