"""`gradine plan`: a table, one line of advice, and JSON."""

from __future__ import annotations

import pytest

import gradine

SIZES = ("plan", "--heads", 2, "--dim", 8, "--seq-len", 3, "--scale", 4)


def test_a_table_and_one_line_of_advice(cli):
    answer = cli(*SIZES)
    assert answer.code == 0 and answer.err == ""
    lines = answer.out.splitlines()
    planned = gradine.plan(2, 8, 3, 4.0)
    assert [line[:7] for line in lines[1:8]] == [f"phase {i}" for i in range(1, 7)] + ["exact l"]
    for line, need in zip(lines[1:], planned.phases, strict=False):
        assert f"{need.examples:,}" in line and line.endswith(need.limit)
    assert lines[-1] == planned.sentence()
    assert f"{planned.sculpt.examples:,}" in lines[-3]


def test_json(cli):
    answer = cli(*SIZES, "--confidence", 0.99, "--json")
    assert answer.code == 0 and answer.err == "" and len(answer.out.splitlines()) == 1
    assert answer.json["confidence"] == 0.99
    assert answer.json["exact"]["certify"] == 165
    assert answer.json["exact_fit"] > gradine.plan(2, 8, 3, 4.0).exact_fit


def test_out_of_reach_is_said(cli):
    answer = cli("plan", "--heads", 2, "--dim", 4, "--seq-len", 6, "--scale", 2)
    assert answer.code == 0
    assert "six phases           out of reach" in answer.out
    answer = cli("plan", "--heads", 300, "--dim", 384, "--seq-len", 3, "--scale", 3)
    assert "phase 2 sculpt          out of reach  rows matched to 0.2: " in answer.out
    assert "nan" not in answer.out and "1,000,000,000,000,000" not in answer.out


def test_narrow_outputs(cli):
    answer = cli(*SIZES, "--out-dim", 4, "--json")
    assert answer.json["out_dim"] == 4
    assert answer.json["exact_fit"] == gradine.plan(2, 8, 3, 4.0, out_dim=4).exact_fit
    assert answer.json["exact_fit"] > gradine.plan(2, 8, 3, 4.0).exact_fit


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--heads", 9), "heads is 9; expected at most dim = 8"),
        (("--heads", "many"), "--heads"),
        (("--seq-len", 1), "seq_len is 1"),
        (("--scale", -1), "scale is -1.0"),
        (("--scale", "nan"), "scale is nan"),
        (("--confidence", 1), "confidence is 1.0"),
        (("--out-dim", 0), "out_dim is 0"),
    ],
)
def test_bad_input_is_one_line(cli, options, said):
    answer = cli(*SIZES, *options)
    assert answer.code == 2 and answer.out == ""
    assert said in answer.error_line


def test_what_is_missing_is_named(cli):
    answer = cli("plan", "--heads", 2)
    assert answer.code == 2 and "--dim" in answer.error_line
