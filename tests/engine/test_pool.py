"""Work side by side: all of it is done, errors come through, and nobody is left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import gradine
from gradine.engine import LostWorkerError, one_thread, run_all, usable_cores

SOURCE = str(Path(gradine.__file__).parent.parent)


@pytest.mark.parametrize("workers", [1, 2])
def test_everything_is_done_once(workers):
    assert sorted(run_all(abs, [-3, 4, -5], workers)) == [(0, 3), (1, 4), (2, 5)]
    assert list(run_all(abs, [], workers)) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_comes_through(workers):
    with pytest.raises(TypeError):
        list(run_all(len, [3, 4], workers))
    assert not multiprocessing.active_children()


def test_a_worker_that_is_killed_is_said():
    with pytest.raises(LostWorkerError, match="ended from outside"):
        list(run_all(os._exit, [1, 1], 2))
    assert not multiprocessing.active_children()


def test_leaving_early_ends_the_workers():
    began = time.perf_counter()
    for _ in run_all(time.sleep, [0.01, 60.0, 60.0], 2):
        break
    assert not multiprocessing.active_children() and time.perf_counter() - began < 50.0


def test_workers_end_with_a_killed_parent(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(
        "import multiprocessing, time\n"
        "from gradine.engine import run_all\n"
        "if __name__ == '__main__':\n"
        "    for _ in run_all(time.sleep, [0.01, 60.0, 60.0], 2):\n"
        "        print(*[c.pid for c in multiprocessing.active_children()], flush=True)\n"
    )
    environment = os.environ | {"PYTHONPATH": SOURCE}
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as parent:
        assert parent.stdout is not None
        children = [int(pid) for pid in parent.stdout.readline().split()]
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    until = time.monotonic() + 20.0
    while any(_lives(pid) for pid in children) and time.monotonic() < until:
        time.sleep(0.1)
    assert len(children) == 2 and not any(_lives(pid) for pid in children)


def _lives(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_one_thread_is_for_the_body_alone():
    from threadpoolctl import threadpool_info

    def threads():
        return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}

    np.ones((2, 2)) @ np.ones((2, 2))
    with one_thread():
        assert threads() == {1}
        inside = threads()
    assert inside == {1}


def test_torch_gets_its_threads_back():
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    with one_thread(torch=True):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def test_there_is_a_core():
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


@pytest.mark.parametrize("workers", [0, -1, 1.5])
def test_workers_are_counted(workers):
    with pytest.raises(ValueError, match="workers is"):
        list(run_all(abs, [1], workers))
