"""Part of phase 5: how many heads does the body show?

The singular values of the slabs say it: m of them are apart from the bulk. Where no gap is clear,
phase 6 is tried in small for each number in question, and the fewest heads that explain fresh
examples are taken.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gradine.examples import FittingData
from gradine.sculpt.body import Body, affine_hull, plausible_counts
from gradine.sculpt.config import SculptConfig
from gradine.sculpt.polish import polish
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
) -> tuple[int, str]:
    """As asked for, unless the spectrum clearly objects; as the body shows, if not asked.

    Also says what settled it: "given", "spectrum" or "trial".
    """
    spectrum = affine_hull(body.A, body.b, body.sigma, 1).spectrum
    counts = plausible_counts(spectrum, config)
    if asked is not None:
        _check_request(asked, counts, spectrum, config)
        return asked, "given"
    if not counts:
        raise NotLearned(Status.NO_GAP)
    likeliest = counts[0]
    gap = spectrum[likeliest] / max(spectrum[likeliest - 1], config.negligible)
    clear = len(counts) == 1 and gap > config.clear_gap
    # The point that fits best is apart with any number of heads; one head fits exactly.
    if likeliest == 1 and spectrum[0] > config.negligible:
        clear = False
    if clear or len(spectrum) < 3:
        return likeliest, "spectrum"
    trial = partial(_validation_error, data, body, carved, proxy, config, seed)
    errors: dict[int, float] = {}
    # Values of the hull may hide in the bulk's edge: look a little beyond what it shows.
    beyond = min(max(counts) + config.counts_beyond, config.most_heads, len(spectrum) - 2)
    for m in range(min(counts), max(*counts, beyond) + 1):
        errors[m] = trial(m)
        if errors[m] <= config.convincing:
            return m, "trial"
    limit = config.as_well * min(errors[m] for m in counts)
    return min(m for m in counts if errors[m] <= limit), "trial"


def _validation_error(
    data: FittingData,
    body: Body,
    carved: Sculpted,
    proxy: Proxy,
    config: SculptConfig,
    seed: int,
    m: int,
) -> float:
    """How well m heads explain fresh examples, by phase 6 (and the polish) in small."""
    small = replace(
        config,
        chords=False,
        net_tuples=max(config.net_tuples // 10, 1),
        net_examples=max(config.net_examples // 3, 1),
        refined_tuples=2,
        polish_steps=config.polish_steps // 2,
    )
    span = span_of_heads(body, carved.center, proxy.theta, m, small, seed)
    found = search_net(data, span, carved.center, small, seed)
    return (
        polish(data, found, small, seed).validation_error
        if config.polish
        else (found.validation_error)
    )


def _check_request(asked: int, counts: list[int], spectrum: Array, config: SculptConfig) -> None:
    """Refuse a number of heads that the spectrum rules out."""
    values = np.maximum(spectrum, config.negligible)
    gaps = values[1:] / values[:-1]  # gaps[i - 1] is the gap after i
    if not counts or asked in counts:
        return
    shown = counts[0]
    if max(asked, shown) > len(gaps):  # of so few values nothing can be told
        return
    if gaps[shown - 1] <= config.clear_gap or gaps[asked - 1] >= config.clear_gap:
        return
    # More than is shown is refused only if the last value asked for is like the next, in the bulk.
    in_the_bulk = gaps[asked - 1] < config.bulk_gap
    if shown > asked or in_the_bulk:
        status = Status.MORE_HEADS if shown > asked else Status.FEWER_HEADS
        raise NotLearned(status, f"asked for {asked}, the body shows {shown}", heads=shown)
