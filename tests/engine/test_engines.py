"""Whoever runs the blocks: the same bits, in order, bounded, and nothing is lost to a fault."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import CancelledError, Future

import numpy as np
import pytest

from gradine.engine import (
    FailedBlockError,
    LostSchedulerError,
    LostWorkerError,
    Pool,
    open_engine,
    reduce_blocks,
    run_all,
)
from gradine.engine import choice as rule
from gradine.engine.crew import IN_FLIGHT
from gradine.examples import ArrayExamples, FolderExamples

from .kernels import Fails, FailsOnce, Slow, add, rows, threads, total


def noise(n, seed=0):
    rng = np.random.default_rng(seed)
    return ArrayExamples(rng.standard_normal((n, 3, 7)), rng.standard_normal((n, 3, 5)))


def test_every_engine_gives_the_same_bits(engine, tmp_path):
    data = noise(5000)
    expected = reduce_blocks(data, total, add, block_size=300)
    found = reduce_blocks(data, total, add, block_size=300, engine=engine)
    assert [part.tobytes() for part in found] == [part.tobytes() for part in expected]
    np.save(tmp_path / "X.npy", data.block(0, data.n)[0])
    np.save(tmp_path / "Y.npy", data.block(0, data.n)[1])
    stored = FolderExamples(tmp_path)
    found = reduce_blocks(stored, total, add, block_size=300, engine=engine)
    assert [part.tobytes() for part in found] == [part.tobytes() for part in expected]


def test_blocks_are_merged_in_order_whatever_arrives_first(engine, numbered):
    seen = []
    merged = reduce_blocks(
        numbered(200),
        Slow(0, 0.3),
        lambda a, b: a + b,
        block_size=10,
        engine=engine,
        on_block=lambda count, _: seen.append(count),
    )
    assert merged == list(range(200)) and seen == list(range(10, 201, 10))


def test_nobody_runs_far_ahead(engines, numbered, monkeypatch):
    pool = engines("two")
    sent, due = [], []
    submit = pool.submit
    monkeypatch.setattr(pool, "submit", lambda *a: sent.append(len(due)) or submit(*a))
    reduce_blocks(
        numbered(400),
        Slow(0, 0.5),
        lambda a, b: a + b,
        block_size=10,
        engine=pool,
        on_block=lambda *_: due.append(None),
    )
    assert len(sent) == len(due) == 40
    assert max(place - merged for place, merged in enumerate(sent)) < IN_FLIGHT * 2


def test_workers_have_one_thread(crew):
    assert dict(run_all(threads, [0, 1, 2], crew)) == {0: {1}, 1: {1}, 2: {1}}


def test_all_tasks_are_done_once(engine):
    assert sorted(run_all(abs, [-3, 4, -5], engine)) == [(0, 3), (1, 4), (2, 5)]
    assert list(run_all(abs, [], engine)) == []


def test_errors_of_a_task_come_through(engine):
    with pytest.raises(TypeError):
        list(run_all(len, [3, 4], engine))
    assert sorted(run_all(abs, [-3], engine)) == [(0, 3)]


def test_a_block_that_fails_once_is_run_again(engine, numbered, tmp_path):
    kernel = FailsOnce(20, tmp_path)
    merged = reduce_blocks(numbered(60), kernel, lambda a, b: a + b, block_size=10, engine=engine)
    assert merged == list(range(60))
    begun = {path.stem: len(path.read_text()) for path in tmp_path.glob("*.begun")}
    assert begun == {"0": 1, "10": 1, "20": 2, "30": 1, "40": 1, "50": 1}


def test_a_block_that_fails_twice_is_named(engine, numbered):
    with pytest.raises(FailedBlockError, match=r"examples 20:30 failed 2 times: example 20 is bad"):
        reduce_blocks(numbered(60), Fails(20, "other"), add, block_size=10, engine=engine)


def test_examples_that_make_no_sense_are_not_tried_again(engine, numbered):
    with pytest.raises(ValueError, match=r"^example 20 is bad"):
        reduce_blocks(
            numbered(60), Fails(20, "value"), lambda a, b: a + b, block_size=10, engine=engine
        )


def test_a_worker_that_is_killed_costs_its_blocks_alone(crew, numbered, tmp_path):
    kernel = FailsOnce(30, tmp_path, "kill")
    merged = reduce_blocks(numbered(80), kernel, lambda a, b: a + b, block_size=10, engine=crew)
    assert merged == list(range(80))
    again = [path.stem for path in tmp_path.glob("*.begun") if len(path.read_text()) > 1]
    assert "30" in again and len(again) <= IN_FLIGHT * crew.workers


def test_what_kills_every_worker_is_named(engines, numbered):
    with pytest.raises(LostWorkerError, match=r"ended from outside 4 times during examples \d+:"):
        reduce_blocks(
            numbered(30),
            Fails(10, "kill"),
            lambda a, b: a + b,
            block_size=10,
            engine=engines("one"),
        )


def test_workers_killed_from_outside(numbered):
    """At any moment, several times."""
    others = set(multiprocessing.active_children())
    with Pool(2) as pool:

        def kill():
            for _ in range(3):
                time.sleep(0.7)
                for pid in pool.processes[:1]:
                    os.kill(pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        kernel = Slow(50, 2.5)
        merged = reduce_blocks(numbered(120), kernel, lambda a, b: a + b, block_size=1, engine=pool)
        killer.join()
    assert merged == list(range(120)) and pool.generation > 0
    assert set(multiprocessing.active_children()) <= others


def test_a_scheduler_that_goes_away_is_said(numbered):
    pytest.importorskip("distributed")
    from distributed import LocalCluster

    cluster = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None)
    with open_engine("dask", scheduler=cluster.scheduler_address) as engine:
        assert reduce_blocks(numbered(9), rows, lambda a, b: a + b, block_size=3, engine=engine)

        def go_away(seen, _):
            if seen == 2:
                cluster.close()

        with pytest.raises(LostSchedulerError, match=r"the Dask scheduler at tcp://\S+ went away"):
            reduce_blocks(
                numbered(60),
                Slow(30, 1.0),
                lambda a, b: a + b,
                block_size=1,
                engine=engine,
                on_block=go_away,
            )


def test_a_connection_that_breaks_during_an_answer_is_no_error_of_the_examples():
    """What Dask's executor makes of it: a task that is cancelled between two of its lines."""
    pytest.importorskip("distributed")
    from distributed.cfexecutor import _cascade_future

    class Broken:
        status = "lost"

        async def _result(self, raiseit):
            return (ConnectionError("gone"),)

    async def cascade(future):
        await _cascade_future(Broken(), future)

    future = Future()
    asyncio.run(cascade(future))
    with open_engine("dask", workers=1) as engine:
        assert engine.is_loss(future.exception())
        assert engine.is_loss(CancelledError())
        assert not engine.is_loss(ValueError("X has 3 columns; expected 4"))


def test_workers_of_a_local_cluster_keep_their_memory(engines):
    dask = engines("dask")
    assert next(dask.run(os.getenv, [("MALLOC_TRIM_THRESHOLD_",)]))[1] is None


def test_after_the_time_no_block_is_begun_but_the_first(engine, numbered):
    merged = reduce_blocks(
        numbered(90),
        rows,
        lambda a, b: a + b,
        block_size=1,
        engine=engine,
        until=time.monotonic() - 1.0,
    )
    assert merged == list(range(len(merged))) and 1 <= len(merged) <= IN_FLIGHT * engine.workers


def test_some_examples_only(engine, numbered):
    merged = reduce_blocks(
        numbered(90), rows, lambda a, b: a + b, block_size=7, engine=engine, between=(10, 40)
    )
    assert merged == list(range(10, 40))


def test_auto_starts_workers_only_where_it_is_worth_it(numbered, monkeypatch):
    others = set(multiprocessing.active_children())
    with open_engine("auto", workers=2) as engine:
        merged = reduce_blocks(numbered(50), rows, lambda a, b: a + b, block_size=5, engine=engine)
        assert merged == list(range(50)) and not engine._pool.started
        monkeypatch.setattr(rule, "WORTH_STARTING", 0.0)
        merged = reduce_blocks(numbered(50), rows, lambda a, b: a + b, block_size=5, engine=engine)
        assert merged == list(range(50)) and engine._pool.started
    assert set(multiprocessing.active_children()) <= others


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("engine is 'gpu'; expected one of auto", ("gpu",)),
        ("workers is 0", ("pool", 0)),
        ("workers is 1.5", ("pool", 1.5)),
        ("workers is 100000; expected at most .* for each core", ("pool", 100_000)),
        ("workers is 100000; expected at most .* for each core", ("auto", 100_000)),
        ("workers is 100000; expected at most .* for each core", ("dask", 100_000)),
        ("workers is 2; expected 1 with engine 'serial'", ("serial", 2)),
        ("scheduler is for engine 'dask'", ("pool", None, "tcp://here:1")),
        ("workers is 3; leave it out", ("dask", 3, "tcp://here:1")),
    ],
)
def test_engines_that_make_no_sense(message, arguments):
    with pytest.raises(ValueError, match=message):
        open_engine(*arguments)


def test_a_scheduler_that_is_not_there(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("gradine.engine.cluster.CONNECTING", 0.5)
    with pytest.raises(LostSchedulerError, match=r"scheduler is 'tcp://127\.0\.0\.1:9'; expected"):
        open_engine("dask", scheduler="tcp://127.0.0.1:9")
