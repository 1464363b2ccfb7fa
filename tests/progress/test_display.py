"""The display of phases: words, bars on a terminal, lines elsewhere."""

from __future__ import annotations

import io
import re
import sys

import pytest

from gradine.progress import display as shown_by
from gradine.progress.display import PhaseDisplay
from gradine.progress.words import phase_line


def test_telling_figures_of_each_phase():
    figures = {"losses": [0.1, 2.2e-16], "validation_error": 3e-16, "skipped": "", "seconds": 1.0}
    line = " ".join(phase_line("polish", figures, False, 2.04).split())
    assert line == "polish loss 2.2e-16, validation error 3e-16 (2.0 s)"
    skipped = {"losses": [], "validation_error": 0.01, "skipped": "too many parameters"}
    assert "skipped too many parameters" in phase_line("polish", skipped, False, 0.0)
    again = phase_line("sculpt_again_2", {"rows": 5, "residual": 0.5}, True, 0.0)
    assert "rows 5, residual 0.5" in again and "recalled from the earlier run" in again


@pytest.mark.parametrize(
    ("name", "figures", "told"),
    [
        ("spectrum", {"heads": 2, "confidence": 0.984, "reason": ""}, "heads 2, confidence 0.98"),
        ("spectrum", {"heads": 0, "confidence": 0.0, "reason": "too few"}, "no count: too few"),
        ("mixing", {"residual": 0.25, "examples": 9}, "residual 0.25"),
        (
            "fit_12",
            {"heads": 12, "residual": 1e-14, "validation_error": 2e-14, "reasons": ["annealed"]},
            "heads 12, residual 1e-14, validation error 2e-14",
        ),
        (
            "ripe_2",
            {"heads": 2, "residual": 0.1, "validation_error": 0.11, "examples": 900},
            "heads 2, residual 0.1, validation error 0.11",
        ),
        (
            "refine",
            {"residual": 0.1, "validation_error": 0.11, "examples": 3600},
            "residual 0.1, validation error 0.11, examples 3600",
        ),
        ("identify", {"noise": 0.1, "condition": 15.98}, "noise 0.1, condition 16"),
        (
            "curve",
            {"examples": [10.0, 43.0], "errors": [1.0, 3e-15]},
            "examples 43, validation error 3e-15",
        ),
    ],
)
def test_telling_figures_of_the_exact_learner(name, figures, told):
    line = phase_line(name, figures, False, 0.3)
    assert line.split(maxsplit=1) == [name, f"{told}  (0.3 s)"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    with PhaseDisplay() as display:
        display.phase_started("survey", 100)
        display.examples_seen(100)
        display.phase_ended("survey", {"inputs": "boolean"}, False)
        display.phase_started("crude_sum", 100)
        display.examples_seen(40)
        display.phase_ended("crude_sum", {"energy": 0.9}, False)
        display.phase_started("fit_2", 100)
        display.fit_went_on(3.2e-5, list)
        display.phase_ended("fit_2", {"heads": 2}, False)
        display.phase_started("sculpt", 100)  # and a bar that is still there is taken away
    shown = terminal.getvalue()
    assert "40 of 100 examples" in shown and " 0 of 100" not in shown
    assert "\x1b[?25h" in shown.rsplit("sculpt", 1)[1]
    assert "energy 0.9" in shown and "residual 3.2e-05" in shown


def test_a_long_pass_tells_how_far_it_is(monkeypatch, capsys):
    monkeypatch.setattr(shown_by, "PAUSE", 0.0)
    with PhaseDisplay() as display:
        display.phase_started("sculpt", 1000)
        display.hits_kept(7)
        for seen in (200, 400):
            display.examples_seen(seen)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "sculpt           200 of 1,000 examples, 7 kept"
    assert re.fullmatch(
        r"sculpt +400 of 1,000 examples, [\d,]+ a second, 7 kept, about 0 s left", second
    )
