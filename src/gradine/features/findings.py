"""What experiments with random features say together: medians, quartiles, slopes, predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine.features.complexity import complexity
from gradine.features.experiments import FAMILIES, Part, Setting, Unit, targets
from gradine.features.maps import Mean
from gradine.features.targets import Target, on_sphere

__all__ = ["findings", "slope"]

Array = NDArray[np.float64]

LAST_SIZES = 4  # that a slope is taken from
VARIANCE_SAMPLES = 20_000
NEAR = 0.1  # squared error, over a target's mean square, of the function whose B is taken
MEANS: dict[str, Mean] = {"RFA": "zero", "BRFA": "identity"}


def findings(units: Sequence[Unit], setting: Setting, figures: Sequence[str]) -> dict[str, Any]:
    """Everything that the figures show, as JSON."""
    return {
        "setting": asdict(setting),
        "figures": {figure: _figure(figure, units, setting) for figure in figures},
        "seconds": sum(unit.seconds for unit in units),
    }


def _figure(figure: str, units: Sequence[Unit], setting: Setting) -> dict[str, Any]:
    part: Part = "targets" if figure in FAMILIES else "bridge"
    sizes = setting.sizes_of(part)
    names = [name for unit in units if unit.part == part for name in unit.curves]
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for name in names if name.startswith(f"{figure}/")):
        models: dict[str, list[list[float]]] = {}
        for unit in units:
            if unit.part == part and name in unit.curves:
                models.setdefault(unit.model, []).append(unit.curves[name].errors)
        spread = {model: _spread(np.array(errors), sizes) for model, errors in models.items()}
        found[name.split("/")[1]] = {"models": spread}
    if figure in FAMILIES:
        _predict(figure, found, setting)
    return found


def _spread(errors: Array, sizes: Sequence[int]) -> dict[str, Any]:
    """Over seeds, which are the rows."""
    lower, median, upper = np.quantile(errors, (0.25, 0.5, 0.75), axis=0)
    return {
        "n": list(sizes),
        "median": median.tolist(),
        "lower_quartile": lower.tolist(),
        "upper_quartile": upper.tolist(),
        "errors": errors.tolist(),
        "slope": slope(sizes, median),
    }


def slope(sizes: Sequence[int], errors: Array) -> float:
    """Of log error against log n, at the largest sizes.

    >>> round(slope([10, 100, 1000], np.array([1.0, 0.1, 0.01])), 6)
    -1.0
    """
    n, e = np.log(np.array(sizes[-LAST_SIZES:])), np.log(np.maximum(errors[-LAST_SIZES:], 1e-300))
    return float(np.polyfit(n, e, 1)[0]) if len(n) > 1 else 0.0


def _predict(figure: str, found: dict[str, Any], setting: Setting) -> None:
    """c sqrt(B / n) over the variance, with c such that RFA ends where it is measured to.

    The theory has an upper bound: what can be compared is the slope, c from target to target, and
    what the same c says of BRFA. B is that of a function within `NEAR` of the target.
    """
    X = on_sphere(VARIANCE_SAMPLES, setting.n_keys, setting.dim, 0)
    seeds = [targets((figure,), setting.dim, seed) for seed in range(setting.seeds)]
    for name, entry in found.items():
        drawn = [wanted[f"{figure}/{name}"] for wanted in seeds]
        entry["variance"] = float(np.median([target(X).var() for target in drawn]))
        entry["complexity"] = {
            model: float(np.median([_complexity(t, mean, setting) for t in drawn]))
            for model, mean in MEANS.items()
        }
        rates = {
            model: np.sqrt(B / np.array(setting.sizes)) / entry["variance"]
            for model, B in entry["complexity"].items()
        }
        constant = entry["models"]["RFA"]["median"][-1] / float(rates["RFA"][-1])
        entry["predicted_constant"] = constant
        entry["predicted"] = {model: (constant * rate).tolist() for model, rate in rates.items()}


def _complexity(target: Target, mean: Mean, setting: Setting) -> float:
    return complexity(target, setting.dim, mean, NEAR, setting.scale)
