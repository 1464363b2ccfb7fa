"""How a run ended: one enum whose values are messages a person can act on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

__all__ = ["NotLearned", "Status", "heads_in_words"]


@dataclass(frozen=True)
class _Ending:
    phase: str
    message: str
    help: str


class Status(Enum):
    """The ways a run can end. ``phase`` names where, ``message`` why, ``help`` what to try.

    >>> Status.TOO_FLAT.code, Status.TOO_FLAT.phase, Status.TOO_FLAT.learned
    ('too_flat', 'proxy', False)
    """

    LEARNED = _Ending("verify", "learned, and verified on examples kept away from fitting", "")
    LEARNED_UP_TO_NOISE = _Ending(
        "verify",
        "learned up to the noise of the labels, and verified on examples kept away from fitting",
        "give more examples for smaller error bars",
    )
    LEARNED_FUNCTION = _Ending(
        "verify",
        "the function is learned, and verified on examples kept away from fitting; its heads are "
        "not determined by the examples, and others may do the same",
        "the layer predicts; do not read its heads. Give tokens that show more, or more examples",
    )
    SUM_NEAR_ZERO = _Ending(
        "crude_sum",
        "the projection matrices sum to nearly zero, so no attention pattern can be certified",
        "this learner needs a well-conditioned sum of the W_i; unless examples are very few, more "
        "of them do not mend that",
    )
    TOO_MANY_TOKENS = _Ending(
        "sculpt",
        "sequences have so many tokens that any output fits some attention pattern: "
        "certification would accept everything",
        "give sequences with fewer tokens: fewer than output coordinates, and no more than "
        "coordinates of a token",
    )
    TOO_SHARP = _Ending(
        "sculpt",
        "attention is so sharp that hardly any row spreads its weight over two tokens: "
        "no pattern is informative",
        "give many more examples, or inputs of a smaller scale",
    )
    TOO_FEW_PATTERNS = _Ending(
        "sculpt",
        "too few rows have all heads agreeing on an informative pattern",
        "give more examples",
    )
    NO_BODY = _Ending(
        "sculpt",
        "the slabs leave no body that can be worked with: the convex solver stopped",
        "give more examples, or check that tokens have more coordinates than sequences have tokens",
    )
    TOO_FLAT = _Ending(
        "proxy",
        "attention is so flat that no row has all heads looking at one token",
        "give many more examples, or inputs of a larger scale",
    )
    NO_AGREEMENT = _Ending(
        "proxy",
        "rows with the largest predicted margin do not follow one linear map: "
        "the heads do not agree there",
        "give more examples; if that does not help, the heads are too far from the conditions",
    )
    FEWER_HEADS = _Ending(
        "span",
        "the convex body shows fewer heads than were asked for: heads with equal attention "
        "matrices merge, and heads with zero projection cannot be seen",
        "let the heads be counted (auto), or ask for the number of heads that the body shows",
    )
    MORE_HEADS = _Ending(
        "span",
        "the convex body shows more heads than were asked for",
        "let the heads be counted (auto), or ask for the number of heads that the body shows",
    )
    NO_GAP = _Ending(
        "span",
        "the number of heads cannot be read off the convex body: its spectrum has no gap",
        "give the number of heads, or more examples",
    )
    NOTHING_TO_SEE = _Ending(
        "fit",
        "all outputs are zero: no head can be seen",
        "give examples of a layer whose outputs are not zero",
    )
    TOO_FEW_EXAMPLES = _Ending(
        "fit",
        "too few examples for as many heads as they seem to need",
        "give more examples",
    )
    NOT_REALIZABLE = _Ending(
        "fit",
        "not realizable with so many heads: their best fit leaves what is no noise, or every start "
        "ended in a local minimum",
        "let the heads be counted (auto) if they were told; give more examples; check that the "
        "labels come from an attention layer",
    )
    TOO_NOISY = _Ending(
        "identify",
        "the labels are too noisy for so few examples: the heads are not determined",
        "give more examples, or labels with less noise",
    )
    OUT_OF_QUERIES = _Ending(
        "ask",
        "the budget of queries is spent, and the layer is not known yet",
        "allow more queries; with a log, a resumed run does not ask again what was answered",
    )
    ORACLE_FAILED = _Ending(
        "ask",
        "the oracle gave no answer, or none that is finite, however often it was asked",
        "see to the oracle, then resume: with a log, what it answered is not asked again",
    )
    TOO_FEW_HELD_OUT = _Ending(
        "verify",
        "too few examples were kept away from fitting to certify anything",
        "give more examples",
    )
    NOT_VERIFIED = _Ending(
        "verify",
        "the answer does not reproduce examples that were kept away from fitting",
        "give more examples; check that the labels come from an attention layer without noise "
        "and that the number of heads is right",
    )

    @property
    def code(self) -> str:
        """The name that files and the command line use, such as ``sum_near_zero``."""
        return self.name.lower()

    @property
    def learned(self) -> bool:
        return self in (Status.LEARNED, Status.LEARNED_UP_TO_NOISE, Status.LEARNED_FUNCTION)

    @property
    def phase(self) -> str:
        return self.value.phase

    @property
    def message(self) -> str:
        return self.value.message

    @property
    def help(self) -> str:
        return self.value.help


class NotLearned(Exception):  # noqa: N818 (not learning is an answer, not an error)
    """Ends a learner early; the front door turns it into a ``Fit`` with this status."""

    def __init__(self, status: Status, detail: str = "", **figures: Any) -> None:
        super().__init__(detail or status.message)
        self.status = status
        self.detail = detail
        self.figures = figures


def heads_in_words(heads: int | None) -> str:
    """So many heads.

    >>> heads_in_words(1), heads_in_words(2)
    ('1 head', '2 heads')
    """
    return "1 head" if heads == 1 else f"{heads} heads"
