"""What the tests of reports read out of a page."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

SCULPT = ("sum", "body", "hull", "polish")
ANSWER = ("heads", "attention", "known", "certificate", "again", "ledger")
VOID = {"meta", "img", "rect", "path", "use", "br", "link", "input", "hr"}


class Outline(HTMLParser):
    """Sections, ids, pictures without words, and whether every tag is closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.sections: list[str | None] = []
        self.ids: list[str | None] = []
        self.wordless = 0
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if tag == "section":
            self.sections.append(found.get("id"))
        if "id" in found:
            self.ids.append(found["id"])
        words = found.get("alt") or found.get("aria-label")
        self.wordless += tag in ("img", "svg") and not words
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


def check_page(html: str, *phases: str) -> Outline:
    """What holds for every report; ``phases`` are its sections about phases, sculpt's if none."""
    outline = Outline(html)
    assert outline.sections == ["verdict", "phases", *(phases or SCULPT), *ANSWER]
    assert outline.open == []
    assert len(set(outline.ids)) == len(outline.ids)
    assert outline.wordless == 0
    assert not re.search(r"https?:|<link|@import|(?:src|href)=\"(?!data:|#)", html)
    check_scripts(html)
    assert html.count("<table") == html.count("<caption>")
    assert all("tabindex" in part and "aria-label" in part for part in scrolled(html))
    said = html.split('id="phases"')[0], html.split('id="certificate"')[1].split("</section>")[0]
    assert not re.search(r"\de[-+]?\d", words_of(" ".join(said)))  # 2e-13
    assert "nan" not in re.findall(r">([^<]*)<", html)
    references = set(re.findall(r'(?:href="|url\()#([\w-]+)', html))
    assert references <= set(outline.ids)
    assert len(html) < 500_000
    return outline


def check_scripts(html: str) -> None:
    """Data that is JSON, and one script, which the policy names by what it is."""
    found = re.findall(r"<script([^>]*)>(.*?)</script>", html, re.DOTALL | re.IGNORECASE)
    assert [attributes for attributes, _ in found] == [' type="application/json" id="data"', ""]
    json.loads(found[0][1])
    digest = base64.b64encode(hashlib.sha256(found[1][1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html
    assert not re.search(r"\beval\b|innerHTML|Function\(|fetch\(|import\(", found[1][1])


def scrolled(html: str) -> list[str]:
    """Tags of what may be wider than the page."""
    return re.findall(r'<div class="wide"[^>]*>', html)


def words_of(html: str) -> str:
    code = r"<(style|script)\b.*?</\1>|<[^>]+>"
    return re.sub(r"\s+", " ", re.sub(code, " ", html, flags=re.DOTALL))
