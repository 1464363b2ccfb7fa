"""Command lines that make no sense, or only just."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import typer

from benchmarks.fuzz.corpus import Corpus
from benchmarks.fuzz.files import Case
from gradine import cli
from gradine.cli.story import Story

__all__ = ["COMMAND", "the_command"]

NUMBERS = ("-1", "0", "1", "2", "3", "4", "1.5", "1e3", "nan", "inf", "-inf", "1e999", "1_0", "")
BEYOND = (str(10**18), str(2**63), str(2**64 - 1), "9" * 5000, "-" + "9" * 30, "0x10", "٣", "1 2")
WORDS = ("", "-", "--", "x", "auto", "é", "\udcff", "a" * 10_000, "@x", "~", "../..", "\t", "%s{0}")
AXES = ("scale:1:8:4", "ratio:1", "heads:1,2", "dim:a:b", "scale:nan:1:3:log", "scale:-1:1:2:log")
OUTS = (
    "new",
    "new/deep/er",
    "x.npz",
    "x.zarr",
    "x.safetensors",
    "-",
    "é",
    "\udcff",
    "b" * 300,
    ".",
)
CHOICES = {
    "--method": ("auto", "exact", "sculpt", "fit", "closed", "scalar"),
    "--inputs": ("boolean", "gaussian"),
    "--rows": ("all", "last"),
    "--attention": ("softmax", "relu", "sigmoid", "polynomial"),
    "--memory": ("1", "1kB", "2GB", "-1", "1e9GB", "9" * 400),
}
#: Commands that would take long where nothing is wrong with them, and what keeps them from it.
LONG = {
    "demo": ["--examples", "0"],
    "doctor": ["--no-self-test"],
    "features": ["--figure", "x"],
    "map": ["--trials", "0"],
}
#: What a command reads, where it reads examples; others read layers.
EXAMPLES = ("learn", "check")


def the_command() -> Any:
    """What `gradine.cli.app` becomes at each call, made once."""
    return typer.main.get_command(cli.app)


def command(rng: Random, corpus: Corpus, folder: Path) -> Case:
    line = _line(rng, corpus, the_commands(), [])
    for _ in range(rng.choice((0, 0, 0, 0, 1, 2))):
        at = rng.randrange(len(line) + 1)
        if rng.random() < 0.5:
            line.insert(at, rng.choice((*WORDS, *NUMBERS, "--json", "--help", "--nonsense")))
        elif line:
            del line[min(at, len(line) - 1)]
    kept = _changed_when_asked(line, corpus)
    line = [
        "new" if line[at - 1] == "--out" and part in kept else part for at, part in enumerate(line)
    ]
    for name, ending in LONG.items():
        if name in line:
            line += ending
    return Case(command=line)


def _precious(corpus: Corpus) -> tuple[Path, ...]:
    """What is there already, and must be there afterwards."""
    return corpus.truth, corpus.data, corpus.data.parent / "run"


def _changed_when_asked(line: list[str], corpus: Corpus) -> list[str]:
    """What of it the command line asks to change, and so must not get."""
    if "--overwrite" in line or "--resume" in line:
        return [str(path) for path in _precious(corpus)]
    # To a folder that has no examples yet they are added.
    return [str(path) for path in _precious(corpus) if "sample" in line and path.is_dir()]


_made: list[Any] = []


def the_commands() -> Any:
    if not _made:
        _made.append(the_command())
    return _made[0]


@cache
def _loaded(name: str) -> Any:
    """With its options: in the list of all commands there are but their names."""
    return Story.loaded(name)


def _line(rng: Random, corpus: Corpus, group: Any, line: list[str]) -> list[str]:
    name = rng.choice([*group.commands, rng.choice(WORDS)])
    line = [*line, name]
    if name not in group.commands:
        return line
    found = _loaded(name) if group is the_commands() else group.commands[name]
    if hasattr(found, "commands"):
        return _line(rng, corpus, found, line)
    for parameter in found.params:
        needed = parameter.required and rng.random() < 0.97
        if parameter.param_type_name == "argument":
            if needed or rng.random() < 0.8:
                usual = corpus.data if name in EXAMPLES else corpus.truth
                line.append(str(usual) if rng.random() < 0.7 else _file(rng, corpus))
        elif (needed or rng.random() < 0.15) and parameter.opts[0] not in ("--help", "--scheduler"):
            line += _option(rng, corpus, parameter)
    return line


def _option(rng: Random, corpus: Corpus, option: Any) -> list[str]:
    name = option.opts[0]
    if getattr(option, "is_flag", False):
        return [rng.choice([*option.opts, *option.secondary_opts])]
    if rng.random() < 0.05:
        return [name]
    count = option.nargs if option.nargs > 0 else 1
    return [name, *(_value(rng, corpus, name) for _ in range(count))]


def _value(rng: Random, corpus: Corpus, name: str) -> str:
    if name == "--out":
        if rng.random() < 0.5:
            return "new"
        return rng.choice((*OUTS, *map(str, _precious(corpus))))
    if name in ("--truth", "--example", "--oracle"):
        return str(corpus.truth) if rng.random() < 0.6 else _file(rng, corpus)
    if name in ("--x", "--y"):
        return rng.choice((*AXES, *WORDS))
    if name == "--workers":
        return rng.choice(("0", "-1", "x", *BEYOND[3:]))
    if name == "--engine":
        return rng.choice(("auto", "serial", "x", ""))
    if name == "--trials":
        return rng.choice(("0", "-1", "x"))
    if name in CHOICES and rng.random() < 0.7:
        return rng.choice(CHOICES[name])
    if rng.random() < 0.75:
        return rng.choice(("1", "2", "3", "4"))
    if rng.random() < 0.8:
        return rng.choice((*NUMBERS, *BEYOND))
    return rng.choice(WORDS)


def _file(rng: Random, corpus: Corpus) -> str:
    known = (str(corpus.data), str(corpus.truth), str(corpus.data.parent / "run"))
    return rng.choice((*known, *known, "none.npz", "os:getcwd", "x:y", *WORDS))


COMMAND = {"command line": (76, command)}
