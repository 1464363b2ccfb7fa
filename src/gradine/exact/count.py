"""How many heads: the number after which one more explains nothing more.

Without noise the residual falls to rounding once there are enough heads, and one fewer leaves it
orders of magnitude higher. With noise it falls to the noise; then validation examples decide, by a
paired comparison of two fits example by example.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gradine.exact.config import ExactConfig
from gradine.exact.results import HeadFit

__all__ = ["count_heads", "improves", "needed_heads", "spare_heads"]

Array = NDArray[np.float64]

BY_FAR = 0.1  # the same for their squares, however few examples there are
PLAINLY = 0.7  # validation errors this far apart are not a matter of the number of examples
SPARE = 1e-3  # heads this near to another, or projections this small, are not heads of their own


def count_heads(
    fit: Callable[[int], HeadFit],
    ripe_fit: Callable[[int], HeadFit],
    first: int,
    most: int,
    sure: bool,
    config: ExactConfig,
) -> int:
    """The smallest number of heads that explains as much as any more do.

    ``fit`` gives the fit with so many heads (and remembers it), ``ripe_fit`` the same on as many
    examples as every other number of heads gets, ``first`` is where to begin, and ``sure`` says
    that one head fewer need not be tried where ``first`` is exact.
    """
    m, upper = first, most
    lower = 1  # fewer than this have been seen not to do
    while True:
        here = fit(m)
        if here.exact:
            spare = spare_heads(here)
            if m > lower and (spare or not sure):
                m, sure = max(lower, m - max(spare, 1)), False
                upper = min(upper, here.heads)
                if fit(m).exact:
                    continue
                lower = m + 1
                m = lower
                sure = True
                continue
            return m
        if m < upper and _better(fit, ripe_fit, m, config):
            m, lower, sure = m + 1, m + 1, True
            continue
        if m > lower and not improves(ripe_fit(m - 1), ripe_fit(m), config):
            m, upper = m - 1, m - 1
            continue
        return m


def _better(
    fit: Callable[[int], HeadFit],
    ripe_fit: Callable[[int], HeadFit],
    m: int,
    config: ExactConfig,
) -> bool:
    """Whether one head more than m explains more; where that is plain, nothing has to ripen."""
    here, more = fit(m), fit(m + 1)
    if more.validation_error < PLAINLY * here.validation_error:
        return True
    return not ripe_fit(m).exact and improves(ripe_fit(m), ripe_fit(m + 1), config)


def improves(fewer: HeadFit, more: HeadFit, config: ExactConfig) -> bool:
    """Whether the second fit is better on validation examples, beyond chance."""
    if np.mean(more.validation_errors) < BY_FAR * np.mean(fewer.validation_errors):
        return True  # few examples differ so much among themselves that nothing else would show
    gain = fewer.validation_errors - more.validation_errors
    mean, error = float(np.mean(gain)), float(np.std(gain)) / np.sqrt(len(gain))
    enough = config.least_gain * float(np.mean(fewer.validation_errors))
    return mean > config.significance * error and mean > enough


def needed_heads(fit: HeadFit) -> list[int]:
    """Heads that an exact fit cannot do without: no copy of another, none that does nothing."""
    size = np.sqrt(np.sum(fit.w**2, axis=(1, 2)))
    kept: list[int] = []
    for i, theta in enumerate(fit.theta):
        near = any(
            np.linalg.norm(theta - fit.theta[j]) <= SPARE * max(np.linalg.norm(fit.theta[j]), 1.0)
            for j in kept
        )
        if size[i] > SPARE * size.max() and not near:
            kept.append(i)
    return kept or [int(np.argmax(size))]


def spare_heads(fit: HeadFit) -> int:
    """How many others there are."""
    return fit.heads - len(needed_heads(fit))
