"""The six phases, in order. This file is meant to be read beside the theorem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gradine.examples import FittingData
from gradine.sculpt.body import Body, slab_normals
from gradine.sculpt.certify import sculpt
from gradine.sculpt.config import SculptConfig
from gradine.sculpt.count import number_of_heads
from gradine.sculpt.crude_sum import crude_sum
from gradine.sculpt.polish import polish
from gradine.sculpt.proxy import proxy_and_refine
from gradine.sculpt.results import CrudeSum, Polished, Proxy, Sculpted, Searched, Span
from gradine.sculpt.search import search_net
from gradine.sculpt.span import span_of_heads

__all__ = ["RunPhase", "six_phases"]

Array = NDArray[np.float64]
Result = TypeVar("Result")

#: Runs a phase, or recalls its result from an earlier run: (name, result type, what to do).
RunPhase = Callable[[str, type[Any], Callable[[], Any]], Any]


def six_phases(
    data: FittingData, heads: int | None, config: SculptConfig, seed: int, run: RunPhase
) -> Polished | Searched:
    """Learn the heads; raises `NotLearned` from the phase that cannot go on."""
    # Phase 1: a crude estimate of W = sum_i W_i.
    crude: CrudeSum = run("crude_sum", CrudeSum, lambda: crude_sum(data, config))

    # Phase 2: rows on which all heads agree carve a convex body around the heads.
    carved: Sculpted = run("sculpt", Sculpted, lambda: sculpt(data, crude.estimate, config, heads))

    # Phase 3: its minimum-norm point tells where all heads look at one token: W refined.
    first: Sculpted = carved
    proxy: Proxy = run("proxy", Proxy, lambda: proxy_and_refine(data, body_of(first), config))

    # Phase 4: carve again with the refined W, while that refines W further.
    for again in range(1, config.most_rounds + 1):
        refined, before = proxy.refined_sum, proxy.residual
        tighter: Sculpted = run(
            f"sculpt_again_{again}",
            Sculpted,
            lambda W=refined: sculpt(data, W, config, heads),
        )
        carved = tighter
        proxy = run(
            f"proxy_again_{again}",
            Proxy,
            lambda slabs=tighter: proxy_and_refine(data, body_of(slabs), config),
        )
        if proxy.residual > config.worthwhile * before:
            break

    # Phase 5: the body is long only along the affine hull of the heads.
    last, nearest = carved, proxy

    def find_span() -> Span:
        body = body_of(last)
        m, how = number_of_heads(data, body, last, nearest, heads, config, seed)
        span = span_of_heads(body, last.center, nearest.theta, m, config, seed)
        return replace(span, counted_by=how)

    span: Span = run("span", Span, find_span)

    # Phase 6: m points of the hull that explain fresh examples best.
    found: Searched = run(
        "search", Searched, lambda: search_net(data, span, last.center, config, seed)
    )
    if not config.polish:
        return found

    # Beyond the theorem: all parameters at once, from there.
    return run("polish", Polished, lambda: polish(data, found, config, seed))


def body_of(carved: Sculpted) -> Body:
    """The body that the slabs leave, at the smallest slack for which it is not empty."""
    return Body(
        slab_normals(carved.queries, carved.differences),
        carved.offsets,
        carved.sigma,
        carved.feasible_slack,
    )
