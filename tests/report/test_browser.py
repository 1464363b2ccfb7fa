"""The report in a real browser: it renders, fits a phone, follows the theme, and is silent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gradine.report import write_report

pytestmark = pytest.mark.browser

REPORTS = ("learned", "stopped", "exact", "noisy")
WIDTHS = (1280, 390, 320)  # a desktop, phones
#: Roles that one operates, or that hold what one reads: each needs a name to be called by.
NAMED = {
    "application",
    "button",
    "checkbox",
    "combobox",
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


@pytest.fixture(scope="module")
def pages(browser, reports):
    """Each report, opened once; in the end it must have had nothing to complain about."""
    opened = {name: browser.page(reports / f"{name}.html") for name in REPORTS}
    for page in opened.values():  # all of it in view
        page.run("document.querySelectorAll('details').forEach(part => part.open = true)")
        page.run("document.getElementById('steps-all').click()")
    yield opened
    for page in opened.values():
        assert page.complaints() == []
        assert page.requests() == []
        page.close()


def shade(page, path: Path) -> float:
    page.photograph(path)
    return float(np.asarray(Image.open(path).convert("L")).mean())


@pytest.mark.parametrize("name", REPORTS)
def test_page_renders_and_nothing_sticks_out_sideways(pages, tmp_path, name):
    page = pages[name]
    for width in WIDTHS:
        page.resize(width)
        assert page.run("document.documentElement.scrollWidth") == width
        page.photograph(tmp_path / "page.png")
        colours = Image.open(tmp_path / "page.png").convert("RGB").getcolors(2**24)
        assert colours is not None and len(colours) > 100


def test_a_table_that_goes_on_can_be_scrolled_by_keyboard(pages):
    page = pages["exact"]
    page.resize(320)
    wide = (
        "[...document.querySelectorAll('#fit .wide')].find(it => it.scrollWidth > it.clientWidth)"
    )
    page.run(f"{wide}.focus()")
    page.press("ArrowRight")
    page.until(f"{wide}.scrollLeft > 0")
    assert page.run(f"getComputedStyle({wide}).backgroundAttachment") == (
        "local, local, scroll, scroll"
    )


def test_colours_follow_the_system_and_the_switch(pages, tmp_path):
    page, picture = pages["stopped"], tmp_path / "page.png"

    def dark(scheme: str, *keys: str) -> bool:
        page.media(prefers_color_scheme=scheme)
        page.run("document.getElementById('theme').focus()")
        for key in keys:
            page.press(key)
        mean = shade(page, picture)
        assert mean < 80 or mean > 200
        return mean < 80

    down, up = "ArrowDown", "ArrowUp"
    assert dark("dark") and not dark("light")
    assert not dark("dark", down)  # light
    assert dark("light", down)  # dark
    assert dark("dark", up, up) and not dark("light")  # as the system


@pytest.mark.parametrize("name", REPORTS)
def test_every_control_has_a_name(pages, name):
    names = pages[name].names()
    nameless = [role for role, words in names if role in NAMED and not words.strip()]
    assert nameless == []
    plain = "[role]:not([aria-label], [role=alert])"  # an alert says what there is to say
    assert pages[name].run(f"document.querySelectorAll('{plain}').length") == 0
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
def test_text_stands_out(pages, name, scheme):
    pages[name].media(prefers_color_scheme=scheme)
    assert pages[name].run(CONTRAST) == []


def test_nothing_moves_where_motion_is_not_wanted(pages):
    style = "getComputedStyle(document.documentElement).scrollBehavior"
    for wanted, behaviour in (("reduce", "auto"), ("no-preference", "smooth")):
        pages["stopped"].media(prefers_reduced_motion=wanted)
        assert pages["stopped"].run(style) == behaviour


def test_without_its_script_the_page_tells_all_the_same(browser, reports):
    page = browser.page(reports / "learned.html", scripts=False)
    words = page.run("document.body.innerText")
    for phase in ("1 crude sum crude_sum", "5 span span", "polish", "the end: verified"):
        assert f"\n{phase}\n" in words
    assert "Tokens of your own" not in words and "Copy the Python" not in words
    visible = "[...document.querySelectorAll('button, select')].filter(it => it.checkVisibility())"
    assert page.run(f"{visible}.length") == 0
    assert page.run("document.querySelectorAll('.pattern td').length") > 0
    page.close()
