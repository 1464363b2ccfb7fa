"""The story of a run as one page: report.html, which opens anywhere, without a network.

Nothing here decides anything: it shows what the phases measured and, where a truth is at hand,
how near they came to it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from numpy.typing import ArrayLike

from gradine.files import write_text
from gradine.fit import Fit
from gradine.layer import AttentionLayer
from gradine.report.page import page
from gradine.report.story import tell
from gradine.score import Match

__all__ = ["report_html", "write_report"]


def write_report(
    path: str | os.PathLike[str],
    fit: Fit,
    *,
    truth: AttentionLayer | None = None,
    example: ArrayLike | None = None,
    words: Sequence[str] | None = None,
    match: Match | None = None,
    data: str | None = None,
) -> None:
    """Write the report of a run to ``path``; the file appears whole or not at all.

    ``truth`` is the layer that was to be found, if it is known; ``match`` is what
    `gradine.compare` said of it, measured here when left out. ``example`` is one token sequence
    (k, d) on which to show the attention patterns, and ``words`` what its tokens stand for.
    ``data`` is the file of the examples, for the Python that runs it again.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import gradine
    >>> truth, X = gradine.plant(heads=1, dim=4, scale=2.0), gradine.sample_inputs(400, 3, 4)
    >>> fit = gradine.learn(X, truth(X), heads=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(f"{folder}/report.html", fit, truth=truth)
    ...     Path(folder, "report.html").read_text() == report_html(fit, truth=truth)
    True
    """
    page = report_html(fit, truth=truth, example=example, words=words, match=match, data=data)
    write_text(path, page)


def report_html(
    fit: Fit,
    *,
    truth: AttentionLayer | None = None,
    example: ArrayLike | None = None,
    words: Sequence[str] | None = None,
    match: Match | None = None,
    data: str | None = None,
) -> str:
    """The report as a string; the same run gives the same string.

    >>> import gradine
    >>> X = gradine.sample_inputs(400, 3, 4)
    >>> fit = gradine.learn(X, gradine.plant(heads=1, dim=4, scale=2.0)(X), heads=1)
    >>> report_html(fit).startswith("<!DOCTYPE html>")
    True
    """
    return page(tell(fit, truth, example, match, words, data))
