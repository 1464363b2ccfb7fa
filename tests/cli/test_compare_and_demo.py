"""Comparing two layers, and the demo that tells the whole story."""

from __future__ import annotations

import pytest

from gradine import AttentionLayer, compare, plant

DEMO = ("demo", "--heads", 1, "--dim", 6, "--scale", 3, "--examples", 2000)


@pytest.fixture
def two_layers(tmp_path):
    truth = plant(heads=3, dim=5, seed=1)
    learned = AttentionLayer(truth.theta[:2] * 1.01, truth.w[:2])
    truth.save(tmp_path / "truth.safetensors")
    learned.save(tmp_path / "learned.safetensors")
    return tmp_path / "learned.safetensors", tmp_path / "truth.safetensors"


def test_compare_gives_the_maxima(cli, two_layers):
    learned, truth = map(AttentionLayer.load, two_layers)
    options = ("--seq-len", 3, "--inputs", "gaussian", "--seed", 4)
    answer = cli("compare", *two_layers, *options, "--json")
    match = compare(learned, truth, seq_len=3, kind="gaussian", seed=4)
    assert answer.code == 0 and answer.err == ""
    assert answer.json == {
        "theta_error": match.theta_error.max(),
        "w_error": match.w_error.max(),
        "function_error": match.function_error,
        "missing": 1,
        "extra": 0,
    }


def test_compare_shows_every_head(cli, two_layers):
    answer = cli("compare", *two_layers)
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert len(lines) == 1 + 3 + 1 and lines[-1].startswith("function error")
    assert any("none" in line for line in lines[1:4])
    backwards = cli("compare", *reversed(two_layers))
    assert "learned heads without a partner: 1" in backwards.out


def test_compare_refuses(cli, real_cli, told, two_layers, tmp_path):
    learned, truth = two_layers
    answer = real_cli("compare", learned, tmp_path / "none.safetensors")
    assert answer.code == 2 and "none.safetensors: no such file" in answer.error_line
    assert "learned has out_dim 5; expected 6" in cli("compare", learned, told.truth).error_line
    answer = cli("compare", told.run / "phases" / told.records[2], truth)
    assert answer.code == 2 and "not a gradine layer file" in answer.error_line
    assert "seq_len is 0" in cli("compare", learned, truth, "--seq-len", 0).error_line


def test_demo_tells_the_story_and_may_be_run_again(cli, tmp_path):
    out = tmp_path / "demo"
    for _ in range(2):
        answer = cli(*DEMO, "--out", out)
        assert answer.code == 0
        planted, sampled, report, last = answer.out.splitlines()
        assert planted.startswith("planted ") and sampled.startswith("sampled 2000 examples")
        assert report == f"report: {out / 'report.html'}" and (out / "report.html").exists()
        assert last.startswith("recovered 1 head: largest theta error ")
        assert "function error" in last and "with confidence 99.0%" in last
    held = {path.name for path in out.iterdir()}
    run = {"layer.safetensors", "result.json", "report.html", "phases"}
    assert held == run | {"truth.safetensors", "data.npz"}


def test_demo_as_json(real_cli, tmp_path):
    answer = real_cli(*DEMO, "--out", tmp_path / "demo", "--json")
    assert answer.code == 0
    assert answer.json["status"] == "learned" and answer.json["theta_error"] < 1e-10
    assert answer.json["report"] == str(tmp_path / "demo" / "report.html")


def test_demo_does_not_touch_what_is_not_its_own(cli, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    answer = cli(*DEMO, "--out", tmp_path)
    assert answer.code == 2 and "holds thesis.txt" in answer.error_line
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_demo_does_not_take_names_for_its_own(cli, tmp_path):
    """A truth and data that somebody else called so; even a layer that `plant` wrote."""
    plant(heads=1, dim=6).save(tmp_path / "truth.safetensors")
    (tmp_path / "data.npz").write_text("precious")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    answer = cli(*DEMO, "--out", tmp_path)
    assert answer.code == 2 and "holds data.npz, which no demo wrote" in answer.error_line
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_demo_that_is_refused_leaves_the_earlier_one(cli, tmp_path):
    out = tmp_path / "demo"
    assert cli(*DEMO, "--out", out).code == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert "too few examples" in cli(*DEMO, "--out", out, "--examples", 1).error_line
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--heads", 0), "heads is 0"),
        (("--seq-len", 1), "seq_len is 1"),
        (("--examples", 0), "examples is 0"),
        (("--examples", 1), "n = 1 is too few examples"),
        (("--scale", "nan"), "scale is nan"),
    ],
)
def test_demo_refuses(cli, tmp_path, options, complaint):
    answer = cli(*DEMO, "--out", tmp_path / "demo", *options)
    assert answer.code == 2 and complaint in answer.error_line
    assert not (tmp_path / "demo").exists()


def test_demo_that_does_not_learn(cli, tmp_path):
    answer = cli(*DEMO, "--out", tmp_path / "demo", "--examples", 200, "--json")
    assert answer.code == 3 and answer.json["certificate"] is None
    assert (
        "not learned: phase verify: too few examples were kept away" in answer.err.splitlines()[-1]
    )
    assert "theta_error" not in answer.json
