"""Oracles that fail: asked again with patience, given up with a status, no answer lost."""

from __future__ import annotations

import numpy as np
import pytest

from gradine.queries import AnswerLog, OracleConfig, OracleFailed, as_oracle
from gradine.status import Status
from tests.queries.conftest import Flaky, answers


def test_failures_are_tried_again_after_longer_and_longer_waits(layer, questions, naps):
    source = Flaky(layer, TimeoutError("slow"), TimeoutError("slow"), RuntimeError("busy"))
    config = OracleConfig(retries=3, wait=0.5, longest_wait=1.5)
    oracle = as_oracle(source, dim=5, config=config, sleep=naps.append)
    np.testing.assert_array_equal(oracle.ask(questions), answers(layer, questions))
    assert naps == [0.5, 1.0, 1.5]
    assert oracle.usage.failures == 3 and oracle.queries_used == 40 and oracle.rows_used == 30


def test_an_oracle_that_keeps_failing_is_given_up(layer, questions, naps):
    source = Flaky(layer, *[TimeoutError("timed\n out")] * 3)
    config = OracleConfig(retries=2, name="service")
    oracle = as_oracle(source, dim=5, config=config, sleep=naps.append)
    with pytest.raises(OracleFailed) as stopped:
        oracle.ask(questions)
    assert stopped.value.status is Status.ORACLE_FAILED
    assert stopped.value.detail == "service: TimeoutError: timed out"
    assert isinstance(stopped.value.__cause__, TimeoutError)
    assert len(source.calls) == 3 and naps == [1.0, 2.0]
    np.testing.assert_array_equal(
        oracle.ask(questions), answers(layer, questions)
    )  # it is up again


def test_only_answers_that_are_not_finite_are_asked_again(layer, questions, naps):
    source = Flaky(layer, "nan", "nan")
    oracle = as_oracle(source, dim=5, sleep=naps.append)
    np.testing.assert_array_equal(oracle.ask(questions), answers(layer, questions))
    assert source.calls == [10, 1, 1]
    np.testing.assert_array_equal(source.asked[2][0], questions[0])
    assert naps == [1.0, 1.0]  # the first call brought nine answers: no reason to wait longer


def test_answers_that_are_never_finite(layer, questions, naps):
    def source(X):
        return np.where(X[:, :1, :1] == questions[7, 0, 0], np.inf, answers(layer, X))

    oracle = as_oracle(source, dim=5, config=OracleConfig(retries=1, name="box"), sleep=naps.append)
    with pytest.raises(OracleFailed, match=r"^box: 1 of 1 answers are not finite$"):
        oracle.ask(questions)
    assert oracle.queries_used == 12 and oracle.rows_used == 27


def test_progress_renews_patience(layer, questions, naps):
    """One at a time over a bad line: more failures in a batch than retries in a row."""
    line = Flaky(layer, *[None, OSError(), OSError()] * 5)

    def source(x):
        return line(x[None])[0]

    config = OracleConfig(retries=2, one_at_a_time=True)
    oracle = as_oracle(source, dim=5, config=config, sleep=naps.append)
    np.testing.assert_array_equal(oracle.ask(questions), answers(layer, questions))
    assert oracle.usage.failures == 10 and oracle.queries_used == 20
    assert naps == [1.0, 1.0] * 5


def test_answers_before_a_failure_are_kept(layer, questions, tmp_path, naps):
    """The failed batch has nine of its ten answers: a resumed run asks for one."""

    def broken(X):
        Y = answers(layer, X)
        Y[(X[:, 0, 0] == questions[3, 0, 0])] = np.nan
        return Y

    config = OracleConfig(retries=0, name="service")
    oracle = as_oracle(broken, dim=5, config=config, log=AnswerLog(tmp_path))
    with pytest.raises(OracleFailed):
        oracle.ask(questions)
    source = Flaky(layer)
    log = AnswerLog(tmp_path, resume=True)
    oracle = as_oracle(source, dim=5, config=config, log=log)
    np.testing.assert_array_equal(oracle.ask(questions), answers(layer, questions))
    assert source.calls == [1]
    # Ten were sent, one of them once more in vain, and now once more.
    assert oracle.usage.queries_recalled == 11 and oracle.queries_used == 12
    assert oracle.rows_used == 30 and oracle.usage.failures == 2
    source = Flaky(layer)
    again = as_oracle(source, dim=5, config=config, log=AnswerLog(tmp_path, resume=True))
    np.testing.assert_array_equal(again.ask(questions), answers(layer, questions))
    assert source.calls == [] and again.queries_used == 12


@pytest.mark.parametrize("one_at_a_time", [False, True])
def test_an_interrupt_is_not_retried_and_loses_nothing(
    layer, questions, tmp_path, naps, one_at_a_time
):
    line = Flaky(layer, None, None, KeyboardInterrupt())

    def source(X):
        return line(X[None])[0] if one_at_a_time else line(X)

    config = OracleConfig(batch_size=4, one_at_a_time=one_at_a_time)
    oracle = as_oracle(source, dim=5, config=config, log=AnswerLog(tmp_path), sleep=naps.append)
    with pytest.raises(KeyboardInterrupt):
        oracle.ask(questions)
    assert naps == [] and len(line.calls) == 3
    oracle = as_oracle(source, dim=5, config=config, log=AnswerLog(tmp_path, resume=True))
    np.testing.assert_array_equal(oracle.ask(questions), answers(layer, questions))
    asked = sum(line.calls[3:])
    assert asked == (8 if one_at_a_time else 2)


def test_answers_one_at_a_time_are_written_now_and_then(layer, questions, tmp_path, monkeypatch):
    from gradine.queries.asking import courier

    monkeypatch.setattr(courier, "SAVE_EVERY", -1.0)
    written = []

    def source(x):
        written.append(sorted(path.name for path in tmp_path.iterdir()))
        return layer(x)

    config = OracleConfig(batch_size=3, one_at_a_time=True)
    as_oracle(source, dim=5, config=config, log=AnswerLog(tmp_path)).ask(questions[:5])
    one, two = "000001.safetensors", "000002.safetensors"
    assert written == [[], [one], [one], [one], [one, two]]
