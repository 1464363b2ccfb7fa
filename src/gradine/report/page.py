"""The page around the sections. It needs no script, no network and no file beside it."""

from __future__ import annotations

from gradine.report import asking, exact_sections, heads, known, ledger, sections
from gradine.report.story import Story
from gradine.report.style import STYLE
from gradine.report.verdict import verdict, word_of

__all__ = ["page"]

# The policy makes the promise binding: a browser will load nothing and run nothing.
HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
"""


def page(story: Story) -> str:
    """The whole report, in the order of the story."""
    word = word_of(story).lower()
    parts = [
        verdict(story),
        *(() if story.fit.asking is None else asking.asking(story)),
        *(_exact(story) if story.exact_ran else ()),
        *(_sculpt(story) if story.sculpt_ran else ()),
        heads.heads(story),
        heads.attention(story),
        known.known(story),
        sections.certificate(story),
        ledger.ledger(story),
    ]
    return (
        f"{HEAD}<title>Gradine report: {word}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
        f"<header><h1>Gradine</h1><p>{_subject(story)}</p></header>\n"
        f"<main>\n{chr(10).join(parts)}\n</main>\n</body>\n</html>\n"
    )


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
