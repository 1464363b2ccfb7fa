"""What the paper says of the three models, at 4,096 examples."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.store import Store
from benchmarks.text import markdown, short
from gradine.features import experiments
from gradine.features.experiments import Unit, units_of
from gradine.features.experiments import measure as measure_unit
from gradine.features.findings import findings

__all__ = ["MEASURED_BY", "TITLE", "measure", "page"]

TITLE = "Orderings of the three models"
MEASURED_BY = ("features/orderings.py",)
#: (figure, target, below, above, least ratio) at ``EXAMPLES`` examples.
ORDERINGS = (
    ("powers", "p=2", "RFA", "RFMLP", 3.0),
    ("powers", "p=4", "RFA", "RFMLP", 3.0),
    ("correlation", "p=1", "BRFA", "RFA", 1.7),
    ("correlation", "p=2", "BRFA", "RFA", None),
    ("correlation", "p=3", "BRFA", "RFA", 1.25),
)
FIGURES = ("powers", "correlation")
EXAMPLES = 2**12


def measure(store: Store, quick: bool) -> dict[str, Any]:
    """Median errors of each model, by figure and target."""
    setting = replace(experiments.QUICK if quick else experiments.FULL, sizes=(EXAMPLES,))
    units = []
    for part, model, seed in units_of(FIGURES, setting):
        work = partial(measure_unit, part, model, seed, setting, FIGURES)
        entry = store.once(lambda work=work: {"unit": work().to_dict()}, model, seed, quick)
        units.append(Unit.from_dict(entry["unit"]))
    found = findings(units, setting, FIGURES)["figures"]
    errors = {
        f"{figure}/{name}": {m: c["median"][-1] for m, c in found[figure][name]["models"].items()}
        for figure, name, *_ in ORDERINGS
    }
    return {"errors": errors, "seeds": setting.seeds, "examples": EXAMPLES}


def page(content: dict[str, Any]) -> str:
    """Whether they are in the order that is claimed."""
    lines = []
    for figure, name, below, above, least in ORDERINGS:
        errors = content["errors"][f"{figure}/{name}"]
        ratio = errors[above] / errors[below]
        verdict = "-" if least is None else "holds" if ratio >= least else "MISSED"
        told = [f"{errors[model]:.3g}" for model in ("RFA", "BRFA", "RFMLP")]
        wanted = "-" if least is None else f"{least:g}"
        lines.append([figure, name, *told, f"{above} / {below}: {short(ratio)}", wanted, verdict])
    header = ["figure", "target", "RFA", "BRFA", "RFMLP", "ratio", "at least", ""]
    seeds, n = content["seeds"], content["examples"]
    text = f"Test error over variance at n = {n:,}, median over {seeds} seeds.\n\n"
    return text + markdown(header, lines)
