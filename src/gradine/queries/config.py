"""Settings of learning by queries, with the reason for each default."""

from __future__ import annotations

from dataclasses import dataclass

from gradine.fit import LearnConfig

__all__ = ["QueryConfig"]


@dataclass(frozen=True)
class QueryConfig(LearnConfig):
    """Those of `LearnConfig` that verify an answer and fit it, and how questions are asked.

    >>> QueryConfig(verify_queries=400).verify_queries, QueryConfig().confidence
    (400, 0.99)
    """

    #: Fresh sequences that verify an answer (never fewer than `least_certify`), and their tokens.
    verify_queries: int = 200
    verify_tokens: int = 4
    #: Their tokens have the size at which a logit of the answer has this standard deviation: so
    #: that attention is neither flat, where it would not be tested, nor one token alone.
    verify_logit: float = 2.0
    #: Unknown numbers up to which `auto` takes random questions and a fit: beyond, each step of it
    #: is slow, and a design is quicker.
    affordable: float = 2e5
    #: The fit. Tokens have the size at which a logit has this standard deviation: with 2 a fit to
    #: so few rows often ends in a local minimum, below 0.5 hardly ever.
    fit_logit: float = 0.35
    #: Tokens of a sequence: at least so many, and so many times the number at which a row tells as
    #: much of Theta as the counting bound takes for granted.
    least_tokens: int = 8
    spread_tokens: float = 1.5
    most_tokens: int = 256
    #: Rows to begin with, over the counting bound; how that grows where a fit fails; its end.
    first_ratio: float = 1.5
    ratio_growth: float = 1.35
    most_ratio: float = 3.7
    #: The same where heads are known to be narrow, over the bound for such heads: starts of low
    #: rank need more equations and sharper attention. Before as many rows are asked as full heads
    #: take, full ones are fitted.
    narrow_logit: float = 1.0
    narrow_ratio: float = 4.0
    narrow_growth: float = 1.5
    #: The same for answers with noise: it averages out over the rows, and short sequences of
    #: larger tokens have larger outputs.
    noisy_ratio: float = 16.0
    noisy_logit: float = 2.0
    #: Starts of a fit before more is asked: so many, and more where a start takes a second or less,
    #: as rows are dearer than that.
    fit_starts: int = 2
    quick_starts: int = 8
    #: Numbers of heads beyond the counted one that are tried, where no fit is exact and
    #: there was no gap after the counted ones; one, where there was.
    more_heads: int = 3
