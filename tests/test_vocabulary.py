"""One vocabulary: options, keys and columns are called as in Python, or the glossary says how."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
import typer.main

import gradine
from gradine import atlas, engine, hard, report
from gradine.cli import app
from gradine.cli.story import STEPS, Story

GLOSSARY = (Path(__file__).parent.parent / "docs" / "notation.md").read_text(encoding="utf-8")
GLOSSARY = GLOSSARY[GLOSSARY.index("## Glossary") :]
GLOSSARY = GLOSSARY[: GLOSSARY.index("\n\n", GLOSSARY.index("\n| "))]  # its first table
ROWS = [line.strip("|").split("|") for line in GLOSSARY.splitlines() if line.startswith("| ")][1:]


def public_functions() -> list:
    found = [getattr(gradine, name) for name in gradine.__all__]
    for module in (atlas, engine, hard, report):
        found += [getattr(module, name) for name in module.__all__]
    layer = gradine.AttentionLayer
    return [item for item in found if callable(item)] + [layer.from_checkpoint, layer.factored]


def python_names() -> set[str]:
    """Arguments of public functions, and fields of what they take and give."""
    names = set()
    for function in public_functions():
        if is_dataclass(function):
            names |= {item.name for item in fields(function)}
        elif not (isinstance(function, type) and issubclass(function, Exception | gradine.Status)):
            names |= set(inspect.signature(function).parameters)
    return names


def options() -> dict[str, str]:
    """The long options of all commands, each with a command that has it."""
    found = {}
    waiting = [("gradine", typer.main.get_command(app))]
    waiting += [(name, Story.loaded(name)) for name in STEPS]
    while waiting:
        name, command = waiting.pop()
        waiting += getattr(command, "commands", {}).items()
        for parameter in getattr(command, "params", ()):
            found |= {option: name for option in parameter.opts if option.startswith("--")}
    return found


NAMES = python_names()
OPTIONS = options()
BUILT_IN = {"--help", "--version", "--install-completion", "--show-completion"}


@pytest.mark.parametrize("option", sorted(set(OPTIONS) - BUILT_IN))
def test_an_option_is_called_as_in_python_or_is_in_the_glossary(option):
    name = option.removeprefix("--").removeprefix("no-").replace("-", "_")
    in_glossary = any(f"`{option}`" in row[2] for row in ROWS)
    assert name in NAMES or in_glossary, f"{OPTIONS[option]} {option}: docs/notation.md explains it"


def test_keys_of_a_result_are_attributes_or_in_the_glossary():
    truth = gradine.plant(heads=1, dim=4, scale=2.0, seed=1)
    fit = gradine.learn_by_queries(truth, heads=1)
    written = fit.to_dict()
    own = {name for thing in (fit, fit.asking) for name in dir(thing)} | {"answering_seconds"}
    explained = {key for row in ROWS for key in re.findall(r"`(\w+)`", row[3])}
    assert set(written) <= own | explained
    assert set(written["certificate"]) <= set(dir(fit.certificate))


def test_what_the_glossary_names_is_there():
    for word, python, command, *_ in ROWS:
        for option in re.findall(r"`(--[\w-]+)`", command):
            assert option in OPTIONS, f"{word}: no command has {option}"
        for name in re.findall(r"`(\w+)`", python):
            known = name in NAMES or hasattr(gradine, name) or name in ("n_heads", "FIGURES")
            known |= name in ("random_state", "residual", "validation_error")
            assert known, f"{word}: nothing is called {name}"


def test_learners_speak_of_validation():
    """Held-out errors are the certificate's, on examples that no learner is shown."""
    home = Path(gradine.__file__).parent
    learners = [path for name in ("exact", "sculpt") for path in (home / name).rglob("*.py")]
    shown = [home / "progress" / "words.py", *(home / "report").glob("exact_*.py")]
    for path in (*learners, *shown):
        text = path.read_text(encoding="utf-8")
        found = re.search(r"held[- ]out (error|example)s?", text, re.IGNORECASE)
        assert found is None, f"{path.name} says {found[0]!r}; those of a learner are of validation"


def test_json_is_made_in_one_way():
    for path in Path(gradine.__file__).parent.rglob("*.py"):
        assert not re.search(r"def (as_json|to_json|as_dict)\(", path.read_text(encoding="utf-8"))
