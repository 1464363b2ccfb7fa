"""Two runs in one folder: the second is refused; one that was killed is in nobody's way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import gradine
from gradine.lock import LOCK, only_run

HOLD = """
import sys, time
from gradine.lock import only_run
with only_run(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def other(tmp_path):
    """Another process that holds the folder."""
    environment = os.environ | {"PYTHONPATH": str(Path(gradine.__file__).parent.parent)}
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_the_second_run_is_refused_until_the_first_is_gone(tmp_path, other):
    message = rf"another run \(process {other.pid}\) is at work in it"
    with pytest.raises(ValueError, match=message), only_run(tmp_path):
        pass
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert (tmp_path / LOCK).exists()
    with only_run(tmp_path):
        assert (tmp_path / LOCK).read_text() == f"{os.getpid()}\n"
    assert not (tmp_path / LOCK).exists()


def test_within_a_thread_it_can_be_held_twice(tmp_path):
    refused = []

    def try_it():
        try:
            with only_run(tmp_path):
                pass
        except ValueError as error:
            refused.append(error)

    with only_run(tmp_path):
        with only_run(tmp_path):
            pass
        assert (tmp_path / LOCK).exists()
        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
    assert len(refused) == 1 and not (tmp_path / LOCK).exists()
