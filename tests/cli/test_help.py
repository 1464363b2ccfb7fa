"""The version, and messages of one line."""

from __future__ import annotations

import re
from pathlib import Path

import gradine
from gradine.cli.console import one_line
from gradine.cli.story import STEPS


def test_help_says_what_happens_to_the_rank_without_the_option(cli):
    told = " ".join(cli("learn", "--help").out.replace("│", " ").split())
    assert "low ranks are tried where examples are too few" in told


def test_a_group_has_examples_and_no_completion_of_its_own(cli):
    told = cli("hard", "--help").out
    assert "gradine hard parity --dim 20 --sparsity 3 --out" in told and "--install" not in told


def test_exit_codes_are_the_same_wherever_they_are_told(cli):
    docs = Path(__file__).parents[2]
    told = cli("--help").out
    for text in ((docs / "README.md").read_text(), (docs / "docs" / "files.md").read_text()):
        table = text[text.index("code | meaning |") :].split("\n\n")[0]
        assert re.findall(r"^\| (\d+) \|", table, re.MULTILINE) == ["0", "1", "2", "3", "130"]
    for code in ("0 done", "1 a defect", "2 bad input", "3 not learned", "130 stopped"):
        assert code in " ".join(told.split())


def test_every_command_but_two_has_json(cli):
    groups = {"hard": ("parity", "rounding", "dial")}
    for name in STEPS:
        for words in [(name, member) for member in groups.get(name, ())] or [(name,)]:
            assert ("--json" in cli(*words, "--help").out) == (name not in ("plant", "sample"))


def test_version(cli, real_cli):
    for run in (cli, real_cli):
        answer = run("--version")
        assert (answer.code, answer.out, answer.err) == (0, f"gradine {gradine.__version__}\n", "")


def test_messages_become_one_line():
    assert one_line(ValueError("first\n  second")) == "first second"
    assert one_line(MemoryError()) == "not enough memory"
    assert one_line(IsADirectoryError(21, "Is a directory", "data")) == "data: Is a directory"
    assert one_line(KeyError()) == "KeyError"
