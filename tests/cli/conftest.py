"""One small planted layer with its examples and its run, shared by the tests of all commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradine
from gradine.cli import main

SOURCE = Path(gradine.__file__).parent.parent


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Standard output as the one JSON object it must be."""
        return json.loads(self.out, parse_constant=pytest.fail)

    @property
    def error_line(self) -> str:
        """Standard error as the one line it must be."""
        assert self.err.startswith("gradine: ") and self.err.endswith("\n"), self.err
        assert self.err.count("\n") == 1, self.err
        return self.err.strip()


Cli = Callable[..., Answer]


@pytest.fixture
def cli(capsys) -> Cli:
    """Run a command in this process."""

    def run(*arguments: object) -> Answer:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return Answer(code, *capsys.readouterr())

    return run


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(SOURCE)}


@pytest.fixture
def real_cli() -> Cli:
    """Run a command as a user does, in a process of its own."""

    def run(*arguments: object) -> Answer:
        command = [sys.executable, "-m", "gradine", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment())
        return Answer(done.returncode, done.stdout, done.stderr)

    return run


@dataclass(frozen=True)
class Story:
    """Files of one small story from planting to learning."""

    truth: Path
    data: Path
    run: Path

    @property
    def records(self) -> list[str]:
        """Names of the run's records, in the order of its phases."""
        return sorted(path.name for path in (self.run / "phases").iterdir())


@pytest.fixture(scope="session")
def told(tmp_path_factory) -> Story:
    """A story to look at; tests must not change its files."""
    folder = tmp_path_factory.mktemp("story")
    story = Story(folder / "truth.safetensors", folder / "data.npz", folder / "run")
    assert main(f"plant --heads 1 --dim 6 --scale 3 --seed 1 --out {story.truth}".split()) == 0
    sample = f"sample {story.truth} --examples 8000 --seq-len 3 --seed 2 --out {story.data}"
    assert main(sample.split()) == 0
    learn = f"learn {story.data} --truth {story.truth} --out {story.run}"
    assert main(learn.split()) == 0
    return story


@pytest.fixture
def arrays(told) -> dict[str, np.ndarray]:
    with np.load(told.data) as data:
        return {name: data[name].copy() for name in ("X", "Y")}
