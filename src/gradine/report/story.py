"""What there is to tell of a run: the fit and the truth on common ground, and figures from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradine.exact.results import HeadFit, Identified
from gradine.fit import Fit
from gradine.layer import AttentionLayer
from gradine.score import Match, common_ground, compare
from gradine.status import Status

__all__ = ["Estimate", "HeadPair", "Story", "tell"]

Array = NDArray[np.float64]


class Estimate(NamedTuple):
    """One estimate of W = sum_i W_i, and what is known of its error."""

    name: str
    distance: float | None  #: relative to the reference; None where there is none
    residual: float | None  #: of the trimmed fit that gave it


class HeadPair(NamedTuple):
    """A learned head and the true one it was matched with; either may be missing."""

    learned: int | None
    true: int | None
    theta_error: float | None
    w_error: float | None


@dataclass(frozen=True, eq=False)
class Story:
    """All that the page shows, in forms that pictures and tables can use directly."""

    fit: Fit
    learned: AttentionLayer | None  #: the candidate in canonical form, verified or not
    truth: AttentionLayer | None  #: in canonical form
    match: Match | None
    example: Array | None
    words: tuple[str, ...] | None  #: what the tokens of the example stand for
    data: str | None = None  #: file of the examples, if they are in one

    @property
    def estimates(self) -> list[Estimate]:
        """Estimates of the sum in the order they were made, against the truth or the last one."""
        phases, found = self.fit.phases, []
        if "crude_sum" in phases:
            found.append(("crude, all tokens (paper)", phases["crude_sum"].paper, None))
            found.append(("crude, own token left out", phases["crude_sum"].own_token_free, None))
        for name, again in self.rounds_of("proxy"):
            label = "refined" if again == 0 else f"refined again ({again})"
            found.append((label, phases[name].refined_sum, phases[name].residual))
        for label, layer in (("net search", self.fit.theorem), ("polished", self._polished)):
            if layer is not None:
                found.append((label, layer.w.sum(axis=0), None))
        reference = self.reference
        estimates = [
            Estimate(label, self._distance(value, reference), residual)
            for label, value, residual in found
        ]
        # Without a truth the last answer is the reference: that it equals itself says nothing.
        return [item for item in estimates if self.truth is not None or item.distance != 0.0]

    @property
    def _polished(self) -> AttentionLayer | None:
        done = self.fit.phases.get("polish")
        return None if done is None or getattr(done, "skipped", "") else self.fit.candidate

    @property
    def reference(self) -> Array | None:
        """The sum of the W: the true one, or else the last."""
        layer = self.truth or self.learned
        return None if layer is None else layer.w.sum(axis=0)

    def _distance(self, value: Array, reference: Array | None) -> float | None:
        """Relative distance over the token rows.

        A constant coordinate is left out: its row is the mean output, which phase 1 reads off
        almost exactly, and only one of the two layers may have it.
        """
        if reference is None:
            return None
        d = len(self.fit.survey.x_mean)
        size = float(np.linalg.norm(reference[:d])) or 1.0
        return float(np.linalg.norm(value[:d] - reference[:d])) / size

    def rounds_of(self, phase: str) -> list[tuple[str, int]]:
        """Names of a phase and of its repetitions, with the number of the repetition."""
        again = f"{phase}_again_"
        names = [name for name in self.fit.phases if name == phase or name.startswith(again)]
        return [(name, 0 if name == phase else int(name.removeprefix(again))) for name in names]

    @property
    def spectrum(self) -> tuple[Array, int] | None:
        """Smallest singular values of the slabs, and how many of them span the hull.

        A run that stopped at the span has no result of it; what the last carving saw is the same
        spectrum, and shows why.
        """
        if "span" in self.fit.phases:
            span = self.fit.phases["span"]
            return span.spectrum, span.heads
        carved = self.rounds_of("sculpt")
        return (self.fit.phases[carved[-1][0]].spectrum, 0) if carved else None

    @property
    def fitted(self) -> bool:
        """Whether the exact learner gave the answer, if there is one: of examples or of queries."""
        return self.fit.method in ("exact", "fit")

    @property
    def word(self) -> str:
        """What was learned from."""
        return "examples" if self.fit.asking is None else "queries"

    @property
    def exact_ran(self) -> bool:
        """Whether the exact learner took part, with an answer or without."""
        return self.fitted or self.known is not None

    @property
    def sculpt_ran(self) -> bool:
        """Whether the six phases took part; they may have stopped before the first ended."""
        return self.fit.method == "sculpt" or "crude_sum" in self.fit.phases

    @property
    def known(self) -> Identified | None:
        """What the examples determine, at the answer: where heads were dropped, the last of two."""
        found = [it for it in self.fit.phases.values() if isinstance(it, Identified)]
        return found[-1] if found else None

    @property
    def function_only(self) -> bool:
        """Whether nothing is claimed of the heads, but of what they compute."""
        return self.fit.status is Status.LEARNED_FUNCTION

    @property
    def fits(self) -> dict[str, HeadFit]:
        """Fits of the exact learner by the name of their phase, fewest heads first."""
        found = [(name, it) for name, it in self.fit.phases.items() if isinstance(it, HeadFit)]
        return dict(sorted(found, key=lambda item: (item[0].startswith("refine"), item[1].heads)))

    @property
    def answer(self) -> HeadFit | None:
        """The fit that the exact learner ended with: that which it put error bars on."""
        known = self.known
        if known is None:
            return None
        heads, fits = len(known.theta_bars), self.fits
        if self.fit.method == "fit":  # where a fit came again, with more answers, the last counts
            found = [it for it in self.fit.phases.values() if isinstance(it, HeadFit)]
            return next((fit for fit in reversed(found) if fit.heads == heads), None)
        ways = (
            fits.get(name)
            for name in (
                f"needed_{heads}",
                f"refine_{heads}",
                "refine",
                f"ripe_{heads}",
                f"fit_{heads}",
            )
        )
        return next((fit for fit in ways if fit is not None and fit.heads == heads), None)

    @property
    def pairs(self) -> list[HeadPair]:
        """Heads side by side: by true head where there is one, then learned heads left over."""
        if self.learned is None:
            return []
        m = self.learned.n_heads
        if self.truth is None or self.match is None:
            return [HeadPair(i, None, None, None) for i in range(m)]
        order, pairs = self.match.order, []
        for true, index in enumerate(order):
            learned = int(index) if index >= 0 else None
            errors = float(self.match.theta_error[true]), float(self.match.w_error[true])
            pairs.append(HeadPair(learned, true, *(errors if index >= 0 else (None, None))))
        left_over = sorted(set(range(m)) - {int(index) for index in order})
        return pairs + [HeadPair(index, None, None, None) for index in left_over]


def tell(
    fit: Fit,
    truth: AttentionLayer | None,
    example: ArrayLike | None,
    match: Match | None,
    words: Sequence[str] | None = None,
    data: str | None = None,
) -> Story:
    """Check what was given and bring both layers to one form."""
    learned = fit.candidate
    if truth is not None and learned is not None:
        if match is None:
            match = compare(learned, truth, **_inputs_of(fit))
        learned, truth = common_ground(learned, truth)
    if truth is not None:
        _check_truth(fit, truth)
    return Story(
        fit=fit,
        learned=None if learned is None else learned.canonical(),
        truth=None if truth is None else truth.canonical(),
        match=match,
        example=None if example is None else _check_example(fit, example),
        words=None if words is None else _check_words(words, example),
        data=data,
    )


def _inputs_of(fit: Fit) -> dict[str, Any]:
    """Compare on inputs like those that were learned from."""
    kind = "boolean" if fit.survey.boolean else "gaussian"
    return {"seq_len": fit.survey.seq_len, "kind": kind}


def _check_truth(fit: Fit, truth: AttentionLayer) -> None:
    d, d_out = len(fit.survey.x_mean), len(fit.survey.y_mean)
    if not d <= truth.width <= d + 1 or truth.out_dim != d_out:
        raise ValueError(
            f"truth has dim {truth.dim} and out_dim {truth.out_dim}; "
            f"expected {d} and {d_out} as the examples of the run have"
        )


def _check_words(words: Sequence[str], example: ArrayLike | None) -> tuple[str, ...]:
    if example is None:
        raise ValueError("words were given, but no example whose tokens they name")
    if isinstance(words, str) or len(words) != len(np.asarray(example)):
        raise ValueError(
            f"words are {words!r:.60}; expected one for each of the {len(np.asarray(example))} "
            "tokens of the example"
        )
    return tuple(str(word) for word in words)


def _check_example(fit: Fit, example: ArrayLike) -> Array:
    tokens, d = np.asarray(example, dtype=np.float64), len(fit.survey.x_mean)
    if tokens.ndim != 2 or len(tokens) == 0 or tokens.shape[1] not in (d, d + 1):
        raise ValueError(f"example has shape {tokens.shape}; expected (k, {d})")
    if not np.isfinite(tokens).all():
        raise ValueError("example has NaN or infinite entries; expected finite numbers")
    return tokens
