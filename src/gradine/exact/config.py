"""Every constant of the exact learner, with the reason for its default."""

from __future__ import annotations

from dataclasses import dataclass, field

from gradine.attention_functions import attention_function
from gradine.exact.deflate import DeflateConfig
from gradine.exact.mixing import MixConfig
from gradine.exact.moments import MomentConfig
from gradine.settings import Count, Positive, Settings, Share, Threshold, Whole

__all__ = ["ExactConfig"]


@dataclass(frozen=True)
class ExactConfig(Settings):
    """Settings of the exact learner (`python -m benchmarks.exact` prints what they reach).

    >>> ExactConfig(rank=4).rank, ExactConfig().attention
    (4, 'softmax')
    """

    moments: MomentConfig = field(default_factory=MomentConfig)
    mixing: MixConfig = field(default_factory=MixConfig)
    deflate: DeflateConfig = field(default_factory=DeflateConfig)
    #: The attention function of the layer, by its name: no learner guesses it.
    attention: str = "softmax"
    #: Rank of every Theta_i and W_i; None: full, or what the data say where they are too few for
    #: full heads.
    rank: Count | None = None
    #: Examples that a fit sees, in multiples of the counting bound: more make each step dearer
    #: and the steps hardly fewer.
    examples_per_bound: Positive = 8.0
    #: The most of the memory (see `gradine.memory`) that examples under fit and their attention may
    #: occupy.
    memory_share: Share = 0.3
    #: Entries of a random start have this standard deviation times 1/dim: small, so that no head
    #: is committed to anything; not zero, where all heads are the same.
    start_scale: Positive = 0.3
    #: Starts that are tried before a fit with so many heads is given up.
    starts: Count = 4
    #: The same while heads are being counted: most of those fits are there to fail.
    counting_starts: Count = 2
    #: Equations for each unknown below which the first start already has penalties: with fewer,
    #: wrong heads can explain the examples nearly as well as the true ones.
    plenty: Threshold = 2.5
    #: The penalties of an annealed start fall from this ridge on W, and this decay of Theta, to a
    #: ten-thousandth, ``penalty_levels`` times evenly.
    first_ridge: Positive = 1.0
    first_decay: Positive = 0.1
    penalty_levels: Count = 9
    #: Steps at one level at most; it is over when three in a row lower the loss by less than this
    #: share.
    level_steps: Whole = 40
    level_worthwhile: Threshold = 2e-3
    #: Low rank: penalties in units of the gradient's noise, one level after the other; most steps
    #: of Adam at a level; and the share of every Theta_i that must lie in its largest singular
    #: values, as many as the rank, for the heads to count as visible (it jumps from 0.84 to 0.99).
    low_rank_levels: tuple[Positive, ...] = (1.0, 0.7, 0.5)
    low_rank_steps: Whole = 1200
    low_rank_share: Threshold = 0.93
    #: Multiplications of one product with a Jacobian by full matrices, beyond which heads of a
    #: given rank are found one after the other and fitted by their factors alone.
    wide_work: Threshold = 3e9
    #: Steps without penalties, and products with the Jacobian in one of them.
    steps: Whole = 80
    products: Count = 160
    #: Accuracy of such a step far from the end: a rough one goes down as far, and is led astray
    #: less.
    inexact: Positive = 0.4
    #: Relative squared residual above which points are evaluated in single precision: far from the
    #: end no more is needed.
    rough: Threshold = 3e-4
    #: A walk that ends with a relative squared residual below this goes on with dense normal
    #: equations, if a step takes no more multiplications than ``dense_work``.
    near_misfit: Threshold = 1e-3
    dense_work: Threshold = 2e9
    dense_steps: Whole = 60
    #: Steps of a fit that goes on from fewer examples to more.
    refining_steps: Whole = 25
    #: A start is over when four steps in a row lower the loss by less than this share: near the
    #: heads each step lowers it tenfold, so this is a floor or a trap.
    worthwhile: Threshold = 0.02
    #: A relative RMS residual below this is rounding, of single-precision labels at worst.
    exact_residual: Threshold = 1e-6
    #: Two starts whose misfits agree to this share have found the same floor: noise, not chance.
    same_floor: Threshold = 0.01
    #: Most heads that are tried when they have to be counted.
    most_heads: Count = 64
    #: The moments are asked for the number of heads only with as many examples as this.
    spectrum_examples: Whole = 2000
    #: Trust a count of the moments, and do not try one head fewer, from this confidence on.
    sure: Threshold = 0.9
    #: Below this confidence a count of the moments is no better than beginning at one head.
    unsure: Threshold = 0.2
    #: Examples, in multiples of the counting bound, on which fits to noisy labels are compared:
    #: so many that errors of the heads are small against the noise.
    ripe_per_bound: Positive = 40.0
    #: One more head must lower the validation error by so many standard errors, and by this share,
    #: to be believed.
    significance: Threshold = 4.0
    least_gain: Threshold = 0.005
    #: Simulated noises, of which error bars are the mean effect; one where there is no noise.
    bar_samples: Count = 8
    #: Error bars of the heads (relative) up to which a noisy answer counts as learned.
    largest_bar: Threshold = 0.2
    #: Noise (relative to the outputs) up to which a noisy answer counts as learned.
    largest_noise: Threshold = 0.7
    #: Sizes of nested subsets at which the error is measured, for the report; 0 for none.
    curve_points: Whole = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        attention_function(self.attention)  # refuses names that nobody knows
        if self.examples_per_bound < 1.0:
            raise ValueError(
                f"examples_per_bound is {self.examples_per_bound}; expected at least 1, as fewer "
                "examples than the bound determine nothing"
            )
