"""The version, and messages of one line."""

from __future__ import annotations

import gradine
from gradine.cli.console import one_line


def test_help_says_what_happens_to_the_rank_without_the_option(cli):
    told = " ".join(cli("learn", "--help").out.replace("│", " ").split())
    assert "low ranks are tried where examples are too few" in told


def test_a_group_has_examples_and_no_completion_of_its_own(cli):
    told = cli("hard", "--help").out
    assert "gradine hard parity --dim 20 --sparsity 3 --out" in told and "--install" not in told


def test_version(cli, real_cli):
    for run in (cli, real_cli):
        answer = run("--version")
        assert (answer.code, answer.out, answer.err) == (0, f"gradine {gradine.__version__}\n", "")


def test_messages_become_one_line():
    assert one_line(ValueError("first\n  second")) == "first second"
    assert one_line(MemoryError()) == "not enough memory"
    assert one_line(IsADirectoryError(21, "Is a directory", "data")) == "data: Is a directory"
    assert one_line(KeyError()) == "KeyError"
