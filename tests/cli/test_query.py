"""`gradine query`: folder, summary, JSON, exit codes, and a run that was stopped."""

from __future__ import annotations

import numpy as np
import pytest

from gradine import AttentionLayer, compare, plant
from gradine.runs import read_result

FUNCTIONS = """
import os
import numpy as np
from gradine import AttentionLayer

layer = AttentionLayer.load(os.path.join(os.path.dirname(__file__), "hidden.safetensors"))

def answer(X):
    with open(os.path.join(os.path.dirname(__file__), "asked.txt"), "a") as file:
        file.write(f"{len(X)}\\n")
    return layer(X)

def one(x):
    assert x.ndim == 2
    return layer(x)

def broken(X):
    raise OSError("line is down")

def interrupted(X):
    if X.shape[1] > 6:
        raise KeyboardInterrupt
    return layer(X)

def bent(X):
    return np.tanh(layer(X)) + X.mean(axis=1, keepdims=True) ** 2
"""


@pytest.fixture(scope="session")
def hidden(tmp_path_factory):
    """A folder with a layer, and a module that answers for it."""
    folder = tmp_path_factory.mktemp("hidden")
    plant(2, 8, 2.0, seed=1).save(folder / "hidden.safetensors")
    (folder / "gate_of_hidden.py").write_text(FUNCTIONS)
    return folder


@pytest.fixture
def here(hidden, monkeypatch):
    """Work where the module is."""
    monkeypatch.chdir(hidden)
    monkeypatch.syspath_prepend(str(hidden))
    (hidden / "asked.txt").unlink(missing_ok=True)
    return hidden


def test_the_run_folder_holds_what_the_contract_says(cli, here, tmp_path):
    out = tmp_path / "run"
    answer = cli("query", "--oracle", "hidden.safetensors", "--out", out, "--json")
    assert answer.code == 0
    assert {path.name for path in out.iterdir()} == {
        "answers",
        "layer.safetensors",
        "report.html",
        "result.json",
    }
    result = answer.json
    assert result == read_result(out) | {"out": str(out)}
    assert result["status"] == "learned" and result["heads"] == 2 and result["method"] == "fit"
    assert result["queries_used"] == result["examples_used"] > result["verify_queries"] == 200
    assert result["rows_used"] > result["verify_rows"] == 800
    assert result["oracle"] == "hidden.safetensors" and result["dim"] == 8
    truth = AttentionLayer.load(here / "hidden.safetensors")
    found = AttentionLayer.load(out / "layer.safetensors")
    assert compare(found, truth).theta_error.max() < 1e-9
    report = (out / "report.html").read_text()
    assert "What asking cost" in report and "The first look" in report


def test_a_function_is_asked_and_said_what_it_cost(cli, here, tmp_path):
    options = ("--dim", 8, "--out", tmp_path / "run", "--no-report", "--truth")
    answer = cli("query", "--oracle", "gate_of_hidden:answer", *options, "hidden.safetensors")
    assert answer.code == 0
    asked = sum(map(int, (here / "asked.txt").read_text().split()))
    assert (
        f"learned 2 heads by {asked} queries ({asked - 200} to learn, 200 to verify" in answer.out
    )
    assert "scout            heads 2" in answer.err and "verify           queries 200" in answer.err


def test_one_sequence_at_a_time(cli, here, tmp_path):
    options = ("--dim", 8, "--out", tmp_path / "run", "--no-report", "--json")
    answer = cli("query", "--oracle", "gate_of_hidden:one", "--one-at-a-time", *options)
    assert answer.code == 0 and answer.json["status"] == "learned"


@pytest.mark.parametrize("limit", [("--box", "-0.5", "0.75"), ("--ball", "1")])
def test_limits(cli, here, tmp_path, limit):
    options = ("--out", tmp_path / "run", "--no-report", "--json", *limit)
    answer = cli("query", "--oracle", "hidden.safetensors", *options)
    assert answer.code == 0 and answer.json["status"] == "learned"


def test_a_stopped_run_is_resumed_and_asks_nothing_again(cli, here, tmp_path, monkeypatch):
    out = tmp_path / "run"
    run = ("query", "--oracle", "gate_of_hidden:answer", "--dim", 8, "--out", out, "--no-report")
    import gate_of_hidden

    monkeypatch.setattr(gate_of_hidden, "answer", gate_of_hidden.interrupted)
    # The name is that of another function: the log must not mistake them for each other.
    monkeypatch.setattr(gate_of_hidden.interrupted, "__qualname__", "answer")
    stopped = cli(*run)
    assert stopped.code == 130 and "stopped; continue with --resume" in stopped.err
    assert list((out / "answers").iterdir()) and not (out / "result.json").exists()
    monkeypatch.undo()
    monkeypatch.chdir(here)
    monkeypatch.syspath_prepend(str(here))
    assert cli(*run).code == 2  # the answers there are not to be lost unasked
    (here / "asked.txt").unlink(missing_ok=True)
    again = cli(*run, "--resume", "--json")
    assert again.code == 0
    sent = sum(map(int, (here / "asked.txt").read_text().split()))
    assert sent < again.json["queries_used"]
    assert cli(*run, "--resume", "--seed", 1).code == 2  # the answers are of another run
    assert cli(*run, "--overwrite", "--seed", 1, "--json").code == 0


def test_a_budget_that_is_spent(cli, here, tmp_path):
    out = tmp_path / "run"
    answer = cli("query", "--oracle", "hidden.safetensors", "--out", out, "--max-queries", 205)
    assert answer.code == 3
    last = answer.err.splitlines()[-1]
    assert last.startswith("gradine: not learned: phase ask: the budget of queries is spent")
    result = read_result(out)
    assert result["status"] == "out_of_queries" and result["certificate"] is None
    assert result["queries_used"] <= 5
    assert not (out / "layer.safetensors").exists()
    assert "ask: stopped here" in (out / "report.html").read_text()
    more = cli("query", "--oracle", "hidden.safetensors", "--out", out, "--resume", "--json")
    assert more.code == 0 and more.json["status"] == "learned"


def test_an_oracle_that_fails_is_no_traceback(cli, here, tmp_path):
    out = tmp_path / "run"
    options = ("--dim", 8, "--out", out, "--retries", 0)
    answer = cli("query", "--oracle", "gate_of_hidden:broken", *options)
    assert answer.code == 3 and "Traceback" not in answer.err
    assert "line is down" in answer.err.splitlines()[-1]
    assert read_result(out)["status"] == "oracle_failed"


def test_what_is_no_layer_is_not_learned(cli, here, tmp_path):
    out = tmp_path / "run"
    answer = cli("query", "--oracle", "gate_of_hidden:bent", "--dim", 8, "--out", out, "--json")
    assert answer.code == 3
    assert answer.json["certificate"] is None and not (out / "layer.safetensors").exists()


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("--oracle", "nothing.safetensors"), "nothing.safetensors"),
        (("--oracle", "gate_of_hidden:nothing", "--dim", 8), "has no nothing"),
        (("--oracle", "gate_of_hidden:answer"), "dim is not given"),
        (("--oracle", "hidden.safetensors", "--dim", 7), "dim is 7; expected 8"),
        (("--oracle", "hidden.safetensors", "--heads", 0), "heads is 0"),
        (("--oracle", "hidden.safetensors", "--heads", "many"), "heads is 'many'"),
        (("--oracle", "hidden.safetensors", "--rank", 20), "rank is 20"),
        (("--oracle", "hidden.safetensors", "--box", 1, 0), "expected low below high"),
        (("--oracle", "hidden.safetensors", "--ball", 0), "largest_norm is 0.0"),
        (("--oracle", "hidden.safetensors", "--box", 0, 1, "--ball", 1), "both given"),
        (("--oracle", "hidden.safetensors", "--max-queries", -1), "max_queries is -1"),
        (("--oracle", "hidden.safetensors", "--output", -1), "output is -1"),
        (("--oracle", "hidden.safetensors", "--confidence", 1), "confidence is 1.0"),
        (("--oracle", "hidden.safetensors", "--method", "scalar"), "rows='last'"),
    ],
)
def test_bad_input_is_one_line(cli, here, tmp_path, arguments, words):
    answer = cli("query", *arguments, "--out", tmp_path / "run")
    assert answer.code == 2 and words in answer.error_line
    assert not (tmp_path / "run").exists()


def test_bad_input_leaves_an_earlier_run_alone(cli, here, tmp_path):
    out = tmp_path / "run"
    run = ("query", "--oracle", "hidden.safetensors", "--out", out, "--no-report")
    assert cli(*run).code == 0
    before = sorted(out.rglob("*"))
    assert cli(*run).code == 2
    assert cli(*run, "--overwrite", "--heads", 0).code == 2
    assert sorted(out.rglob("*")) == before


def test_a_truth_of_other_sizes_is_refused_before_anything_is_asked(cli, here, tmp_path):
    plant(1, 5).save(tmp_path / "other.safetensors")
    options = ("--dim", 8, "--out", tmp_path / "run", "--truth", tmp_path / "other.safetensors")
    answer = cli("query", "--oracle", "gate_of_hidden:answer", *options)
    assert answer.code == 2 and "truth has dim 5" in answer.error_line
    assert not (here / "asked.txt").exists()


def test_the_report_shows_attention_on_an_example_of_ones_own(cli, here, tmp_path):
    np.save(here / "sentence.npy", np.eye(3, 8))
    options = ("--out", tmp_path / "run", "--example", "sentence.npy", "--words")
    answer = cli("query", "--oracle", "hidden.safetensors", *options, "one two three")
    assert answer.code == 0
    assert ">three</th>" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize(
    ("tokens", "words", "said"),
    [
        (np.eye(3, 8), "one two", "--words has 2 words; expected 3"),
        (np.eye(3, 7), "a b c", "--example has tokens of 7 coordinates; expected 8"),
        (np.full((3, 8), np.nan), "a b c", "expected finite tokens"),
        (np.zeros((2, 3, 8)), "a b", "expected one sequence, (k, d)"),
        (None, "a b", "--words names the tokens of an --example"),
    ],
)
def test_an_example_that_cannot_be_shown_is_refused_before_anything_is_asked(
    cli, here, tmp_path, tokens, words, said
):
    options = ["--out", tmp_path / "run", "--words", words]
    if tokens is not None:
        np.save(here / "wrong.npy", tokens)
        options += ["--example", "wrong.npy"]
    answer = cli("query", "--oracle", "gate_of_hidden:answer", "--dim", 8, *options)
    assert answer.code == 2 and said in answer.err and len(answer.err.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_an_example_that_is_no_file_of_numbers(cli, here, tmp_path):
    (here / "words.npy").write_text("the cat")
    options = ("--out", tmp_path / "run", "--example", "words.npy")
    answer = cli("query", "--oracle", "hidden.safetensors", *options)
    assert answer.code == 2 and "words.npy: is not a readable .npy array" in answer.err
