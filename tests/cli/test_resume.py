"""A run that was stopped goes on where it was, and ends as if it had never been stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from gradine import AttentionLayer
from gradine.progress import PhaseDisplay

from .conftest import environment


def phase_of(record: str) -> str:
    return record[3:].removesuffix(".safetensors")


@pytest.fixture
def stopped(cli, told, tmp_path, monkeypatch):
    """The folder of a run that was stopped by Ctrl-C after its third phase."""
    ended, third = PhaseDisplay.phase_ended, phase_of(told.records[2])

    def stop_after_third(self, name, figures, recalled):
        ended(self, name, figures, recalled)
        if name == third:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(PhaseDisplay, "phase_ended", stop_after_third)
        answer = cli("learn", told.data, "--out", tmp_path / "run")
    assert answer.code == 130 and answer.out == ""
    assert answer.err.endswith("gradine: stopped; continue with --resume\n")
    return tmp_path / "run"


def records(folder):
    return {path.name: path.stat().st_mtime_ns for path in (folder / "phases").iterdir()}


def test_resume_gives_the_bytes_of_an_unbroken_run(cli, told, stopped):
    done = records(stopped)
    assert sorted(done) == told.records[:3]
    assert not (stopped / "result.json").exists()
    answer = cli("learn", told.data, "--out", stopped, "--resume")
    assert answer.code == 0
    recalled = [line.split()[0] for line in answer.err.splitlines() if "recalled" in line]
    assert recalled == [phase_of(record) for record in told.records[:3]]
    assert {name: records(stopped)[name] for name in done} == done
    resumed, unbroken = (
        AttentionLayer.load(folder / "layer.safetensors") for folder in (stopped, told.run)
    )
    assert resumed.theta.tobytes() == unbroken.theta.tobytes()
    assert resumed.w.tobytes() == unbroken.w.tobytes()


def test_a_stopped_run_is_not_lost_to_a_new_one(cli, told, stopped):
    answer = cli("learn", told.data, "--out", stopped)
    assert answer.code == 2 and "--resume" in answer.error_line
    assert len(records(stopped)) == 3


def test_resume_refuses_other_settings_and_other_data(cli, told, stopped, tmp_path):
    before = records(stopped)
    other = tmp_path / "other.npz"
    cli("sample", told.truth, "--examples", 8000, "--seq-len", 3, "--seed", 5, "--out", other)
    shuffled = tmp_path / "shuffled.npz"  # the same tokens and the same outputs, not in their order
    with np.load(told.data) as arrays:
        np.savez(shuffled, X=arrays["X"][::-1], Y=arrays["Y"])
    others = ((told.data, ("--seed", 1)), (told.data, ("--heads", 1)), (other, ()), (shuffled, ()))
    for data, options in others:
        answer = cli("learn", data, "--out", stopped, "--resume", *options)
        assert answer.code == 2
        assert f"{told.records[0]}: belongs to other data" in answer.error_line
        assert records(stopped) == before


def test_resume_refuses_a_damaged_record(cli, told, stopped):
    record = stopped / "phases" / told.records[1]
    record.write_bytes(record.read_bytes()[:100])
    answer = cli("learn", told.data, "--out", stopped, "--resume")
    assert answer.code == 2 and f"{record}: damaged" in answer.err.splitlines()[-1]


def test_resume_refused_leaves_a_finished_run_whole(cli, told):
    before = sorted(told.run.rglob("*"))
    assert cli("learn", told.data, "--out", told.run, "--resume", "--seed", 1).code == 2
    assert sorted(told.run.rglob("*")) == before


def test_resume_where_there_is_nothing_just_runs(cli, told, tmp_path):
    answer = cli("learn", told.data, "--out", tmp_path / "run", "--resume", "--no-report")
    assert answer.code == 0 and "recalled" not in answer.err


#: The command line, with a pause after the first phase: the signal must find it at work.
PAUSED = """
import sys, time
from gradine.cli import main
from gradine.progress import PhaseDisplay
went_on = PhaseDisplay.phase_ended
def pause(display, name, figures, recalled):
    went_on(display, name, figures, recalled)
    time.sleep(0 if name == "survey" else 60)
PhaseDisplay.phase_ended = pause
sys.exit(main(sys.argv[1:]))
"""


def test_ctrl_c_in_a_process(told, tmp_path):
    out = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "-c", PAUSED, "learn", str(told.data), "--out", str(out), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    first = out / "phases" / told.records[0]
    while not first.exists() and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130 and stdout == ""
    assert stderr.endswith("gradine: stopped; continue with --resume\n")
    assert "Traceback" not in stderr
    assert first.exists() and not (out / "result.json").exists()
