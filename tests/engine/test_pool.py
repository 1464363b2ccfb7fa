"""Work side by side in processes of this machine: nobody is left behind."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import gradine
from gradine.engine import LostWorkerError, Pool, one_thread, run_all, usable_cores

SOURCE = str(Path(gradine.__file__).parent.parent)


@pytest.fixture(autouse=True)
def nobody_is_left_behind():
    others = set(multiprocessing.active_children())
    yield
    assert set(multiprocessing.active_children()) <= others


def test_a_worker_that_is_killed_is_said():
    with pytest.raises(LostWorkerError, match="ended from outside"), Pool(2) as pool:
        list(run_all(os._exit, [1, 1], pool))


def test_leaving_early_ends_the_workers():
    began = time.perf_counter()
    with Pool(2) as pool:
        for _ in run_all(time.sleep, [0.01, 60.0, 60.0], pool):
            break
    assert time.perf_counter() - began < 50.0


def test_workers_end_with_a_killed_parent(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(
        "import multiprocessing, time\n"
        "from gradine.engine import Pool, run_all\n"
        "if __name__ == '__main__':\n"
        "    for _ in run_all(time.sleep, [0.01, 60.0, 60.0], Pool(2)):\n"
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


def test_what_cannot_be_sent_is_said():
    made = gradine.examples.GeneratedExamples(lambda X: X, 100, 3, dim=4)
    with Pool(1) as pool, pytest.raises(ValueError, match=r"cannot be sent to workers .*lambda"):
        next(iter(pool.blocks(made, len, [(0, 100)])))
    assert not pool.started


def _torn_once(mark):
    """The first time, a worker is killed with half of its answer sent."""
    if not os.path.exists(mark):
        Path(mark).touch()
        frame = inspect.currentframe()
        while "result_queue" not in frame.f_locals:
            frame = frame.f_back
        os.write(frame.f_locals["result_queue"]._writer.fileno(), struct.pack("!i", 999) + b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    return "whole"


def test_a_worker_killed_while_it_answers_is_lost_like_any_other(tmp_path):
    with Pool(2) as pool:
        tasks = [(str(tmp_path / "mark"),)] * 4
        assert [found for _, found in pool.run(_torn_once, tasks)] == ["whole"] * 4
        assert pool.generation == 1


def test_half_an_answer_does_not_keep_who_leaves(tmp_path):
    pool = Pool(1)
    pool.patience = None
    pool.submit(_torn_once, (str(tmp_path / "mark"),))
    deadline = time.monotonic() + 30.0
    while not (tmp_path / "mark").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.2)
    pool.abandon()
    assert not pool.started


def test_a_script_without_a_guard_is_told_so(tmp_path):
    """Each worker reads the script again, and would start workers of its own."""
    script = tmp_path / "unguarded.py"
    script.write_text(
        "from gradine.engine import Pool\nwith Pool(1) as pool:\n    list(pool.run(abs, [(1,)]))\n"
    )
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert ended.returncode != 0
    assert 'if __name__ == "__main__":' in ended.stderr and "bootstrapping" not in ended.stderr
    assert "a script without a guard" in ended.stderr.splitlines()[-1]
