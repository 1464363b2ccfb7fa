"""The report in a real browser: it renders, fits a phone, follows the theme, and is silent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gradine.report import write_report

pytestmark = pytest.mark.browser

REPORTS = ("learned", "stopped", "exact", "noisy")
WIDTHS = {"desktop": 1280, "phone": 390, "small phone": 320}
#: Roles that one operates, or that hold what one reads: each needs a name to be called by.
NAMED = {
    "application",
    "button",
    "checkbox",
    "combobox",
    "group",
    "image",
    "link",
    "navigation",
    "region",
    "spinbutton",
    "table",
    "textbox",
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory, pair, cancelled, exact, noisy) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    write_report(folder / "learned.html", pair.fit, truth=pair.truth, example=pair.example)
    write_report(folder / "stopped.html", cancelled.fit, truth=cancelled.truth)
    write_report(folder / "exact.html", exact.fit, truth=exact.truth, example=exact.example)
    write_report(folder / "noisy.html", noisy.fit, example=noisy.example)
    return folder


@pytest.fixture
def opened(browser, reports):
    """Opens pages that must have nothing to complain about, and closes them."""
    pages = []

    def open_page(name: str, width: int = 1280, **options):
        pages.append(browser.page(reports / f"{name}.html", width, **options))
        return pages[-1]

    yield open_page
    for page in pages:
        assert page.complaints() == []
        assert page.requests() == []
        page.close()


def shade(page, path: Path) -> float:
    page.photograph(path)
    return float(np.asarray(Image.open(path).convert("L")).mean())


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("device", WIDTHS)
def test_page_renders_and_nothing_sticks_out_sideways(opened, tmp_path, name, device):
    page = opened(name, WIDTHS[device])
    page.run("document.querySelectorAll('details').forEach(part => part.open = true)")
    page.run("document.getElementById('steps-all').click()")
    assert page.run("document.documentElement.scrollWidth") == WIDTHS[device]
    page.photograph(tmp_path / "page.png")
    assert len(Image.open(tmp_path / "page.png").convert("RGB").getcolors(2**24) or ()) > 100


def test_colours_follow_the_system_and_the_switch(opened, tmp_path):
    dark = opened("learned", prefers_color_scheme="dark")
    light = opened("learned", prefers_color_scheme="light")
    assert shade(dark, tmp_path / "dark.png") < 80 < 200 < shade(light, tmp_path / "light.png")
    for page, key, darker in ((dark, "l", False), (light, "d", True)):
        page.run("document.getElementById('theme').focus()")
        page.press(key)  # a select goes to the option that begins so
        assert (shade(page, tmp_path / "other.png") < 80) == darker
        page.run("document.getElementById('theme').focus()")
        page.press("a")
        assert (shade(page, tmp_path / "other.png") < 80) != darker


@pytest.mark.parametrize("name", REPORTS)
def test_every_control_has_a_name(opened, name):
    page = opened(name)
    page.run("document.querySelectorAll('details').forEach(part => part.open = true)")
    names = page.names()
    nameless = [role for role, words in names if role in NAMED and not words.strip()]
    assert nameless == []
    roles = {role for role, _ in names}
    assert {"banner", "navigation", "main", "region", "link", "button", "combobox"} <= roles
    if name != "stopped":
        assert ("textbox", "Tokens, one a row") in names
        assert ("combobox", "Head") in names and ("combobox", "Order") in names
        assert ("button", "next head") in names
        assert any(role == "application" and "Theta, learned" in it for role, it in names)


#: Text against what is behind it, by the formula of WCAG 2; pictures and what is hidden left out.
CONTRAST = """(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const parts = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const ground = (node) => {
    const behind = node ? parts(getComputedStyle(node).backgroundColor) : [255, 255, 255, 255];
    if (behind[3] === 255 || !node) return behind;
    const below = ground(node.parentElement), share = behind[3] / 255;
    return below.map((x, i) => (i === 3 ? 255 : x + (behind[i] - x) * share));
  };
  const light = (colour) => colour.slice(0, 3).map((x) => x / 255)
    .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4))
    .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
  const weak = [];
  for (const node of document.querySelectorAll("body *:not(script, svg *, option, :disabled)")) {
    const own = [...node.childNodes].some((it) => it.nodeType === 3 && it.data.trim());
    if (!own || !node.checkVisibility()) continue;
    const lights = [light(parts(getComputedStyle(node).color)), light(ground(node))];
    const ratio = (Math.max(...lights) + 0.05) / (Math.min(...lights) + 0.05);
    if (ratio < 4.5) weak.push([node.tagName, node.textContent.slice(0, 30), ratio]);
  }
  return weak;
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["learned", "stopped"])
def test_text_stands_out(opened, name, scheme):
    page = opened(name, prefers_color_scheme=scheme)
    page.run("document.getElementById('steps-all').click()")
    assert page.run(CONTRAST) == []


def test_without_scripts_the_page_tells_all_the_same(opened):
    page = opened("learned", scripts=False)
    words = page.run("document.body.innerText")
    for phase in ("1 crude sum", "5 span", "polish", "the end: verified"):
        assert f"\n{phase}\n" in words
    assert "Tokens of your own" not in words and "Copy the Python" not in words
    shown = page.run(
        "[...document.querySelectorAll('button, select')].filter(it => it.checkVisibility()).length"
    )
    assert shown == 0
    assert page.run("document.querySelectorAll('.pattern td').length") > 0


def test_nothing_moves_where_motion_is_not_wanted(opened):
    style = "getComputedStyle(document.documentElement).scrollBehavior"
    assert opened("stopped", prefers_reduced_motion="reduce").run(style) == "auto"
    assert opened("stopped", prefers_reduced_motion="no-preference").run(style) == "smooth"
