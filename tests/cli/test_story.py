"""Help that tells the story, examples that work, completion: all without loading the numbers."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest

from gradine.cli.story import STEPS, STORY, Story, examples_of
from tests.cli.conftest import environment

#: Commands whose examples take a second or two and need no more than those before them wrote.
QUICK = ("plant", "sample", "query", "compare", "check", "plan", "hard")


def commands_of(name: str) -> list[tuple[str, object]]:
    """A command, or those of a group."""
    loaded = Story.loaded(name)
    if hasattr(loaded, "commands"):
        return [(f"{name} {part}", command) for part, command in loaded.commands.items()]
    return [(name, loaded)]


COMMANDS = [pair for name in STEPS for pair in commands_of(name)]
EXAMPLES = [(name, line) for name, command in COMMANDS for line in examples_of(command.callback)]


def test_help_tells_the_story_in_order(cli):
    answer = cli("--help")
    assert answer.code == 0 and answer.err == ""
    marks = [mark for panel, steps in STORY.items() for mark in (panel, *(s.name for s in steps))]
    listed = answer.out[answer.out.index("Options:") :].splitlines()
    starts = [line.removesuffix(":") if line.endswith(":") else line[2:] for line in listed]
    places = [
        next(at for at, start in enumerate(starts) if f"{start} ".startswith(f"{mark} "))
        for mark in marks
    ]
    assert places == sorted(places)


@pytest.mark.parametrize("name", STEPS)
def test_the_line_of_a_command_is_the_first_of_its_help(name):
    assert Story.loaded(name).help.partition("\n")[0] == STEPS[name].line


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=[name for name, _ in COMMANDS])
def test_examples_are_in_the_help_as_they_are_typed(cli, name, command):
    answer = cli(*name.split(), "--help")
    assert answer.code == 0
    shown = examples_of(command.callback)
    assert shown and all(f"\n  {line}\n" in answer.out for line in shown)


@pytest.mark.parametrize(("name", "line"), EXAMPLES, ids=[line for _, line in EXAMPLES])
def test_examples_parse(name, line):
    program, *arguments = shlex.split(line)
    assert program == "gradine" and " ".join(arguments).startswith(name)
    rest = arguments[len(name.split()) :]
    dict(COMMANDS)[name].make_context(name, rest)  # a complaint would be raised


def test_an_example_that_does_not_parse_is_noticed():
    with pytest.raises(Exception, match="No such option"):
        dict(COMMANDS)["plan"].make_context("plan", ["--hedas", "2"])


def test_quick_examples_run_one_after_the_other(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, line in EXAMPLES:
        if name.split()[0] in QUICK and "model:answer" not in line:
            answer = cli(*shlex.split(line)[1:])
            assert answer.code == 0 and answer.out, f"{line}: {answer.err}"
    assert (tmp_path / "asked" / "report.html").exists()


def modules_after(*arguments: str) -> set[str]:
    """First names of the modules that a command loads."""
    code = (
        "import sys; from gradine.cli import main; code = main(sys.argv[1:]); "
        "print(code, *{name.split('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment()
    )
    assert done.stderr.startswith("0 "), done.stderr
    return set(done.stderr.split())


def test_help_loads_nothing_that_computes():
    heavy = {"numpy", "scipy", "sklearn", "matplotlib", "torch", "piqp", "safetensors", "dask"}
    assert not heavy & modules_after("--help")
    assert not heavy & modules_after("--version")
    assert "numpy" in modules_after("plan", "--help")  # and it would be noticed


def complete(line: str) -> list[str]:
    """What bash offers at the end of a line."""
    words = line.split(" ")
    asked = environment() | {
        "_GRADINE_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    command = [sys.executable, "-c", "from gradine.cli import main; main()"]
    done = subprocess.run(command, capture_output=True, text=True, env=asked)
    return done.stdout.split()


def test_shells_complete_commands_and_options():
    assert complete("gradine p") == ["plant", "plan"]
    assert complete("gradine learn data.npz --examples") == ["--examples-budget", "--examples"]


def test_shells_complete_names_of_learners_and_functions():
    assert complete("gradine learn data.npz --method e") == ["exact"]
    assert complete("gradine plant --attention s") == ["softmax", "sigmoid"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell, tmp_path):
    # Tests need no shell of their own: typer takes the name from here.
    asked = environment() | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    asked |= {"HOME": str(tmp_path)}
    command = [sys.executable, "-m", "gradine", "--show-completion", shell]
    done = subprocess.run(command, capture_output=True, text=True, env=asked)
    assert done.returncode == 0 and "_GRADINE_COMPLETE" in done.stdout
    assert not os.listdir(tmp_path)
