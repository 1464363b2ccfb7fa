"""Every constant of the six phases: the paper's value beside the practical one."""

from __future__ import annotations

from dataclasses import dataclass

from gradine.settings import Count, Positive, Settings, Share, Threshold, Whole

__all__ = ["SculptConfig"]


@dataclass(frozen=True)
class SculptConfig(Settings):
    """Settings of the six phases.

    The paper [CL25] fixes its constants only up to polynomial factors in k, d and the failure
    probability; "paper" below gives that form, and a field without it has no counterpart there.
    The practical defaults were chosen by measurement (`python -m benchmarks.theorem` prints what
    they reach).

    >>> SculptConfig(polish=False).polish, SculptConfig().most_rounds
    (False, 3)
    """

    #: Phase 1. Paper: correlate with all tokens (False). Leaving the query's own token out makes
    #: the first-order bias about k - 1 times smaller.
    own_token_free: bool = True
    #: Phase 1. Paper: sigma_min(sum W) >= 1/poly(d). The crude sum must carry at least this
    #: share of the outputs' energy; far below, all that is left of it is bias and noise.
    least_sum_energy: Threshold = 0.2

    #: Phase 2. Share of rows, best by the unconstrained residual (a lower bound), that go on to
    #: the simplex regression. Paper: all rows (1.0).
    screened_share: Share = 0.1
    #: Phase 2. A token takes part in a slab if its weight is at least this. Paper: 1/poly(k).
    least_weight: Threshold = 0.01
    #: Phases 2 and 4. Slabs kept, for each unknown of an attention matrix: the tightest.
    #: Paper: every row whose residual is below a threshold 1/poly(kd).
    slabs_per_unknown: Positive = 8.0
    #: Phases 2 and 4. Blocks of examples after which it is first asked whether more of them make
    #: the body smaller, and then after each doubling; fewer are all looked at. Paper: all are.
    first_leg: Count = 64
    #: Phases 2 and 4. They do, if twice as many make the median slab tighter by this share.
    shrinking: Threshold = 0.01
    #: Phase 2. Fewest slabs for each unknown with which carving goes on.
    least_slabs_per_unknown: Threshold = 1.5
    #: Phase 2. Attention is sharp if fewer than this share of the rows that fit best look at two
    #: tokens. Paper: assumed not to happen.
    sharp_share: Threshold = 0.15
    #: Phase 2. Where attention is sharp, the few rows that look at two tokens must fit to this
    #: relative residual in the median. Paper: a threshold 1/poly(kd) for every row.
    largest_sharp_residual: Threshold = 0.2
    #: Phase 2. A slab is dropped when it contradicts the hull of the others by more than this
    #: many times the median. Paper: none is dropped, as none is wrong with high probability.
    contradiction: Threshold = 4.0
    #: Phase 2. Rounds of finding the hull and dropping what contradicts it.
    trimming_rounds: Count = 6
    #: Predicted errors of a logit below this are taken for this: labels have finite precision.
    least_sigma: Positive = 1e-9
    #: The same, as a share of the median over the slabs that are kept.
    least_sigma_share: Positive = 0.25

    #: Phase 3. Slack of the body whose minimum-norm point is the proxy, in units of the smallest
    #: feasible slack. Paper: the slack of the certification threshold.
    proxy_slack: Positive = 1.2
    #: Phase 3. Rows of largest margin that are looked at, for each row of W. Paper: all rows
    #: whose margin is at least log poly(kd).
    margin_rows_per_unknown: Positive = 240.0
    #: Phase 3. Rows that remain after trimming, for each row of W.
    trimmed_rows_per_unknown: Positive = 8.0
    #: Phase 3. The rows that remain must fit one linear map to this relative residual.
    largest_margin_residual: Threshold = 0.1

    #: Phase 3. Smallest singular value of the rows that remain, over the root of their number:
    #: trimming stops rather than leave a row of W unseen. Paper: follows from their number.
    least_coverage: Threshold = 0.3
    #: Phase 3. Where the refinement fails, attention is called flat if the body puts the standard
    #: deviation of the logits below this. Paper: margins of log poly(kd) are assumed.
    flat_logits: Threshold = 1.0

    #: Phase 4. Carving is repeated while the residual of the refined sum falls below this share
    #: of what it was. Paper: one repetition.
    worthwhile: Threshold = 0.7
    #: Phase 4. Repetitions at most.
    most_rounds: Whole = 3

    #: Phase 5. Heads are counted up to this number when it is not given.
    most_heads: Count = 8
    #: Phase 5. A singular value below this share of the bulk's edge belongs to the hull.
    hull_edge: Threshold = 0.8
    #: Phase 5. Singular values below this share of the median are zero up to noise, and alike.
    negligible: Threshold = 0.02
    #: Phase 5. Gaps at least this share of the widest leave the count open; then phase 6 is tried
    #: in small. Paper: the number of heads is given.
    open_gap: Threshold = 0.4
    #: Phase 5. So does a gap of this ratio between values above the widest gap: a faint head.
    faint_gap: Threshold = 1.4
    #: Phase 5. A gap of this ratio is beyond doubt: a request that contradicts it is refused.
    clear_gap: Threshold = 3.0
    #: Phase 5. Neighbours in the bulk differ by less than this ratio.
    bulk_gap: Threshold = 1.15
    #: Phase 5. When the count is open, so many heads beyond the plausible ones are tried.
    counts_beyond: Whole = 3
    #: Phase 5. When the count is open, a relative validation error that settles it.
    convincing: Threshold = 1e-3
    #: Phase 5. When nothing settles it, validation errors within this factor count as equal.
    as_well: Threshold = 2.0
    #: Phase 5. Slack of the body whose chords are measured, in units of the smallest feasible
    #: slack: the body must hold the heads themselves, not only their mean.
    hull_slack: Positive = 5.0
    #: Phase 5. Measure chords by membership queries beside the spectrum (the theorem's way).
    chords: bool = True
    #: Phase 5. Steps by which a chord is turned into a longer one.
    chord_steps: Whole = 4

    #: Phase 6. Tuples of net points tried. Paper: all of a net of fineness 1/poly(kd),
    #: (kd)^O(m^2) tuples; here the net is as fine as this number allows and refined locally.
    net_tuples: Count = 20_000
    #: Phase 6. Points of the net along a direction at most: beyond, refining locally is cheaper.
    finest_net: Count = 32
    #: Phase 6. Tuples that go on to the local refinement.
    refined_tuples: Count = 4
    #: Phase 6. Examples used to solve for the projections.
    net_examples: Count = 3_000

    #: Polish. Nonlinear least squares over all parameters from the theorem's answer.
    polish: bool = True
    #: Polish. Examples used, in multiples of the counting bound (parameters / (k d_out)).
    polish_examples: Positive = 30.0
    #: Polish. Steps at most.
    polish_steps: Whole = 80
    #: Polish. Parameters at most: the normal equations are dense.
    polish_parameters: Count = 10_000
