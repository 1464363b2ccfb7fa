"""The page around the sections. It needs no network and no file beside it.

All that it says can be read without its script, which lets one explore it.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from gradine.report import (
    again,
    asking,
    controls,
    exact_sections,
    explore,
    heads,
    known,
    ledger,
    sections,
    steps,
)
from gradine.report.story import Story
from gradine.report.style import STYLE
from gradine.report.verdict import verdict, word_of

__all__ = ["page"]

# The policy makes the promise binding: a browser will load nothing, and run this script alone.
HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{hash}'">
"""
#: What the page always has, by the names in its list of contents.
CONTENTS = {
    "verdict": "Verdict",
    "phases": "Phases",
    "heads": "Heads",
    "attention": "Attention",
    "known": "What can be known",
    "certificate": "Certificate",
    "again": "Python",
    "ledger": "Settings",
}


def page(story: Story) -> str:
    """The whole report, in the order of the story."""
    word = word_of(story).lower()
    parts = [
        verdict(story),
        steps.steps(story),
        *(() if story.fit.asking is None else asking.asking(story)),
        *(_exact(story) if story.exact_ran else ()),
        *(_sculpt(story) if story.sculpt_ran else ()),
        '<div id="answer">',
        "" if story.learned is None else controls.heads_bar(story),
        heads.heads(story),
        heads.attention(story),
        "</div>",
        known.known(story),
        sections.certificate(story),
        again.again(story),
        ledger.ledger(story),
    ]
    code = script()
    digest = base64.b64encode(hashlib.sha256(code.encode("utf-8")).digest()).decode("ascii")
    links = "".join(f'<li><a href="#{name}">{label}</a></li>' for name, label in CONTENTS.items())
    return (
        f"{HEAD.format(hash=digest)}<title>Gradine report: {word}</title>\n"
        f"<style>\n{STYLE}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#verdict">Skip to the verdict</a>\n'
        f"<header><h1>Gradine</h1><p>{_subject(story)}</p>{controls.theme()}</header>\n"
        f'<nav aria-label="Contents"><ul>{links}</ul></nav>\n'
        f"<main>\n{chr(10).join(parts)}\n</main>\n"
        f'<script type="application/json" id="data">{explore.embedded(story)}</script>\n'
        f"<script>{code}</script>\n</body>\n</html>\n"
    )


def script() -> str:
    """The script of the page: its files in the order of their numbers, in one scope."""
    folder = resources.files("gradine.report") / "script"
    files = sorted(
        (it for it in folder.iterdir() if it.name.endswith(".js")), key=lambda it: it.name
    )
    body = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return f'"use strict";\n(() => {{\n{body}}})();\n'


def _exact(story: Story) -> list[str]:
    parts = (
        exact_sections.moments(story),
        exact_sections.fits(story),
        exact_sections.curve(story),
        exact_sections.determined(story),
    )
    return [part for part in parts if part]


def _sculpt(story: Story) -> list[str]:
    return [
        sections.total(story),
        sections.body(story),
        sections.hull(story),
        sections.polish(story),
    ]


def _subject(story: Story) -> str:
    seen = story.fit.survey
    if story.fit.asking is not None:
        return (
            "An attention layer learned by asking it: tokens with "
            f"{len(seen.x_mean)} coordinates, {len(seen.y_mean)} outputs a token."
        )
    return (
        f"An attention layer {'carved out of' if story.fit.method == 'sculpt' else 'learned from'} "
        "examples: sequences of "
        f"{seen.seq_len} tokens with {len(seen.x_mean)} coordinates, "
        f"{len(seen.y_mean)} outputs a token."
    )
