"""How objects show themselves in a notebook.

What is drawn comes before those who draw it (`gradine.report`), and imports go one way: an object
finds its drawing by name, when a notebook asks for it.
"""

from __future__ import annotations

import importlib

__all__ = ["Displayed"]

DRAWINGS = "gradine.report.notebook"


class Displayed:
    """An object that notebooks show as a small piece of HTML."""

    def _repr_html_(self) -> str:
        return importlib.import_module(DRAWINGS).html_of(self)
