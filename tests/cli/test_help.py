"""The version, and messages of one line."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import gradine
from gradine.cli import app
from gradine.cli.console import one_line
from gradine.cli.help_page import HelpPage
from gradine.cli.story import STEPS, Story
from tests.cli.conftest import environment

BOXES = re.compile("[\u2500-\u257f\u2026\x1b]")  # lines, corners, an ellipsis, colours


def pages() -> dict[str, object]:
    """Every command and group that has a help of its own."""
    found: dict[str, object] = {"": typer.main.get_command(app)}
    for name in STEPS:
        found[name] = Story.loaded(name)
        for part, command in getattr(found[name], "commands", {}).items():
            found[f"{name} {part}"] = command
    return found


@pytest.mark.parametrize(("name", "command"), pages().items(), ids=[*pages()])
def test_nothing_is_cut_in_80_columns(cli, monkeypatch, name, command):
    monkeypatch.setenv("COLUMNS", "80")
    answer = cli(*name.split(), "--help")
    assert answer.code == 0 and not BOXES.search(answer.out)
    above = answer.out.partition("Examples:\n")[0]  # examples are for copying, and not broken
    assert max(map(len, above.splitlines())) <= 80
    names = set(re.findall(r"(?:^  | / )(--[\w-]+)", above, re.MULTILINE))
    context = typer.Context(command)
    for parameter in command.get_params(context):
        record, meaning = parameter.get_help_record(context)
        assert f"\n  {record}" in above
        default = re.search(r"\[default: .*\]", meaning)
        assert default is None or default[0] in " ".join(above.split())
        names -= {*parameter.opts, *parameter.secondary_opts}
    assert not names


def test_a_name_longer_than_a_line_is_whole(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    page = HelpPage(width=80)
    page.write_dl([("--" + "x" * 90, "Long.")])
    assert "--" + "x" * 90 + "\n" in page.getvalue()


def in_a_terminal(**variables: str) -> str:
    """What `gradine --help` shows there."""
    ours, theirs = pty.openpty()
    told = environment() | {"TERM": "xterm", "COLUMNS": "80"} | variables
    if "NO_COLOR" not in variables:
        told.pop("NO_COLOR", None)
    with subprocess.Popen([sys.executable, "-m", "gradine", "--help"], stdout=theirs, env=told):
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError:  # how Linux says that nobody writes any more
            pass
    os.close(ours)
    return shown.decode()


def test_colours_are_for_terminals_that_want_them():
    assert "\x1b[36mlearn" in in_a_terminal()
    for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        told = in_a_terminal(**variables)
        assert "learn     Learn the heads" in told and not BOXES.search(told)


def test_help_says_what_happens_to_the_rank_without_the_option(cli):
    told = " ".join(cli("learn", "--help").out.split())
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
