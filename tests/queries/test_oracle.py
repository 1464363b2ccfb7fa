"""Asking: batches, counts, budget, what is visible, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from gradine import AttentionLayer, plant
from gradine.queries import (
    Ball,
    Box,
    BudgetSpent,
    Noisy,
    OracleConfig,
    Rounded,
    as_oracle,
)
from gradine.queries.asking import courier
from gradine.status import NotLearned, Status
from tests.queries.conftest import Flaky, answers


def test_answers_are_those_of_the_layer_and_are_counted(layer, questions):
    source = Flaky(layer)
    heard = []
    oracle = as_oracle(
        source, dim=5, config=OracleConfig(batch_size=4), on_answer=lambda used: heard.append(used)
    )
    assert oracle.out_dim is None and oracle.queries_left is None
    Y = oracle.ask(questions)
    np.testing.assert_array_equal(Y, answers(layer, questions))
    assert Y.dtype == np.float64
    assert source.calls == [4, 4, 2] and heard == [4, 8, 10]
    assert (oracle.queries_used, oracle.rows_used, oracle.out_dim) == (10, 30, 4)
    assert oracle.usage.failures == 0 and oracle.seconds > 0.0
    oracle(questions[:1, :2])
    assert (oracle.queries_used, oracle.rows_used) == (11, 32)


def test_large_tokens_go_in_smaller_batches(layer, questions, monkeypatch):
    monkeypatch.setattr(courier, "BATCH_BYTES", 8 * 3 * 5 * 3)
    source = Flaky(layer)
    as_oracle(source, dim=5).ask(questions)
    assert source.calls == [3, 3, 3, 1]
    monkeypatch.setattr(courier, "BATCH_BYTES", 1)
    as_oracle(source, dim=5).ask(questions[:2])
    assert source.calls[4:] == [1, 1]


def test_budget_is_never_exceeded(layer, questions):
    source = Flaky(layer)
    oracle = as_oracle(source, dim=5, config=OracleConfig(max_queries=15, batch_size=4))
    oracle.ask(questions)
    assert oracle.queries_left == 5
    with pytest.raises(BudgetSpent) as stopped:
        oracle.ask(questions[:6])  # none of the six is sent, not even the first batch
    assert source.calls == [4, 4, 2]
    assert stopped.value.status is Status.OUT_OF_QUERIES
    assert stopped.value.detail == "10 of 15 queries are used, and the next block takes 6"
    assert stopped.value.figures == {"queries_used": 10, "max_queries": 15, "needed": 6}
    oracle.ask(questions[:5])
    assert oracle.queries_left == 0
    with pytest.raises(BudgetSpent):
        oracle.ask(questions[:1])
    oracle.max_queries = 16
    oracle.ask(questions[:1])
    assert sum(source.calls) == oracle.queries_used == 16


def test_what_is_sent_again_counts(layer, questions):
    source = Flaky(layer, OSError("line is bad"), None)
    config = OracleConfig(max_queries=15, batch_size=5, wait=0.0)
    oracle = as_oracle(source, dim=5, config=config)
    oracle.ask(questions)  # 5 sent in vain, then 5, then 5
    assert source.calls == [5, 5, 5] and oracle.queries_used == 15
    source = Flaky(layer, None, OSError("line is bad"))
    oracle = as_oracle(source, dim=5, config=config)
    oracle.ask(questions)
    with pytest.raises(BudgetSpent):
        oracle.ask(questions[:1])
    source = Flaky(layer, OSError(), OSError())
    oracle = as_oracle(source, dim=5, config=config)
    with pytest.raises(BudgetSpent, match="10 of 15 queries are used, and the next block takes 10"):
        oracle.ask(questions)
    assert sum(source.calls) == 10


@pytest.mark.parametrize("output", [None, 2])
@pytest.mark.parametrize("rows", ["all", "last"])
def test_only_what_may_be_seen_is_seen(layer, questions, rows, output):
    oracle = as_oracle(layer, rows=rows, output=output)
    Y = layer(questions)
    expected = Y if rows == "all" else Y[:, -1:]
    expected = expected if output is None else expected[:, :, output : output + 1]
    assert oracle.out_dim == expected.shape[2]  # known before anything is asked
    np.testing.assert_array_equal(oracle.ask(questions), expected)
    assert oracle.rows_used == (30 if rows == "all" else 10)
    assert oracle.queries_used == 10


@pytest.mark.parametrize(
    "cut", [lambda Y: Y[:, -1], lambda Y: Y[:, -1, 1], lambda Y: Y[:, -1:, 1:2]]
)
def test_a_source_that_gives_the_last_row_only(layer, questions, cut):
    oracle = as_oracle(lambda X: cut(layer(X)), dim=5, rows="last")
    Y = oracle.ask(questions)
    assert Y.ndim == 3 and Y.shape[:2] == (10, 1)
    np.testing.assert_array_equal(Y.squeeze(), cut(layer(questions)).squeeze())
    with pytest.raises(ValueError, match=r"answer has shape .*; expected \(10, 3, d_out\)$"):
        as_oracle(lambda X: cut(layer(X)), dim=5).ask(questions)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda X: X[0], r"answer has shape \(3, 5\); expected \(10, 3, d_out\)$"),
        (lambda X: X[:9], r"answer has shape \(9, 3, 5\); expected \(10, 3, d_out\)$"),
        (lambda X: X[:, :2], r"answer has shape \(10, 2, 5\)"),
        (lambda X: X[:, :, :0], r"answer has shape \(10, 3, 0\)"),
        (lambda X: 1.0, r"answer has shape \(\); expected"),
        (lambda X: X + 1j, "answer is of dtype complex128; expected an array of real numbers"),
        (lambda X: None, "answer is NoneType; expected an array of real numbers"),
        (lambda X: (X, X), "answer is a tuple of 2; expected one array"),
        (lambda X: [[1.0], [1.0, 2.0]], "answer is no array"),
        (lambda X: "tokens", "answer is of dtype <U6"),
    ],
)
def test_an_answer_of_another_shape_is_said_at_once(questions, answer, message, naps):
    oracle = as_oracle(answer, dim=5, config=OracleConfig(name="box"), sleep=naps.append)
    with pytest.raises(ValueError, match=f"^box: {message}"):
        oracle.ask(questions)
    assert naps == []


def test_answers_must_stay_of_one_width(questions):
    widths = iter([4, 4, 3])
    oracle = as_oracle(lambda X: np.ones((*X.shape[:2], next(widths))), dim=5)
    oracle.ask(questions)
    oracle.ask(questions)
    with pytest.raises(ValueError, match="answer has 3 coordinates; expected 4, as before"):
        oracle.ask(questions)


def test_a_coordinate_that_is_not_there(layer, questions):
    with pytest.raises(ValueError, match="output is 4; expected less than 4"):
        as_oracle(layer, output=4).ask(questions)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((3, 5)), r"X has shape \(3, 5\); expected \(n, k, 5\)"),
        (np.ones((2, 3, 4)), r"X has shape \(2, 3, 4\); expected \(n, k, 5\)"),
        (np.ones((0, 3, 5)), r"X has shape \(0, 3, 5\)"),
        (np.ones((2, 0, 5)), r"X has shape \(2, 0, 5\)"),
        (np.full((2, 3, 5), np.nan), "X has entries that are not finite"),
        (np.full((2, 3, 5), np.inf), "X has entries that are not finite"),
    ],
)
def test_questions_that_make_no_sense(layer, X, message):
    source = Flaky(layer)
    with pytest.raises(ValueError, match=message):
        as_oracle(source, dim=5).ask(X)
    assert source.calls == []


@pytest.mark.parametrize("limit", [Box(-2.0, 2.0), Ball(3.0)])
def test_no_token_leaves_the_limit(layer, limit, rng):
    source = Flaky(layer)
    oracle = as_oracle(source, dim=5, limit=limit)
    corners = rng.choice([-1.0, 1.0], (4, 3, 5)) * oracle.largest_entry()
    oracle.ask(corners)
    corners[2, 1] *= 1.01
    with pytest.raises(ValueError, match=r"1 tokens outside .*, the first one at \(2, 1\)"):
        oracle.ask(corners)
    assert source.calls == [4] and oracle.queries_used == 4


def test_room_around_a_token(layer):
    oracle = as_oracle(layer, limit=Box(0.0, 1.0))
    np.testing.assert_array_equal(oracle.center, np.full(5, 0.5))
    assert oracle.largest_norm() == pytest.approx(0.5)
    assert oracle.largest_norm(np.full(5, 0.1)) == pytest.approx(0.1)
    assert as_oracle(layer).largest_norm() == np.inf
    with pytest.raises(ValueError, match="about lies outside Box"):
        oracle.largest_norm(np.full(5, 2.0))
    with pytest.raises(ValueError, match=r"about has shape \(4,\); expected \(5,\)"):
        oracle.largest_entry(np.zeros(4))
    with pytest.raises(ValueError, match="low of the box has 2 coordinates; expected 5"):
        as_oracle(layer, limit=Box([0.0, 0.0], 1.0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_queries": -1}, "max_queries is -1; expected a whole number of at least 0"),
        ({"batch_size": 0}, "batch_size is 0; expected a whole number of at least 1"),
        ({"batch_size": None}, "batch_size is None"),
        ({"retries": 1.5}, "retries is 1.5"),
        ({"wait": -1.0}, "wait is -1.0"),
        ({"longest_wait": float("inf")}, "longest_wait is inf"),
        ({"tensors": "float8"}, "tensors is 'float8'; expected None or one of float64"),
    ],
)
def test_settings_that_make_no_sense(options, message):
    with pytest.raises(ValueError, match=message):
        OracleConfig(**options)


def test_an_oracle_stays_one(layer):
    oracle = as_oracle(layer)
    assert as_oracle(oracle) is oracle and as_oracle(oracle, dim=5) is oracle
    with pytest.raises(ValueError, match="dim is 6; expected 5"):
        as_oracle(oracle, dim=6)
    with pytest.raises(ValueError, match="source is an Oracle already"):
        as_oracle(oracle, rows="last")


def test_an_oracle_behind_a_defence_keeps_its_limit_rows_and_budget(layer, questions):
    inner = as_oracle(
        layer, rows="last", output=1, limit=Box(-9.0, 9.0), config=OracleConfig(max_queries=12)
    )
    outer = as_oracle(Rounded(inner, decimals=2), config=OracleConfig(wait=0.0))
    assert (outer.dim, outer.out_dim, outer.readout.rows) == (5, 1, "last")
    assert outer.largest_entry() == inner.largest_entry()
    expected = np.round(layer(questions)[:, -1:, 1:2], 2)
    np.testing.assert_array_equal(outer.ask(questions), expected)
    assert (outer.queries_used, inner.queries_used) == (10, 10)
    with pytest.raises(BudgetSpent):
        outer.ask(questions)
    assert inner.queries_used == 10
    with pytest.raises(ValueError, match="rows is 'all'; expected 'last'"):
        as_oracle(Rounded(inner, decimals=2), rows="all")


def reachable(value, depth=3):
    """Everything that public names lead to."""
    found = [value]
    if depth and not isinstance(value, (np.ndarray, int, float, str, bool, type(None))):
        for name in dir(value):
            if not name.startswith("_"):
                found += reachable(getattr(value, name), depth - 1)
    return found


def test_the_layer_cannot_be_reached(biased_layer, questions, tmp_path):
    assert any(isinstance(value, np.ndarray) for value in reachable(biased_layer))  # of the test
    biased_layer.save(tmp_path / "layer.safetensors")
    defence = Noisy(biased_layer, 1e-3)
    for source in (biased_layer, tmp_path / "layer.safetensors", defence, as_oracle(biased_layer)):
        oracle = as_oracle(source)
        oracle.ask(questions)
        for value in [*reachable(oracle), *reachable(defence)]:
            assert not isinstance(value, AttentionLayer)
            if isinstance(value, np.ndarray):
                assert not value.any()  # the center
        assert not hasattr(oracle, "__dict__")
        assert "heads" not in repr(oracle) + repr(defence)


def test_not_learning_is_not_an_error_of_the_input():
    assert issubclass(BudgetSpent, NotLearned) and not issubclass(BudgetSpent, ValueError)


def test_planted_layers_tell_their_sizes():
    oracle = as_oracle(plant(heads=2, dim=6, out_dim=3, constant=True))
    assert (oracle.dim, oracle.out_dim) == (6, 3)
    assert oracle.ask(np.ones((2, 2, 6))).shape == (2, 2, 3)
