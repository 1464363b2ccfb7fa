"""What is asked of a run, and what it answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

import numpy as np

from gradine.certificate import EPS_GRID, Certificate
from gradine.displayed import Displayed
from gradine.exact.config import ExactConfig
from gradine.examples import Split, Survey, held_out_sizes, make_split
from gradine.layer import AttentionLayer
from gradine.sculpt.config import SculptConfig
from gradine.settings import Chance, Count, Positive, Settings
from gradine.status import Status

__all__ = ["Asking", "Fit", "LearnConfig", "figures_of"]


#: What endings say of examples, said of queries; in this order.
IN_QUERIES = {
    "noise of the labels": "noise of the answers",
    "the labels come from": "it is",
    "give more examples": "allow more queries",
    "or more examples": "or allow more queries",
    "give examples": "ask for answers",
    "examples": "queries",
}


@dataclass(frozen=True)
class LearnConfig(Settings):
    """Settings of a run; those of the learners are in ``sculpt`` and ``exact``.

    >>> len(LearnConfig(certify_examples=500).split(5000, seed=0).certify)
    500
    """

    sculpt: SculptConfig = field(default_factory=SculptConfig)
    exact: ExactConfig = field(default_factory=ExactConfig)
    #: Whether the layer has a constant coordinate (biases); None: decide from the data.
    constant: bool | None = None
    #: Examples kept away to choose between candidates, and to certify the answer.
    validation_examples: Count = 2000
    certify_examples: Count = 2000
    #: The largest share of all examples that either of these may take. Where it is too little for
    #: any certificate, as many certify as one takes, and fewer are left to fit (see `make_split`).
    held_out_share: Chance = 0.2
    #: Confidence of the certificate.
    confidence: Chance = 0.99
    #: An answer counts as learned if the certificate bounds the share of inputs whose relative
    #: error exceeds the tolerance by this share.
    share: Chance = 0.05
    polished_tolerance: Positive = 1e-3
    theorem_tolerance: Positive = 0.5  # what phase 6 alone is held to, when nothing is polished
    #: Bytes of memory that blocks and what a learner keeps may take; None: blocks as for 2 GiB, and
    #: the learner's share is one of the memory of the machine.
    memory: Count | None = None
    #: Examples in a block; None: as many as the memory allows.
    block_size: Count | None = None
    #: Examples that are looked at, the first ones; None: all.
    examples_budget: Count | None = None
    #: Seconds after which the phases of the theorem go on with the examples they have seen; None:
    #: no limit. What is learned then depends on how fast the machine is.
    time_budget: Positive | None = None
    #: What a block that cannot be read, or is not finite, does: "stop" the run, or be left out
    #: ("skip") and counted.
    bad_blocks: Literal["stop", "skip"] = "stop"

    @property
    def least_certify(self) -> int:
        """Held-out examples without which no answer, however good, could be verified.

        >>> LearnConfig().least_certify
        165
        """
        delta = (1.0 - self.confidence) / len(EPS_GRID)
        return math.ceil(math.log(delta) / math.log1p(-self.share))

    def held_out(self, n: int) -> tuple[int, int]:
        """How many of n examples validate, and how many certify.

        >>> LearnConfig().held_out(500)
        (67, 165)
        """
        return held_out_sizes(
            n,
            self.validation_examples,
            self.certify_examples,
            self.held_out_share,
            self.least_certify,
        )

    def split(self, n: int, seed: int) -> Split:
        """Which of n examples a run with this seed fits, and which it keeps away."""
        return make_split(
            n,
            validation=self.validation_examples,
            certify=self.certify_examples,
            largest_share=self.held_out_share,
            least_certify=self.least_certify,
            seed=seed,
        )


@dataclass(frozen=True)
class Asking:
    """What asking has cost, where a layer was learned by queries, and how exact its answers are."""

    queries_used: int  #: sequences sent, those sent again after a failure too
    rows_used: int  #: rows of answers
    verify_queries: int  #: of these, how many verified the answer and took no part in learning
    verify_rows: int
    failures: int  #: calls that failed
    seconds: float  #: spent answering
    precision: str  #: what kind of numbers the answers are; empty: that was not found out
    noise: float  #: of an answer, relative to its size
    oracle_options: str = ""  #: how `as_oracle` was called beside the layer, as Python


@dataclass(frozen=True, eq=False, repr=False)
class Fit(Displayed):
    """The answer of a run, and whether to believe it.

    >>> import gradine
    >>> truth, X = gradine.plant(heads=1, dim=4, scale=2.0), gradine.sample_inputs(400, 3, 4)
    >>> fit = gradine.learn(X, truth(X), heads=1)
    >>> fit.learned, fit.layer, fit.to_dict()["status"]
    (True, AttentionLayer(heads=1, dim=4, out_dim=4, constant=False), 'learned')
    """

    status: Status
    detail: str  #: what was measured, in words, where the status alone does not say it
    layer: AttentionLayer | None  #: the learned layer; None unless it was verified
    certificate: Certificate | None  #: None unless learned
    phases: dict[str, Any]  #: results of the phases by name, in the order they ran
    theorem: AttentionLayer | None  #: the answer of phase 6, before any polish; not verified
    candidate: AttentionLayer | None  #: the last answer there was, verified or not
    heads: int | None
    held_out_error: float | None  #: median relative error of the candidate on held-out examples
    examples_used: int
    seconds: float  #: what learning took, also in the run that was resumed; not the error curve
    seed: int
    method: str
    config: LearnConfig
    survey: Survey  #: of the examples; where a layer was asked, of those that verify
    asking: Asking | None = None  #: None: from examples, nothing was asked
    #: Arguments of the call that made it, beside data, seed and config: to run it again.
    call: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        error = "" if self.held_out_error is None else f", held_out_error={self.held_out_error:.2g}"
        return (
            f"Fit(status={self.status.code!r}, heads={self.heads}, method={self.method!r}{error}, "
            f"examples_used={self.examples_used}, seconds={self.seconds:.1f})"
        )

    @property
    def learned(self) -> bool:
        return self.status.learned

    @property
    def reason(self) -> str:
        """Why the run ended as it did, in one line."""
        where = "" if self.learned else f"phase {self.status.phase}: "
        message = self._in_words(self.status.message)
        return where + message + (f" ({self.detail})" if self.detail else "")

    @property
    def help(self) -> str:
        """What to try, where it was not all that could be wished."""
        return self._in_words(self.status.help)

    def _in_words(self, text: str) -> str:
        """Where a layer was asked, its answers are the examples."""
        if self.asking is None:
            return text
        for words, other in IN_QUERIES.items():
            text = text.replace(words, other)
        return text

    def to_dict(self) -> dict[str, Any]:
        """What result.json holds, but for the versions."""
        result = {
            "status": self.status.code,
            "phase": self.status.phase,
            "reason": self.reason,
            "help": self.help,
            "heads": self.heads,
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
            "held_out_error": self.held_out_error,
            "seconds": self.seconds,
            "examples_used": self.examples_used,
            "method": self.method,
            "seed": self.seed,
            "skipped_blocks": len(self.survey.left_out),
            "skipped_examples": self.survey.skipped,
            "inputs": self.survey.kind,
            "constant": None if self.candidate is None else self.candidate.constant,
            "phases": {name: figures_of(result) for name, result in self.phases.items()},
            "config": asdict(self.config),
        }
        if self.asking is not None:
            result |= asdict(self.asking) | {"seconds": self.seconds}
            result["answering_seconds"] = self.asking.seconds
        return result


def figures_of(result: Any) -> dict[str, Any]:
    """The figures of a phase result: its numbers, and its arrays of one dimension if short."""
    figures = {}
    for item in fields(result):
        value = getattr(result, item.name)
        if not isinstance(value, np.ndarray):
            figures[item.name] = value
        elif value.ndim == 1 and len(value) <= 100:
            figures[item.name] = value.tolist()
    return figures
