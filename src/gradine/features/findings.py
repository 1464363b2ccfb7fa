"""What experiments with random features say together: medians, quartiles, slopes, rates."""

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

__all__ = ["NEAR", "findings", "slope"]

Array = NDArray[np.float64]

LAST_SIZES = 4  # that a slope is taken from
VARIANCE_SAMPLES = 20_000
ROUNDING = 1e-20  # errors below this are what rounding left, and so is their slope
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
        for entry in found.values():  # rows of both have the same seeds, so the same examples
            plain, biased = (np.array(entry["models"][model]["errors"]) for model in MEANS)
            entry["ratio"] = _quartiles(plain / biased)
        _predict(figure, found, setting)
    return found


def _spread(errors: Array, sizes: Sequence[int]) -> dict[str, Any]:
    """Over seeds, which are the rows."""
    return {
        "n": list(sizes),
        **_quartiles(errors),
        "errors": errors.tolist(),
        "slope": slope(sizes, np.median(errors, axis=0)),
    }


def _quartiles(values: Array) -> dict[str, list[float]]:
    lower, median, upper = np.quantile(values, (0.25, 0.5, 0.75), axis=0).tolist()
    return {"median": median, "lower_quartile": lower, "upper_quartile": upper}


def slope(sizes: Sequence[int], errors: Array) -> float | None:
    """Of log error against log n, at the largest sizes; None if there is none: one size, or an
    error that has reached rounding.

    >>> f"{slope([10, 100, 1000], np.array([1.0, 0.1, 0.01])):.6f}"
    '-1.000000'
    >>> slope([10, 100, 1000], np.array([1.0, 2e-27, 4e-27])) is None
    True
    """
    last = errors[-LAST_SIZES:]
    if len(last) < 2 or last[-1] < ROUNDING:
        return None
    n = np.log(np.array(sizes[-LAST_SIZES:]))
    return float(np.polyfit(n, np.log(np.maximum(last, ROUNDING)), 1)[0])


def _predict(figure: str, found: dict[str, Any], setting: Setting) -> None:
    """The rate c sqrt(B / n) over the variance, with c such that RFA ends where it is measured to.

    That is a line of slope -1/2, and no bound: the theory's c is not known. What can be compared is
    the slope, c from target to target, and what the same c says of BRFA. B is the least within
    `NEAR` of the target: of RFA exactly, of BRFA an upper bound.
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
