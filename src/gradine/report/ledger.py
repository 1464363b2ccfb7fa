"""The end of the page: time and examples of each phase, settings, versions."""

from __future__ import annotations

import platform
from dataclasses import asdict
from html import escape
from typing import Any

from gradine import __version__
from gradine.fit import figures_of
from gradine.report.draw import number
from gradine.report.parts import facts, section, table
from gradine.report.story import Story

__all__ = ["ledger"]


def ledger(story: Story) -> str:
    """What each phase took, and with which settings it can be run again."""
    fit = story.fit
    rows = []
    for name, result in fit.phases.items():
        figures = figures_of(result)
        examples, seconds = figures.get("examples", figures.get("queries")), figures.get("seconds")
        examples = examples if name != "span" else None  # its queries are of another kind
        examples = examples[-1] if isinstance(examples, list) else examples  # ever more of them
        rows.append(
            [
                f"<code>{escape(name)}</code>",
                number(examples) if examples else "-",
                "-" if seconds is None else f"{seconds:.2f}",
            ]
        )
    rows.append(["learning", number(fit.examples_used), f"{fit.seconds:.2f}"])
    head = ["phase", story.word, "seconds"]
    settings = {"method": fit.method, "seed": str(fit.seed), "inputs": fit.survey.kind}
    settings |= _flat(asdict(fit.config))
    content = (
        f'<div class="ledger">{table("What each phase took", head, rows)}</div>'
        f"<details><summary>Settings</summary>{facts(settings)}</details>"
        f"<details><summary>Versions</summary>{facts(_versions())}</details>"
    )
    text = "Learning is the sum of the phases, the first pass over the data and the check"
    if fit.asking is not None:
        text = "Learning is the sum of the phases, and of looking at how exact the answers are"
    text += "; the curve is for this page alone." if "curve" in fit.phases else "."
    return section("ledger", f"Time, {story.word} and settings", text, content)


def _flat(config: dict[str, Any], prefix: str = "") -> dict[str, str]:
    flat = {}
    for name, value in config.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = str(value)
    return flat


def _versions() -> dict[str, str]:
    import matplotlib
    import numpy
    import scipy

    return {
        "gradine": __version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "matplotlib": matplotlib.__version__,
    }
