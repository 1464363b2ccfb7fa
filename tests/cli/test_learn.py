"""A run that learns, and one that does not: folder, summary, JSON and exit code."""

from __future__ import annotations

import numpy as np
import pytest

from gradine import AttentionLayer, compare, plant, sample_inputs
from gradine.checks import whole_number
from gradine.runs import read_result


def test_the_run_folder_holds_what_the_contract_says(told):
    held = {path.name for path in told.run.iterdir()}
    assert held == {"layer.safetensors", "result.json", "report.html", "phases"}
    match = compare(AttentionLayer.load(told.run / "layer.safetensors"), _truth(told))
    assert match.theta_error.max() < 1e-12 and match.function_error < 1e-12
    result = read_result(told.run)
    assert result["status"] == "learned" and result["heads"] == 1
    assert result["certificate"]["confidence"] == 0.99
    assert result["data"] == "data.npz" and result["seed"] == 0
    assert set(result["versions"]) == {"gradine", "python", "numpy", "scipy", "piqp"}
    assert result["method"] == "exact"
    assert next(iter(result["phases"])) == "spectrum" and "fit_1" in result["phases"]
    assert list(result["phases"])[-2:] == ["identify", "curve"]  # the curve is for the report
    assert result["config"]["sculpt"]["polish"] is True
    assert result["config"]["exact"]["curve_points"] == 5
    assert "<html" in (told.run / "report.html").read_text()


def _truth(told) -> AttentionLayer:
    return AttentionLayer.load(told.truth)


def test_json_is_alone_on_standard_output(real_cli, told, tmp_path):
    out = tmp_path / "run"
    answer = real_cli("learn", told.data, "--heads", 1, "--out", out, "--json", "--no-report")
    assert answer.code == 0
    result = answer.json
    assert {"status", "heads", "certificate", "seconds", "examples_used"} <= set(result)
    assert result["status"] == "learned" and result["examples_used"] == 8000
    assert result["out"] == str(out)
    assert result == read_result(out) | {"out": str(out)}
    assert not (out / "report.html").exists()


def test_progress_is_one_plain_line_a_phase(real_cli, told, tmp_path):
    options = ("--method", "sculpt", "--no-polish", "--no-report")
    answer = real_cli("learn", told.data, "--out", tmp_path / "run", *options)
    assert answer.code == 0
    names = [line.split()[0] for line in answer.err.splitlines()]
    assert names[:4] == ["survey", "crude_sum", "sculpt", "proxy"]
    assert names[-2:] == ["span", "search"]
    assert answer.err.isascii() and "\x1b" not in answer.err and "\r" not in answer.err
    assert "validation error" in answer.err and "slabs" in answer.err
    assert answer.out.startswith("learned 1 head from 8000 examples")
    assert "with confidence 99.0%" in answer.out and str(tmp_path / "run") in answer.out


def test_progress_of_the_exact_learner(cli, told, tmp_path):
    out = tmp_path / "run"
    answer = cli("learn", told.data, "--out", out, "--no-report", "--rank", 6, "--json")
    assert answer.code == 0 and answer.json["config"]["exact"]["rank"] == 6
    lines = answer.err.splitlines()
    names = [line.split()[0] for line in lines]
    assert names[:2] == ["survey", "spectrum"] and names[-1] == "identify"
    assert "confidence" in lines[1] and "condition" in lines[-1] and "curve" not in names
    fit = lines[names.index("fit_1")]
    assert "heads 1, residual" in fit and "validation error" in fit


def test_noisy_labels(cli, told, arrays, tmp_path):
    arrays["Y"] += 0.05 * np.random.default_rng(2).standard_normal(arrays["Y"].shape)
    np.savez(tmp_path / "noisy.npz", **arrays)
    out = tmp_path / "run"
    answer = cli("learn", tmp_path / "noisy.npz", "--heads", 1, "--out", out, "--truth", told.truth)
    assert answer.code == 0 and "up to noise: noise 0." in answer.out
    assert read_result(out)["status"] == "learned_up_to_noise"
    assert (out / "layer.safetensors").exists()
    assert "Learned up to noise" in (out / "report.html").read_text()


def test_too_many_heads_asked_for_is_said(cli, told, tmp_path):
    out = tmp_path / "run"
    answer = cli("learn", told.data, "--heads", 2, "--out", out, "--no-report")
    assert answer.code == 0 and answer.out.startswith("learned 1 head from 8000 examples in ")
    assert "note: 1 of 2 heads suffice\n" in answer.out
    assert "1 of 2 heads suffice" in read_result(out)["reason"]


@pytest.mark.parametrize("method", ["auto", "sculpt"])
def test_a_few_hundred_examples_are_enough(cli, told, arrays, tmp_path, method):
    few = {name: array[:400] for name, array in arrays.items()}
    np.savez(tmp_path / "few.npz", **few)
    out = tmp_path / "run"
    answer = cli(
        "learn", tmp_path / "few.npz", "--out", out, "--method", method, "--no-report", "--json"
    )
    assert answer.code == 0 and answer.json["certificate"]["examples"] == 165
    match = compare(AttentionLayer.load(out / "layer.safetensors"), _truth(told))
    assert match.theta_error.max() < 1e-8


def test_too_few_to_certify_is_said_before_fitting(cli, arrays, tmp_path):
    few = {name: array[:200] for name, array in arrays.items()}
    np.savez(tmp_path / "few.npz", **few)
    answer = cli("learn", tmp_path / "few.npz", "--out", tmp_path / "run", "--json")
    assert answer.code == 3 and answer.json["status"] == "too_few_held_out"
    assert answer.json["phases"] == {} and "275" in answer.error_line


def test_settings_reach_the_learner(cli, told, tmp_path):
    options = (
        "--method",
        "sculpt",
        "--no-polish",
        "--confidence",
        0.9,
        "--constant",
        "--seed",
        3,
        "--no-report",
    )
    answer = cli("learn", told.data, "--out", tmp_path / "run", "--json", *options)
    result = answer.json
    assert answer.code == (0 if result["status"] == "learned" else 3)
    assert result["seed"] == 3 and "polish" not in result["phases"]
    assert result["config"]["confidence"] == 0.9 and result["config"]["constant"] is True


@pytest.fixture
def cancelling(tmp_path):
    """Examples of two heads whose projections sum to zero: the six phases cannot find them."""
    layer = plant(2, 10, 3.0, seed=1)
    layer = AttentionLayer(layer.theta, np.stack([layer.w[0], -layer.w[0]]))
    X = sample_inputs(4000, 3, 10, seed=2)
    np.savez(tmp_path / "cancelling.npz", X=X, Y=layer(X))
    return tmp_path / "cancelling.npz"


def test_not_learned_says_why_and_certifies_nothing(cli, cancelling, tmp_path):
    out = tmp_path / "run"
    answer = cli("learn", cancelling, "--out", out, "--method", "sculpt", "--json")
    assert answer.code == 3
    assert "phase crude_sum: the projection matrices sum to nearly zero" in answer.error_line
    assert "well-conditioned sum of the W_i" in answer.error_line
    assert answer.json == read_result(out) | {"out": str(out)}
    assert answer.json["status"] == "sum_near_zero" and answer.json["certificate"] is None
    assert answer.json["phase"] == "crude_sum" and answer.json["help"]
    assert not (out / "layer.safetensors").exists()
    assert (out / "report.html").exists()


def test_not_learned_without_json(real_cli, cancelling, tmp_path):
    options = ("--method", "sculpt", "--no-report")
    answer = real_cli("learn", cancelling, "--out", tmp_path / "run", *options)
    assert answer.code == 3 and "not learned" in answer.error_line
    assert "result.json" in answer.out and "certificate" not in answer.out


def test_a_failed_run_leaves_no_answer_of_an_earlier_one(cli, told, cancelling, tmp_path):
    out = tmp_path / "run"
    sculpt = ("--out", out, "--method", "sculpt")
    assert cli("learn", told.data, *sculpt, "--no-polish").code == 0
    (out / "notes.txt").write_text("mine")
    (out / "phases" / "notes.safetensors").write_text("mine")
    assert cli("learn", cancelling, *sculpt, "--overwrite", "--no-report").code == 3
    assert {path.name for path in out.iterdir()} == {"result.json", "phases", "notes.txt"}
    assert [path.name for path in (out / "phases").iterdir()] == ["notes.safetensors"]
    assert read_result(out)["status"] == "sum_near_zero"


def test_a_report_that_cannot_be_drawn_does_not_change_the_verdict(
    cli, told, tmp_path, monkeypatch
):
    def refuse(*arguments, **options):
        whole_number("colours", 0, 1)

    monkeypatch.setattr("gradine.report.write_report", refuse)
    answer = cli("learn", told.data, "--out", tmp_path / "run", "--no-polish")
    assert answer.code == 0 and "report.html" not in answer.out
    assert "report.html was left out: colours is 0; expected" in answer.err


def test_a_defect_is_not_laid_on_the_examples(cli, told, tmp_path, monkeypatch):
    def break_down(*arguments, **options):
        return np.ones(2) + np.ones(3)

    line = ("learn", told.data, "--out", tmp_path / "run")
    for name in ("gradine.report.write_report", "gradine.cli.run.learn_examples"):
        with monkeypatch.context() as patched:
            patched.setattr(name, break_down)
            answer = cli(*line, "--overwrite")
        assert answer.code == 1 and str(told.data) not in answer.err
        assert "gradine: a defect of gradine: ValueError: operands could not be" in answer.err
