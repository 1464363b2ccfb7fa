"""Part of phase 5: how many heads does the body show?

The singular values of the slabs say it: m of them are apart from the bulk. Where the gap leaves
more than one answer, phase 6 is tried in small for each, and the fewest heads that explain fresh
examples as well as any are taken.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gradine.sculpt.body import Body, affine_hull, plausible_counts
from gradine.sculpt.config import SculptConfig
from gradine.sculpt.fitting import FittingData
from gradine.sculpt.results import Proxy, Sculpted
from gradine.sculpt.search import search_net
from gradine.sculpt.span import span_of_heads
from gradine.status import NotLearned, Status

__all__ = ["number_of_heads"]

Array = NDArray[np.float64]


def number_of_heads(
    data: FittingData,
    body: Body,
    carved: Sculpted,
    proxy: Proxy,
    asked: int | None,
    config: SculptConfig,
    seed: int,
) -> int:
    """As asked for, unless the spectrum clearly objects; as the body shows, if not asked."""
    spectrum = affine_hull(body.A, body.b, body.sigma, 1).spectrum
    counts = plausible_counts(spectrum, config)
    if asked is not None:
        _check_request(asked, counts, spectrum, config)
        return asked
    if not counts:
        raise NotLearned(Status.NO_GAP)
    if len(counts) == 1:
        return counts[0]
    small = replace(
        config,
        chords=False,
        net_tuples=config.net_tuples // 10,
        net_examples=config.net_examples // 3,
        refined_tuples=2,
    )
    errors = {}
    for m in counts:
        span = span_of_heads(body, carved.center, proxy.theta, m, small, seed)
        errors[m] = search_net(data, span, carved.center, small, seed).validation_error
    return min(m for m in counts if errors[m] <= config.as_well * min(errors.values()))


def _check_request(asked: int, counts: list[int], spectrum: Array, config: SculptConfig) -> None:
    """Refuse a number of heads that the spectrum rules out."""
    values = np.maximum(spectrum, config.negligible)
    gaps = values[1:] / values[:-1]  # gaps[i - 1] is the gap after i
    if not counts or asked in counts:
        return
    shown = counts[0]
    if gaps[shown - 1] > config.clear_gap > gaps[asked - 1]:
        status = Status.FEWER_HEADS if shown < asked else Status.MORE_HEADS
        raise NotLearned(status, f"asked for {asked}, the body shows {shown}", heads=shown)
