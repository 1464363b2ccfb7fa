"""The log of answers: what is in it is not asked again, and what is not ours is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gradine
from gradine import plant
from gradine.files import OutputError
from gradine.queries import AnswerLog, BudgetSpent, Noisy, OracleConfig, Rounded, as_oracle
from gradine.queries.asking.log import LoggedAnswers
from gradine.records import RecordError, fingerprint
from tests.queries.conftest import Flaky, answers

BATCHES = OracleConfig(batch_size=4, name="service")


def ask_all(source, folder, blocks, *, resume=False, config=BATCHES, **options):
    """The answers to some blocks of questions, by way of a log."""
    log = AnswerLog(folder, resume=resume, **options)
    oracle = as_oracle(source, dim=5, config=config, log=log)
    return oracle, [oracle.ask(block) for block in blocks]


@pytest.fixture
def blocks(questions, rng):
    """What a learner asks, block after block."""
    return [questions, rng.standard_normal((3, 2, 5)), questions[:4], questions[:4]]


def test_a_whole_run_is_recalled_without_a_question(layer, blocks, tmp_path):
    first, heard = ask_all(Flaky(layer), tmp_path / "answers", blocks)
    silent = Flaky(layer)
    second, recalled = ask_all(silent, tmp_path / "answers", blocks, resume=True)
    assert silent.calls == []
    for a, b in zip(heard, recalled, strict=True):
        assert a.tobytes() == b.tobytes()
    assert (second.queries_used, second.rows_used, second.out_dim) == (21, 60, 4)
    assert second.usage.queries_recalled == 21 and first.usage.queries_recalled == 0
    assert second.seconds == first.seconds  # what the answers took when they were given


@pytest.mark.parametrize("answered", range(7))
def test_a_run_goes_on_where_it_was_stopped(layer, blocks, tmp_path, answered):
    """Stopped after so many calls; the learner asks everything again, the oracle hears the rest."""
    source = Flaky(layer, *[None] * answered, KeyboardInterrupt())
    try:
        ask_all(source, tmp_path, blocks)
    except KeyboardInterrupt:
        source.asked.pop()
    oracle, recalled = ask_all(source, tmp_path, blocks, resume=True)
    for block, Y in zip(blocks, recalled, strict=True):
        np.testing.assert_array_equal(Y, answers(layer, block))
    assert source.calls == [4, 4, 2, 3, 4, 4]
    assert oracle.queries_used == 21


@pytest.mark.parametrize("known", [(1, 4), (2, 3), (None, 3), (3, None)])
def test_answers_of_another_shape_are_damaged(layer, questions, tmp_path, known):
    """Of two rows and four coordinates; a file may hold anything."""
    Y = answers(layer, questions)[:, :2]
    log = AnswerLog(tmp_path)
    log.begin("service")
    every = np.ones(len(Y), dtype=bool)
    log.keep(LoggedAnswers(fingerprint(questions), Y, every, len(Y), 0, seconds=0.1))
    resumed = AnswerLog(tmp_path, resume=True)
    resumed.begin("service")
    with pytest.raises(RecordError, match=r"000001\.safetensors: damaged .* another shape"):
        resumed.recall(questions, *known)
    recalled = resumed.recall(questions, 2, 4)
    assert recalled is not None and recalled.sent == len(Y)


def test_the_same_question_twice_has_two_answers(layer, questions, tmp_path):
    """A noisy oracle must look as noisy in a resumed run."""
    source = Noisy(layer, 0.1)
    _, (first, second) = ask_all(source, tmp_path, [questions, questions])
    assert not np.array_equal(first, second)
    _, (a, b) = ask_all(source, tmp_path, [questions, questions], resume=True)
    np.testing.assert_array_equal([a, b], [first, second])


def test_another_batch_size_reads_the_same_log(layer, blocks, tmp_path):
    ask_all(Flaky(layer), tmp_path, blocks[:2])
    source = Flaky(layer)
    config = OracleConfig(batch_size=3, name="service")
    ask_all(source, tmp_path, blocks, resume=True, config=config)
    assert source.calls == [3, 1, 3, 1]


def test_logged_answers_are_free_but_counted(layer, blocks, tmp_path):
    ask_all(Flaky(layer), tmp_path, blocks)
    source = Flaky(layer)
    config = OracleConfig(batch_size=4, name="service", max_queries=20)
    oracle, _ = ask_all(source, tmp_path, blocks, resume=True, config=config)
    assert oracle.queries_used == 21 and oracle.queries_left == 0
    with pytest.raises(BudgetSpent):
        oracle.ask(blocks[0])
    assert source.calls == []


def test_budget_in_a_block_that_is_logged_in_part(layer, questions, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        ask_all(Flaky(layer, None, KeyboardInterrupt()), tmp_path, [questions])
    source = Flaky(layer)
    config = OracleConfig(batch_size=4, name="service", max_queries=9)
    with pytest.raises(BudgetSpent, match="4 of 9 queries are used, and the next block takes 6"):
        ask_all(source, tmp_path, [questions], resume=True, config=config)
    assert source.calls == []


@pytest.mark.parametrize(
    "other",
    [
        lambda X: X + 1e-15,
        lambda X: X[:3],  # a block that ends within a logged batch
        lambda X: X[:, :2],
        lambda X: X[::-1].copy(),
    ],
)
def test_other_questions_are_refused(layer, questions, tmp_path, other):
    ask_all(Flaky(layer), tmp_path, [questions])
    source = Flaky(layer)
    with pytest.raises(RecordError, match=r"000001\.safetensors: answers other questions than"):
        ask_all(source, tmp_path, [other(questions)], resume=True)
    assert source.calls == []


def refuses(folder, source, **options):
    with pytest.raises(RecordError, match="belongs to other data or other settings") as refusal:
        as_oracle(source, log=AnswerLog(folder, resume=True), **options)
    assert "\n" not in str(refusal.value)


def test_the_log_of_another_oracle_is_refused(layer, questions, tmp_path):
    as_oracle(layer, log=AnswerLog(tmp_path)).ask(questions)
    refuses(tmp_path, plant(heads=3, dim=5, scale=2.0, seed=4, out_dim=4))
    refuses(tmp_path, Rounded(layer, decimals=3))
    refuses(tmp_path, layer, rows="last")
    refuses(tmp_path, layer, output=0)
    refuses(tmp_path, lambda X: X, dim=5)
    again = as_oracle(layer, log=AnswerLog(tmp_path, resume=True))
    np.testing.assert_array_equal(again.ask(questions), layer(questions))


def test_the_log_of_another_run_is_refused(layer, questions, tmp_path):
    ask_all(Flaky(layer), tmp_path, [questions], run={"seed": 1, "heads": "auto"})
    with pytest.raises(RecordError, match="belongs to other data or other settings"):
        ask_all(Flaky(layer), tmp_path, [questions], resume=True, run={"seed": 2, "heads": "auto"})
    ask_all(Flaky(layer), tmp_path, [questions], resume=True, run={"heads": "auto", "seed": 1})


def test_a_torch_module_is_known_by_its_weights(questions, tmp_path):
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(5, 2)
    as_oracle(module, dim=5, log=AnswerLog(tmp_path)).ask(questions)
    as_oracle(module, dim=5, log=AnswerLog(tmp_path, resume=True)).ask(questions)
    with torch.no_grad():
        module.bias[0] += 1.0
    refuses(tmp_path, module, dim=5)


def test_answers_are_not_overwritten_unasked(layer, questions, tmp_path):
    ask_all(Flaky(layer), tmp_path, [questions])
    with pytest.raises(ValueError, match="holds the answers of an earlier run; resume it, or"):
        AnswerLog(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / ".000004.0123456789ab.safetensors").write_bytes(b"cut short")
    AnswerLog.clear(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    ask_all(Flaky(layer), tmp_path, [questions])
    AnswerLog.clear(tmp_path / "nowhere")


def test_one_log_an_oracle(layer, tmp_path):
    log = AnswerLog(tmp_path)
    as_oracle(layer, log=log)
    with pytest.raises(ValueError, match="in use by another oracle"):
        as_oracle(layer, log=log)


def test_damage_is_said(layer, questions, tmp_path):
    ask_all(Flaky(layer), tmp_path, [questions])
    middle = tmp_path / "000002.safetensors"
    whole = middle.read_bytes()
    middle.write_bytes(whole[:-5])
    with pytest.raises(RecordError, match=r"000002\.safetensors: damaged"):
        ask_all(Flaky(layer), tmp_path, [questions], resume=True)
    middle.unlink()
    with pytest.raises(RecordError, match=r"000002\.safetensors: is missing, though later ones"):
        AnswerLog(tmp_path, resume=True)
    (tmp_path / "000003.safetensors").unlink()
    ask_all(Flaky(layer), tmp_path, [questions], resume=True)


def test_a_folder_that_cannot_be_used(layer, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="file: not a folder"):
        AnswerLog(tmp_path / "file")
    with pytest.raises(OutputError, match="cannot write"):
        as_oracle(layer, log=AnswerLog(tmp_path / "file" / "answers"))


def test_a_write_that_fails_leaves_no_gap(layer, questions, tmp_path, monkeypatch):
    """The disk is full for one write: the run stops, and the answers are kept when it is not."""
    from gradine.queries.asking import log as module

    save, failures = module.save_record, [OutputError("cannot write: No space left on device")]

    def save_or_fail(*arguments):
        if failures:
            raise failures.pop()
        save(*arguments)

    monkeypatch.setattr(module, "save_record", save_or_fail)
    with pytest.raises(OutputError, match="No space left"):
        ask_all(Flaky(layer), tmp_path, [questions])
    source = Flaky(layer)
    ask_all(source, tmp_path, [questions], resume=True)
    assert source.calls == [4, 2]  # the first four were written at the second attempt


KILLED = """
import os, signal, sys
import numpy as np
from gradine import files, plant
from gradine.queries import AnswerLog, OracleConfig, as_oracle

folder, last = sys.argv[1], int(sys.argv[2])
layer = plant(heads=2, dim=5, seed=1)
flush, writes = files._flush_to_disk, []

def flush_or_die(path):
    writes.append(path)
    if len(writes) == last:
        with open(path, "r+b") as file:  # half of it is on the disk when the process dies
            file.truncate(os.path.getsize(path) // 2)
        os.kill(os.getpid(), signal.SIGKILL)
    flush(path)

files._flush_to_disk = flush_or_die
config = OracleConfig(batch_size=4, name="service")
oracle = as_oracle(lambda X: layer(X), dim=5, config=config, log=AnswerLog(folder))
oracle.ask(np.random.default_rng(0).standard_normal((20, 3, 5)))
"""


@pytest.mark.parametrize("last", [1, 3])
def test_killed_in_the_middle_of_a_write(tmp_path, last):
    source_folder = Path(gradine.__file__).parent.parent
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), str(last)],
        env={**os.environ, "PYTHONPATH": str(source_folder)},
        capture_output=True,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == last and names[0].startswith(".")  # what was being written
    layer = plant(heads=2, dim=5, seed=1)
    source = Flaky(layer)
    X = np.random.default_rng(0).standard_normal((20, 3, 5))
    oracle, (Y,) = ask_all(source, tmp_path, [X], resume=True)
    assert source.calls == [4] * (6 - last)
    np.testing.assert_allclose(Y, layer(X), rtol=0, atol=1e-14)
    assert oracle.queries_used == 20
