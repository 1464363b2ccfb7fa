"""Help as plain text: no name is cut, nothing is boxed, and it reads the same in a file.

Tables that are drawn for a terminal shorten what does not fit. Here a name that is too long has a
line of its own.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from typing import Any

import typer

__all__ = ["HelpPage"]

# Typer carries its own copy of Click since 0.26 and used the package before.
Formatter: Any = typer.Context.formatter_class

NAMES = 30  # columns of names beside which there is room for what they mean
UNBROKEN = "\N{NO-BREAK SPACE}"
LEAST = 20  # columns for what they mean, however narrow the terminal is


def _plain() -> bool:
    """Whether nothing is to be coloured. Pipes and files need no question: they get text alone."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def _filled(text: str, width: int, indent: str) -> str:
    """Lines of that width. Names of options, which have hyphens, and short defaults stay whole."""
    words, bracket, default = text.replace("  \\[", "  [").partition("  [")  # escaped by typer 0.16
    if len(bracket + default) <= width - len(indent):
        default = default.replace(" ", UNBROKEN)
    lines = textwrap.fill(
        f"{words}{bracket}{default}",
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return lines.replace(UNBROKEN, " ")


class HelpPage(Formatter):
    r"""What commands write their help on.

    >>> import re
    >>> page = HelpPage(width=40)
    >>> page.write_dl([("--heads", "How many."), ("--a-name-that-has-no-room-beside-it", "Long.")])
    >>> print(re.sub("\x1b.*?m", "", page.getvalue()).rstrip())
    --heads                         How many.
    --a-name-that-has-no-room-beside-it
                                    Long.
    """

    def write_heading(self, heading: str) -> None:
        text = f"{heading}:"
        self.write(f"{text if _plain() else typer.style(text, bold=True)}\n")

    def write_text(self, text: str) -> None:
        """Paragraphs."""
        indent = " " * self.current_indent
        paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
        self.write("\n\n".join(_filled(part, self.width, indent) for part in paragraphs) + "\n")

    def write_dl(
        self, rows: Sequence[tuple[str, str]], col_max: int = NAMES, col_spacing: int = 2
    ) -> None:
        """Names, and what they mean."""
        column = min(max(len(name) for name, _ in rows), col_max) + col_spacing
        margin = " " * (self.current_indent + column)
        for name, meaning in rows:
            told = _filled(meaning, max(self.width, len(margin) + LEAST), margin)
            if len(name) + col_spacing <= column:
                told = told[self.current_indent + len(name) :]
            else:
                told = f"\n{told}"
            shown = name if _plain() else typer.style(name, fg="cyan")
            self.write(f"{' ' * self.current_indent}{shown}{told}".rstrip() + "\n")
