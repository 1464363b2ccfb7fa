r"""How many examples it takes: two counting bounds, what the exact learner adds, the six phases.

**Unknowns.** A layer has :math:`m (d^2 + d\, d_{out})` unknowns and an example :math:`k\, d_{out}`
numbers:

.. math:: n \ge \frac{m (d + d_{out})\, d}{k\, d_{out}} .

**Patterns.** Of the attention matrices, a row shows the :math:`m (k - 1)` differences of its logits
and nothing else, through :math:`d_{out}` numbers. So the Jacobian in the :math:`m d^2` entries of
all Theta has rank at most :math:`\min(d_{out}, m (k - 1))` for each of the nk rows, and heads are
not even locally determined unless

.. math:: n \ge \frac{m d^2}{k \min(d_{out}, m (k - 1))} .

It is the larger one for few heads and short sequences: with k = 2 and one head, d/2 times as large.

**The exact learner** needs hardly more than the larger of them, B. With probability C it succeeds
with

.. math:: n(C) = B + (0.12\, B + 2.6) \log\frac{1}{1 - C}

examples under fit: a share for starts that go astray, and a constant for small numbers. The form is
a guess, its two numbers are calibrated by measurement, on labels without noise and logits of
standard deviation 1 to 8, where that deviation made no difference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from gradine.exact.heads import unknowns
from gradine.sculpt.config import SculptConfig
from gradine.theory.patterns import margin_probability, matched_probability

__all__ = ["Need", "exact_need", "pattern_bound", "phase_needs", "unknowns_bound"]

#: Of the exact learner, above the bound: see the formula.
SHARE, CONSTANT = 0.12, 2.6

#: Phase 1. Noise of the crude sum that is no worse than its bias, up to 0.35 of it.
CRUDE_NOISE = 0.4
#: Phase 2. Attention of the heads differs by up to this on rows that carve first, with a sum that
#: is known as crudely.
CRUDE_MATCH = 0.2
#: Phases 4 and 5. The same with the refined sum.
MATCH = 0.1
#: Phase 3. A margin at which e^-margin is well within the residual that the phase allows (0.1).
MARGIN = 3.0
#: More examples than this are not counted: they are out of reach.
MOST_COUNTED = 10**15
#: Examples of the six phases beyond what they need in the mean, times log(1 / (1 - C)).
PHASE_SHARE = 0.25


@dataclass(frozen=True)
class Need:
    """What one phase needs, and why."""

    phase: str
    examples: int  #: under fit, at most `MOST_COUNTED`
    limit: str  #: what limits it


def unknowns_bound(heads: int, dim: int, seq_len: int, out_dim: int) -> float:
    """Unknowns of the layer over numbers in an example's output.

    >>> unknowns_bound(heads=2, dim=8, seq_len=4, out_dim=8)
    8.0
    """
    return unknowns(heads, dim, dim, out_dim, None) / (seq_len * out_dim)


def pattern_bound(heads: int, dim: int, seq_len: int, out_dim: int) -> float:
    """Entries of the attention matrices over what rows can show of them.

    >>> pattern_bound(heads=1, dim=8, seq_len=2, out_dim=8)
    32.0
    """
    return heads * dim**2 / (seq_len * min(out_dim, heads * (seq_len - 1)))


def exact_need(heads: int, dim: int, seq_len: int, out_dim: int, confidence: float) -> Need:
    """Examples that the exact learner must fit to succeed with probability ``confidence``.

    >>> exact_need(heads=2, dim=8, seq_len=4, out_dim=8, confidence=0.9)
    Need(phase='exact', examples=17, limit='unknowns: no fewer than 8')
    """
    sizes = (heads, dim, seq_len, out_dim)
    counted, shown = unknowns_bound(*sizes), pattern_bound(*sizes)
    bound = max(counted, shown)
    more = -math.log1p(-confidence)
    examples = math.ceil(bound + (SHARE * bound + CONSTANT) * more)
    what = "unknowns" if counted >= shown else "logits that rows show"
    return Need("exact", examples, f"{what}: no fewer than {math.ceil(bound)}")


def phase_needs(
    heads: int,
    dim: int,
    seq_len: int,
    scale: float,
    out_dim: int,
    confidence: float,
    config: SculptConfig | None = None,
) -> tuple[Need, ...]:
    """Examples that each of the six phases must see, with practical constants.

    >>> [need.examples for need in phase_needs(1, 8, 3, 4.0, 8, 0.9)]
    [119, 35, 105, 35, 23, 20]
    """
    config = SculptConfig() if config is None else config
    m, k, d = heads, seq_len, dim
    more = 1.0 - PHASE_SHARE * math.log1p(-confidence)
    crude, tight = (matched_probability(m, k, d, scale, t) for t in (CRUDE_MATCH, MATCH))
    margin = margin_probability(m, k, d, scale, MARGIN)
    pairs = k * (k - 1)  # slabs of an example, if all its rows are matched and informative
    slabs = config.least_slabs_per_unknown * d**2
    tokens = 2.0 ** min(d - 1, 60)  # up to sign, or more than will ever be drawn twice
    rows = _drawn(config.trimmed_rows_per_unknown * d, tokens)

    def needed(phase: str, wanted: float, each: float, limit: str) -> Need:
        examples = more * wanted / max(each, 1e-300)
        return Need(phase, math.ceil(min(examples, MOST_COUNTED)), limit)

    return (
        needed("1 crude sum", d * k / (k - 1), CRUDE_NOISE**2, f"noise below {CRUDE_NOISE:g}"),
        needed("2 sculpt", slabs, pairs * crude, f"rows matched to {CRUDE_MATCH:g}: {crude:.2g}"),
        needed("3 proxy", rows, k * margin, f"rows of margin {MARGIN:g}: {margin:.2g}"),
        needed("4 again", slabs, pairs * tight, f"rows matched to {MATCH:g}: {tight:.2g}"),
        needed("5 span", d**2 + m - 1, pairs * tight, "a slab for each direction"),
        replace(exact_need(m, d, k, out_dim, confidence), phase="6 search"),
    )


def _drawn(distinct: float, of: float) -> float:
    """Draws that give so many distinct tokens, up to sign: phase 3 takes each once, half at most.

    >>> round(_drawn(64, 128), 1)
    88.7
    """
    return -of * math.log1p(-min(distinct / of, 0.5))
