"""`--attention`: planted, sampled, learned, compared; and every way to get it wrong."""

from __future__ import annotations

import pytest

from gradine import AttentionLayer, plant


@pytest.fixture
def story(cli, tmp_path):
    """A relu layer in a file, and examples of it."""
    truth, data = tmp_path / "truth.safetensors", tmp_path / "data.npz"
    planting = ("plant", "--heads", 2, "--dim", 6, "--scale", 2, "--attention", "relu")
    answer = cli(*planting, "--seed", 1, "--out", truth)
    assert answer.code == 0 and "attention='relu'" in answer.out
    sampling = ("sample", truth, "--examples", 3000, "--seq-len", 4, "--out", data)
    assert cli(*sampling).code == 0
    return truth, data


def test_from_planting_to_comparing(cli, story, tmp_path):
    truth, data = story
    assert repr(AttentionLayer.load(truth)) == repr(plant(2, 6, 2.0, attention="relu"))
    run = tmp_path / "run"
    answer = cli("learn", data, "--attention", "relu", "--truth", truth, "--out", run, "--json")
    assert answer.code == 0 and answer.json["heads"] == 2
    assert answer.json["config"]["exact"]["attention"] == "relu"
    compared = cli("compare", run / "layer.safetensors", truth, "--json")
    assert compared.code == 0 and compared.json["theta_error"] < 1e-9
    page = (run / "report.html").read_text()
    assert "Every Theta has norm 1" in page and "the scales of Theta and W apart" in page
    assert "sums to 1" not in page and "softmax takes it away" not in page


def test_wrong_uses_are_refused(cli, story, tmp_path):
    truth, data = story
    out = tmp_path / "out"
    plain = tmp_path / "plain.safetensors"
    plant(2, 6).save(plain)
    names = "attention is 'gelu'; expected one of softmax, polynomial, sigmoid, relu"
    for command, complaint in (
        (("plant", "--heads", 1, "--dim", 3, "--scale", 1, "--attention", "gelu"), names),
        (("learn", data, "--attention", "gelu"), names),
        (("learn", data, "--attention", "relu", "--method", "sculpt"), "expected 'softmax' with"),
        (("learn", data, "--truth", truth), "truth has attention 'relu'; expected 'softmax'"),
        (
            ("learn", data, "--attention", "relu", "--truth", plain),
            "truth has attention 'softmax'; expected 'relu'",
        ),
        (("query", "--oracle", truth), "has attention 'relu'; expected 'softmax'"),
        (
            ("query", "--oracle", plain, "--truth", truth),
            "truth has attention 'relu'; expected 'softmax'",
        ),
    ):
        answer = cli(*command, "--out", out)
        assert answer.code == 2 and answer.out == "" and complaint in answer.error_line
        assert not out.exists()
    answer = cli("compare", truth, plain)
    assert answer.code == 2 and "learned has attention 'relu'" in answer.error_line


def test_a_wrong_function_is_not_learned(cli, story, tmp_path):
    _, data = story
    run = tmp_path / "run"
    answer = cli("learn", data, "--heads", 2, "--method", "exact", "--no-report", "--out", run)
    assert answer.code == 3 and "not learned" in answer.err
    assert not (run / "layer.safetensors").exists()
