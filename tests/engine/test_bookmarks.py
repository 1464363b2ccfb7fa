"""Passes that are stopped go on where they were, with the same bits; foreign ones are refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gradine
from gradine import plant, sample_inputs
from gradine.engine import Bookmarks, bookmark, one_thread, reduce_blocks
from gradine.engine.threads import SETTINGS
from gradine.examples import ArrayExamples, open_examples
from gradine.fit import LearnConfig
from gradine.learn import learn_examples
from gradine.records import RecordError

from .kernels import add, total

SOURCE = str(Path(gradine.__file__).parent.parent)


@pytest.fixture
def always(monkeypatch):
    """Every block is saved."""
    monkeypatch.setattr(bookmark, "SHORT", 0.0)
    monkeypatch.setattr(bookmark, "OVERHEAD", 1e9)


def noise(n=1000):
    rng = np.random.default_rng(0)
    return ArrayExamples(rng.standard_normal((n, 3, 7)), rng.standard_normal((n, 3, 5)))


def marks(folder, resume, key="key"):
    found = Bookmarks(folder, resume)
    found.begin("01_sculpt", key)
    return found


class StopError(Exception):
    pass


def stopped(data, folder, after, engine=None):
    def stop(seen, _):
        if seen > after:
            raise StopError

    with pytest.raises(StopError):
        reduce_blocks(
            data,
            total,
            add,
            block_size=50,
            bookmark=marks(folder, False).next(list),
            on_block=stop,
            engine=engine,
        )


def test_what_is_finished_is_not_done_again(always, engine, tmp_path):
    data = noise()
    expected = reduce_blocks(data, total, add, block_size=50)
    stopped(data, tmp_path, 400, engine)
    seen = []
    found = reduce_blocks(
        data,
        total,
        add,
        block_size=50,
        bookmark=marks(tmp_path, True).next(list),
        on_block=lambda count, _: seen.append(count),
        engine=engine,
    )
    assert seen == list(range(450, 1001, 50))
    assert [part.tobytes() for part in found] == [part.tobytes() for part in expected]
    # A pass that has ended is read back as a whole.
    again = reduce_blocks(
        data,
        lambda *_: pytest.fail("a block was run"),
        add,
        block_size=50,
        bookmark=marks(tmp_path, True).next(list),
    )
    assert [np.asarray(part).tobytes() for part in again] == [part.tobytes() for part in expected]


def test_without_resume_it_begins_anew(always, tmp_path):
    data, seen = noise(), []
    stopped(data, tmp_path, 400)
    mark = marks(tmp_path, False).next(list)
    reduce_blocks(
        data, total, add, block_size=50, bookmark=mark, on_block=lambda at, _: seen.append(at)
    )
    assert seen[0] == 50


def test_foreign_and_damaged_bookmarks_are_refused(always, tmp_path):
    stopped(noise(), tmp_path, 400)
    with pytest.raises(RecordError, match="belongs to other data or other settings"):
        marks(tmp_path, True, "other").next(list).load(4)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(RecordError, match="damaged"):
        marks(tmp_path, True).next(list).load(4)


def test_short_passes_leave_nothing(tmp_path):
    reduce_blocks(noise(), total, add, block_size=50, bookmark=marks(tmp_path, False).next(list))
    assert list(tmp_path.iterdir()) == []


def test_a_phase_that_has_ended_is_forgotten(always, tmp_path):
    found = marks(tmp_path, False)
    for _ in range(2):
        reduce_blocks(noise(), total, add, block_size=50, bookmark=found.next(list))
    (tmp_path / "other.safetensors").touch()
    assert len(list(tmp_path.iterdir())) == 3
    found.forget("01_sculpt")
    assert [path.name for path in tmp_path.iterdir()] == ["other.safetensors"]


#: A run that saves every block, and kills itself when so many are merged.
RUN = """
import os, signal, sys
from gradine.engine import bookmark, open_engine
from gradine.examples import open_examples
from gradine.fit import LearnConfig
from gradine.learn import learn_examples
from gradine.progress import Listener

bookmark.SHORT, bookmark.OVERHEAD = 0.0, 1e9
data, out, method, engine, log, most = sys.argv[1:]

class Killer(Listener):
    blocks = 0
    def examples_seen(self, seen):
        with open(log, "a") as file:
            file.write(f"{seen}\\n")
        self.blocks += 1
        if self.blocks == int(most):
            os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    with open_engine(engine, None if engine == "serial" else 2) as crew:
        fit = learn_examples(
            open_examples(data), 2, method, config=LearnConfig(block_size=2000),
            records=out, resume=True, engine=crew, listener=Killer(),
        )
    fit.layer.save(os.path.join(out, "layer.safetensors"))
"""


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    layer, X = plant(2, 8, 3.0, seed=0), sample_inputs(12_000, 3, 8, seed=5)
    np.savez(folder / "data.npz", X=X, Y=layer(X))
    (folder / "run.py").write_text(RUN)
    return folder


@pytest.mark.parametrize(("engine", "kills"), [("serial", [3, 5, 9]), ("pool", [9])])
def test_a_run_that_is_killed_again_and_again(planted, tmp_path, engine, kills):
    config = LearnConfig(block_size=2000)
    with one_thread():  # as in the runs; what is between two passes has other bits with more
        unbroken = learn_examples(open_examples(planted / "data.npz"), 2, "sculpt", config=config)
    assert unbroken.layer is not None
    log = tmp_path / "log"

    def run(most):
        arguments = [planted / "data.npz", tmp_path / "run", "sculpt", engine, log, most]
        command = [sys.executable, planted / "run.py", *arguments]
        environment = os.environ | {"PYTHONPATH": SOURCE} | dict.fromkeys(SETTINGS, "1")
        return subprocess.run([str(word) for word in command], env=environment).returncode

    assert [run(most) for most in kills] == [-signal.SIGKILL] * len(kills)
    assert run(10**9) == 0
    found = gradine.AttentionLayer.load(tmp_path / "run" / "layer.safetensors")
    assert found.theta.tobytes() == unbroken.layer.theta.tobytes()
    assert found.w.tobytes() == unbroken.layer.w.tobytes()
    # Six blocks a pass: the survey, phase 1, phase 2, ...; of each kill, one block was not saved.
    seen = [int(line) for line in log.read_text().split()]
    passes = len(seen) - len(kills)
    assert passes % 6 == 0 and seen.count(12_000) == passes // 6
    assert not list((tmp_path / "run" / "passes").glob("*sculpt-*"))
