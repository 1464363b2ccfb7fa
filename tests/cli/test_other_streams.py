"""What a command does where standard error leads nowhere, and with functions that print or exit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gradine
from gradine.cli import main

PRINTS = """
import gradine
LAYER = gradine.AttentionLayer.load({path!r})

def answer(X):
    print("hello")
    return LAYER(X)
"""


@pytest.fixture
def data(tmp_path):
    layer = gradine.plant(heads=1, dim=4, scale=2.0, seed=1)
    layer.save(tmp_path / "layer.safetensors")
    words = ["sample", tmp_path / "layer.safetensors", "--examples", 900, "--seq-len", 3]
    assert main([str(word) for word in (*words, "--out", tmp_path / "data.npz")]) == 0
    return tmp_path / "data.npz"


def command(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "gradine", *map(str, arguments)], timeout=120, **options
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_progress_that_cannot_be_written_ends_no_run(data, tmp_path):
    with open("/dev/full", "w") as full:
        ended = command("learn", data, "--out", tmp_path / "run", stdout=-1, stderr=full)
    assert ended.returncode == 0 and b"learned 1 head" in ended.stdout
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize("how", ["learn", "pool", "query"])
def test_what_a_function_prints_is_not_in_the_json(data, tmp_path, how):
    path = str(tmp_path / "layer.safetensors")
    (tmp_path / "printing.py").write_text(PRINTS.format(path=path))
    words = ["--oracle", "printing:answer", "--dim", "4", "--out", "run", "--json"]
    words = ["query", *words] if how == "query" else ["learn", "--examples", "900", *words]
    words += [] if how == "query" else ["--seq-len", "3"]
    words += ["--engine", "pool", "--workers", "1"] if how == "pool" else []
    ended = command(*words, cwd=tmp_path, capture_output=True)
    assert json.loads(ended.stdout)["status"] == "learned"
    assert b"hello" in ended.stderr


@pytest.mark.parametrize("code", [0, 3])
def test_a_module_that_exits_is_bad_input(tmp_path, monkeypatch, capsys, code):
    name = f"exits_with_{code}"
    (tmp_path / f"{name}.py").write_text(f"import sys\nsys.exit({code})\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["query", "--oracle", f"{name}:f", "--dim", "4", "--out", "run"]) == 2
    assert f"it called sys.exit({code})" in capsys.readouterr().err
    assert not Path("run").exists()


def test_the_run_of_another_command_is_not_continued(data, tmp_path, capsys):
    layer, learned, asked = (str(tmp_path / name) for name in ("layer.safetensors", "a", "b"))
    assert main(["learn", str(data), "--out", learned, "--no-report"]) == 0
    query = ["query", "--oracle", layer, "--dim", "4", "--no-report", "--out"]
    assert main([*query, asked]) == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main([*query, learned, "--resume"]) == 2
    assert "holds a run of gradine learn" in capsys.readouterr().err
    assert main(["learn", str(data), "--out", asked, "--resume"]) == 2
    assert "holds a run of gradine query" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert main([*query, learned, "--overwrite"]) == 0


def test_names_that_are_no_utf_8_are_shown_as_they_can_be(data, tmp_path):
    odd = os.fsencode(tmp_path) + b"/bad\xff.npz"
    os.link(data, odd)
    ended = command("learn", os.fsdecode(odd), "--out", tmp_path / "run", capture_output=True)
    assert ended.returncode == 0, ended.stderr
    assert json.loads((tmp_path / "run" / "result.json").read_text())["data"] == r"bad\xff.npz"
    assert r"bad\xff.npz" in (tmp_path / "run" / "report.html").read_text()


def test_a_shells_setting_for_pictures_costs_no_report(data, tmp_path):
    surroundings = {**os.environ, "MPLBACKEND": "bogus"}
    ended = command("learn", data, "--out", tmp_path / "run", env=surroundings)
    assert ended.returncode == 0 and (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_asked_to_end_does_so_like_one_that_is_interrupted(tmp_path, number):
    gradine.plant(heads=2, dim=8, scale=2.0, seed=1).save(tmp_path / "layer.safetensors")
    words = ["learn", "--oracle", tmp_path / "layer.safetensors", "--examples", "50000000"]
    words += ["--seq-len", "3", "--out", tmp_path / "run"]
    run = subprocess.Popen([sys.executable, "-m", "gradine", *map(str, words)], stderr=-1)
    while not (tmp_path / "run").exists():
        time.sleep(0.05)
    time.sleep(0.2)
    run.send_signal(number)
    said = run.communicate(timeout=60)[1]
    # What a shell calls it: stopped within a piece of compiled text (an import makes some), Python
    # itself ends by the signal of Ctrl-C.
    code = run.returncode if run.returncode >= 0 else 128 - run.returncode
    assert code == 130 and said == b"gradine: stopped; continue with --resume\n"
