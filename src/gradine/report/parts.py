"""Pieces of HTML that sections are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from gradine.report.draw import powers_of_ten

__all__ = ["code", "facts", "panels", "prose", "section", "table"]

NOT_REACHED = "Nothing to show: this run has no result of this phase."


def prose(text: str) -> str:
    """A plain sentence as HTML: its powers of ten as the rest of the page writes them.

    >>> prose("error 2e-13 > 1.5e+20 in run-1e5.npz")
    'error 2·10⁻¹³ &gt; 1.5·10²⁰ in run-1e5.npz'
    """
    return powers_of_ten(escape(text))


def section(name: str, title: str, text: str, content: str, *, reached: bool = False) -> str:
    """A section with its heading; without ``content`` it says that there is none.

    ``text`` is plain and is escaped here; ``content`` is HTML.
    """
    if not content and not reached:
        content = f'<p class="note">{NOT_REACHED}</p>'
        text = ""
    words = f"<p>{prose(text)}</p>\n" if text else ""
    return (
        f'<section id="{name}" aria-labelledby="{name}-title">\n'
        f'<h2 id="{name}-title">{escape(title)}</h2>\n{words}{content}\n</section>'
    )


def panels(*contents: str) -> str:
    """Contents side by side where there is room, below each other where there is not."""
    filled = [content for content in contents if content]
    inside = "\n".join(f'<div class="panel">{content}</div>' for content in filled)
    return f'<div class="panels">\n{inside}\n</div>'


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; cells are HTML, the first of a row is its heading. A wide one scrolls alone.

    ``caption`` is plain and is escaped here.
    """
    top = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    lines = [
        f'<tr><th scope="row">{row[0]}</th>'
        + "".join(f"<td>{cell}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    ]
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f"<table><caption>{escape(caption)}</caption>\n"
        f"<thead><tr>{top}</tr></thead>\n"
        f"<tbody>\n{chr(10).join(lines)}\n</tbody></table></div>"
    )


def facts(items: Mapping[str, str]) -> str:
    """Names and values; both are plain and are escaped here."""
    lines = [
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in items.items()
    ]
    return f'<dl class="facts">{"".join(lines)}</dl>'


def code(name: str, text: str) -> str:
    """Code that can be copied; ``text`` is plain and is escaped here."""
    return (
        f'<pre tabindex="0" role="region" aria-label="Python"><code id="{name}">{escape(text)}'
        f'</code></pre>\n<p><button type="button" data-copy="{name}" hidden>Copy the Python'
        f'</button> <output id="{name}-said" aria-live="polite"></output></p>'
    )
