"""`gradine map`: results and picture, a stop and what follows, and one line for what is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.conftest import environment

RUN = ("map", "--x", "scale:1,3", "--y", "ratio:0.2,6", "--learner", "exact", "--workers", "1")
RUN += ("--set", "heads=1", "--set", "dim=4", "--trials", "2")


def results(folder):
    """results.json without the seconds, which belong to the machine."""
    found = json.loads((folder / "results.json").read_text())
    for own in found["learners"].values():
        del own["seconds"]
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    from gradine.cli import main

    folder = tmp_path_factory.mktemp("whole")
    assert main([*RUN, "--out", str(folder)]) == 0
    return results(folder)


def test_results_and_pictures(cli, tmp_path, whole):
    answer = cli(*RUN, "--out", tmp_path, "--json")
    assert answer.code == 0 and len(answer.out.splitlines()) == 1
    written = json.loads((tmp_path / "results.json").read_text())
    assert answer.json == written | {"out": str(tmp_path)}
    assert results(tmp_path) == whole and whole["false_certificates"] == 0
    assert whole["learners"]["exact"]["success"] == [[0, 0], [1, 1]]
    assert (tmp_path / "map.png").stat().st_size > 1000
    picture = (tmp_path / "map.svg").read_text()
    assert "share of 2 trials" in picture and "examples / counting bound" in picture
    assert answer.err.startswith("8 trials\n") and "8/8" in answer.err and "left)" in answer.err
    again = cli(*RUN, "--out", tmp_path, "--json", "--resume")
    assert again.out == answer.out and again.err == ""


def test_a_map_of_too_many_points(cli, tmp_path):
    axes = ("--x", "scale:1:9:20000:lin", "--y", "noise:1:9:20000:lin", "--learner", "exact")
    answer = cli("map", *axes, "--out", tmp_path / "map")
    assert answer.code == 2 and "trials; expected at most 1,000,000" in answer.error_line
    answer = cli("map", *RUN[1:], "--x", "scale:1:9:400000000", "--out", tmp_path / "map")
    assert answer.code == 2 and "COUNT is '400000000'" in answer.error_line
    assert not (tmp_path / "map").exists()


def test_a_summary_for_people(cli, tmp_path):
    answer = cli(*RUN[:-4], "--set", "dim=4", "--quick", "--out", tmp_path)
    assert answer.code == 0 and "share of 2 trials that succeed; scale across" in answer.out
    lines = [line.split() for line in answer.out.splitlines()]
    assert ["exact", "1.0", "3.0"] in lines and ["ratio", "6.0", "1.00", "1.00"] in lines
    assert "false certificates: 0" in answer.out and "map.png" in answer.out


def test_ctrl_c_keeps_what_is_done_and_a_kill_too(cli, tmp_path, whole):
    command = [sys.executable, "-m", "gradine", *RUN, "--workers", "2", "--out", str(tmp_path)]
    for stop, code in ((signal.SIGINT, 130), (signal.SIGKILL, -9)):
        resume = ["--resume"] if (tmp_path / "trials.jsonl").exists() else []
        before = len(trials(tmp_path))
        with subprocess.Popen(
            [*command, *resume], stderr=subprocess.PIPE, text=True, env=environment()
        ) as run:
            assert run.stderr is not None
            while "/8" not in (line := run.stderr.readline()) and line:
                time.sleep(0.01)
            os.kill(run.pid, stop)
            said = run.stderr.read()
        assert run.returncode in (code, 0) and len(trials(tmp_path)) > before
        if run.returncode == 130:
            assert said.splitlines()[-1] == "gradine: stopped; continue with --resume"
            assert "Traceback" not in said
        if run.returncode == 0:  # it was done before the signal came
            break
    answer = cli(*RUN, "--out", tmp_path, "--resume")
    assert answer.code == 0 and results(tmp_path) == whole


def trials(folder):
    path = folder / "trials.jsonl"
    return path.read_text().splitlines() if path.exists() else []


def test_an_earlier_map_is_not_lost_unasked(cli, tmp_path):
    assert cli(*RUN, "--out", tmp_path).code == 0
    kept = trials(tmp_path)
    answer = cli(*RUN, "--out", tmp_path)
    assert answer.code == 2 and "--resume" in answer.error_line and trials(tmp_path) == kept
    answer = cli(*RUN, "--out", tmp_path, "--overwrite")
    assert answer.code == 0 and "1/8" in answer.err and len(trials(tmp_path)) == 8


@pytest.mark.parametrize("name", ["results.json", "map.png", "map.svg"])
def test_files_that_no_map_wrote_are_not_replaced_unasked(cli, tmp_path, name):
    (tmp_path / name).write_text("mine")
    for options in ((), ("--resume",)):
        answer = cli(*RUN, "--out", tmp_path, *options)
        assert answer.code == 2 and f"holds a {name} that no run wrote" in answer.error_line
    assert (tmp_path / name).read_text() == "mine" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (("--x", "width:1:2"), "parameter is 'width'"),
        (("--x", "ratio:1:2"), "both axes are ratio"),
        (("--y", "ratio:2:1"), "LO below HI"),
        (("--learner", "magic"), "learner is 'magic'"),
        (("--set", "dim"), "--set is 'dim'"),
        (("--set", "width=3"), "--set is 'width=3'"),
        (("--set", "rank=x"), "rank is 'x'"),
        (("--set", "scale=2"), "scale is set, but it is an axis"),
        (("--set", "t=2"), "but a parity (t) fixes it"),
        (("--trials", "0"), "trials is 0"),
        (("--workers", "0"), "workers is 0"),
        (("--tolerance", "2"), "tolerance is 2"),
        (("--steps", "0"), "--steps"),
        (("--resume", "--overwrite"), "both given"),
    ],
)
def test_bad_input_is_one_line(cli, tmp_path, changed, named):
    answer = cli(*RUN, "--out", tmp_path / "out", *changed)
    assert answer.code == 2 and named in answer.error_line and not answer.out
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written(cli, tmp_path):
    (tmp_path / "file").write_text("")
    answer = cli(*RUN, "--out", tmp_path / "file" / "out")
    assert answer.code == 2 and "cannot write" in answer.error_line


def test_a_learner_must_be_named(cli, tmp_path):
    answer = cli("map", "--x", "scale:1:2", "--y", "ratio:1:2", "--out", tmp_path)
    assert answer.code == 2 and "--learner" in answer.error_line
