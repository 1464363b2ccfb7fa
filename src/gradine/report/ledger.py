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

#: Figures worth a line, and what to call them; those of a phase that is not named here are shown
#: under their own names.
LABELS = {
    "energy": "share of the outputs' energy",
    "rows": "rows",
    "informative": "share of informative rows",
    "slabs": "slabs kept",
    "dropped": "slabs dropped",
    "feasible_slack": "smallest slack",
    "residual": "residual",
    "heads": "heads",
    "gap": "gap",
    "chord_agreement": "agreement with chords",
    "queries": "queries",
    "span queries": "membership queries",
    "points": "points of the net",
    "tuples": "tuples tried",
    "net_error": "error of the net",
    "validation_error": "validation error",
    "skipped": "skipped",
    "edge": "noise edge",
    "spectrum energy": "share beyond the linear part",
    "exact": "exact:",
    "settled": "settled:",
    "equations": "equations an unknown",
    "products": "products with the Jacobian",
    "flops": "operations",
    "samples": "simulated noises",
}
NOT_FIGURES = {"examples", "seconds", "counted", "applies"}


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
                escape(name.replace("_", " ")),
                number(examples) if examples else "-",
                "-" if seconds is None else f"{seconds:.2f}",
                escape("; ".join(_key_figures(name, figures))),
            ]
        )
    rows.append(["learning", number(fit.examples_used), f"{fit.seconds:.2f}", ""])
    head = ["phase", story.word, "seconds", "key figures"]
    settings = {"method": fit.method, "seed": str(fit.seed), "inputs": fit.survey.kind}
    settings |= _flat(asdict(fit.config))
    content = (
        f'<div class="ledger">{table(head, rows)}</div>'
        f"<details><summary>Settings</summary>{facts(settings)}</details>"
        f"<details><summary>Versions</summary>{facts(_versions())}</details>"
    )
    text = "Learning is the sum of the phases, the first pass over the data and the check"
    if fit.asking is not None:
        text = "Learning is the sum of the phases, and of looking at how exact the answers are"
    text += "; the curve is for this page alone." if "curve" in fit.phases else "."
    return section("ledger", f"Time, {story.word} and settings", text, content)


def _key_figures(phase: str, figures: dict[str, Any]) -> list[str]:
    lines = []
    for name, value in figures.items():
        if name in NOT_FIGURES or isinstance(value, list) or value in ("", None):
            continue
        label = LABELS.get(f"{phase} {name}") or LABELS.get(name, name.replace("_", " "))
        lines.append(f"{label} {_shown(value)}")
    return lines


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else number(value)


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
