"""The report in a real browser: it renders, fits a phone, follows the dark theme, is silent."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gradine.report import write_report

pytestmark = pytest.mark.browser

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--allow-file-access-from-files",  # lets the frame below look into the report
    "--enable-logging=stderr",
    "--v=0",
]
NAMES_OF_REPORTS = ("learned", "stopped", "exact", "noisy")
WIDTHS = {"desktop": 1280, "phone": 390}


@pytest.fixture(scope="module")
def browser() -> str:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None and os.environ.get("CI"):
        pytest.fail(f"none of {', '.join(NAMES)} is installed, and CI must not go without")
    if found is None:
        pytest.skip(f"none of {', '.join(NAMES)} is installed")
    return found


@pytest.fixture(scope="module")
def reports(tmp_path_factory, pair, cancelled, exact, noisy) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    write_report(folder / "learned.html", pair.fit, truth=pair.truth, example=pair.example)
    write_report(folder / "stopped.html", cancelled.fit, truth=cancelled.truth)
    write_report(folder / "exact.html", exact.fit, truth=exact.truth, example=exact.example)
    write_report(folder / "noisy.html", noisy.fit, truth=noisy.truth, example=noisy.example)
    return folder


def open_page(browser: str, page: Path, *flags: str) -> str:
    """The answer of the browser on standard output; it must have nothing to complain about."""
    profile = page.parent / "profile"
    command = [browser, *FLAGS, f"--user-data-dir={profile}", *flags, page.as_uri()]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0, answer.stderr
    assert "CONSOLE" not in answer.stderr, answer.stderr
    return answer.stdout


def count_colours(path: Path) -> int:
    return len(Image.open(path).convert("RGB").getcolors(maxcolors=2**24))


@pytest.mark.parametrize("name", NAMES_OF_REPORTS)
@pytest.mark.parametrize("device", WIDTHS)
def test_page_renders(browser, reports, name, device):
    picture = reports / f"{name}-{device}.png"
    size = f"--window-size={WIDTHS[device]},2400"
    open_page(browser, reports / f"{name}.html", size, f"--screenshot={picture}")
    assert Image.open(picture).size[1] == 2400
    assert count_colours(picture) > 100


def test_dark_theme_is_dark(browser, reports):
    shades = []
    for scheme in ("0", "1"):  # dark, light
        picture = reports / f"scheme-{scheme}.png"
        flag = f"--blink-settings=preferredColorScheme={scheme}"
        size = "--window-size=1000,1500"
        open_page(browser, reports / "learned.html", flag, size, f"--screenshot={picture}")
        shades.append(np.asarray(Image.open(picture).convert("L")).mean())
    assert shades[0] < 80 < 200 < shades[1]


@pytest.mark.parametrize(("name", "plots"), [("learned", 6), ("exact", 5)])
def test_dom_has_every_section(browser, reports, name, plots):
    dom = open_page(browser, reports / f"{name}.html", "--dump-dom")
    sections = re.findall(r'<section id="(\w+)"', dom)
    assert len(sections) == 10 and sections[0] == "verdict" and sections[-1] == "ledger"
    assert len(re.findall(r'<svg class="plot"', dom)) == plots


@pytest.mark.parametrize("name", NAMES_OF_REPORTS)
@pytest.mark.parametrize("device", WIDTHS)
def test_nothing_sticks_out_sideways(browser, reports, name, device):
    """A frame as wide as the device around the report; a browser window cannot be that narrow."""
    width = WIDTHS[device]
    frame = reports / f"frame-{name}-{device}.html"
    frame.write_text(
        f'<!DOCTYPE html><iframe src="{name}.html" style="width:{width}px;height:900px;border:0">'
        "</iframe><p id=answer>none</p><script>"
        "document.querySelector('iframe').onload = event => {"
        "const page = event.target.contentDocument;"
        "page.querySelectorAll('details').forEach(part => part.open = true);"
        "document.getElementById('answer').textContent = page.documentElement.scrollWidth;"
        "}</script>"
    )
    dom = open_page(browser, frame, "--window-size=1400,1000", "--dump-dom")
    answer = re.search(r'id="answer">(\w+)<', dom)
    assert answer is not None
    assert answer[1] == str(width)
