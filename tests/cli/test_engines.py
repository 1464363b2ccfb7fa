"""Engines and budgets from the command line."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest

from gradine import AttentionLayer
from gradine.engine import bookmark
from gradine.lock import only_run

from .conftest import environment


@pytest.mark.parametrize("engine", ["serial", "pool", "dask"])
def test_every_engine_comes_to_the_same_layer(cli, told, tmp_path, engine):
    if engine == "dask":
        pytest.importorskip("distributed")
    words = ["--engine", engine] + (["--workers", 2] if engine != "serial" else [])
    answer = cli("learn", told.data, "--out", tmp_path / "run", "--no-report", *words)
    assert answer.code == 0
    assert ("Dask dashboard: http" in answer.err) == (engine == "dask")
    found, expected = (
        AttentionLayer.load(folder / "layer.safetensors") for folder in (tmp_path / "run", told.run)
    )
    assert found.theta.tobytes() == expected.theta.tobytes()


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("workers is 0", ("--engine", "pool", "--workers", 0)),
        ("scheduler is for engine 'dask'", ("--scheduler", "tcp://here:1")),
        ("time_budget is -1.0", ("--time-budget", -1)),
    ],
)
def test_engines_that_make_no_sense(cli, told, tmp_path, message, words):
    answer = cli("learn", told.data, "--out", tmp_path / "run", *words)
    assert answer.code == 2 and message in answer.error_line
    assert not (tmp_path / "run").exists()


def test_a_budget_of_examples(cli, told, tmp_path):
    budget = ("--examples-budget", 3000)
    answer = cli("learn", told.data, "--out", tmp_path / "run", "--no-report", "--json", *budget)
    assert answer.code == 0 and answer.json["examples_used"] == 3000
    assert answer.json["config"]["examples_budget"] == 3000
    answer = cli("learn", told.data, "--out", tmp_path / "run", "--resume")
    assert answer.code == 2 and "belongs to other data or other settings" in answer.error_line


def test_a_folder_in_use_is_refused(told, tmp_path):
    command = [sys.executable, "-m", "gradine", "learn", str(told.data), "--resume"]
    with only_run(tmp_path):
        done = subprocess.run(
            [*command, "--out", str(tmp_path)], capture_output=True, text=True, env=environment()
        )
    assert done.returncode == 2 and "is at work in it" in done.stderr
    assert done.stderr.count("\n") == 1 and list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_line_and_the_run_goes_on_later(cli, told, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(bookmark, "SHORT", 0.0)
        patch.setattr("gradine.files._flush_to_disk", full)
        answer = cli("learn", told.data, "--out", out)
    assert answer.code == 2
    assert answer.error_line.endswith("No space left on device; continue with --resume")
    assert cli("learn", told.data, "--out", out, "--resume", "--no-report").code == 0
