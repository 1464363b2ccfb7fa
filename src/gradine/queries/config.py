"""Settings of learning by queries, with the reason for each default."""

from __future__ import annotations

from dataclasses import dataclass

from gradine.fit import LearnConfig
from gradine.settings import Count, Positive, Threshold, Whole

__all__ = ["QueryConfig"]


@dataclass(frozen=True)
class QueryConfig(LearnConfig):
    """Those of `LearnConfig` that verify an answer and fit it, and how questions are asked.

    >>> QueryConfig(verify_queries=400).verify_queries, QueryConfig().confidence
    (400, 0.99)
    """

    #: Fresh sequences that verify an answer (never fewer than `least_certify`), and their tokens.
    verify_queries: Count = 200
    verify_tokens: Count = 4
    #: Their tokens have the size at which a logit of the answer has this standard deviation: so
    #: that attention is neither flat, where it would not be tested, nor one token alone.
    verify_logit: Positive = 2.0
    #: Unknown numbers up to which `auto` takes random questions and a fit: beyond, each step of it
    #: is slow, and a design is quicker.
    affordable: Threshold = 2e5
    #: The fit. Tokens have the size at which a logit has this standard deviation: with 2 a fit to
    #: so few rows often ends in a local minimum, below 0.5 hardly ever.
    fit_logit: Positive = 0.35
    #: Tokens of a sequence: at least so many, and so many times the number at which a row tells as
    #: much of Theta as the counting bound takes for granted.
    least_tokens: Count = 8
    spread_tokens: Positive = 1.5
    most_tokens: Count = 256
    #: Rows to begin with, over the counting bound; how that grows where a fit fails; its end.
    first_ratio: Positive = 1.5
    ratio_growth: Positive = 1.35
    most_ratio: Positive = 3.7
    #: The same where heads are known to be narrow, over the bound for such heads: starts of low
    #: rank need more equations and sharper attention. Before as many rows are asked as full heads
    #: take, full ones are fitted.
    narrow_logit: Positive = 1.0
    narrow_ratio: Positive = 4.0
    narrow_growth: Positive = 1.5
    #: The same for answers with noise: it averages out over the rows, and short sequences of
    #: larger tokens have larger outputs.
    noisy_ratio: Positive = 16.0
    noisy_logit: Positive = 2.0
    #: Starts of a fit before more is asked: so many, and more where a start takes a second or less,
    #: as rows are dearer than that.
    fit_starts: Count = 2
    quick_starts: Count = 8
    #: Numbers of heads beyond the counted one that are tried, where no fit is exact and
    #: there was no gap after the counted ones; one, where there was.
    more_heads: Whole = 3
