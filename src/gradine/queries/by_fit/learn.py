"""Learning by random questions and a fit, with hardly more rows than there are unknowns.

Questions are ours to choose, and three choices make the fit easy. Tokens have the size at which
logits are about a third: with sharper attention a fit to so few rows ends in local minima. All
sequences have one length, so that all answers are in one fit; it is so long that a row, which tells
at most m (k - 1) numbers of attention, tells as much of Theta as its d_out numbers can. And there
are few of them at first: more are asked where the fit is not exact, does not predict a sequence
that was kept away from it, or leaves directions open.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gradine.exact.config import ExactConfig
from gradine.exact.count import needed_heads
from gradine.exact.heads import FitTask, fit_heads, unknowns, without_spare
from gradine.exact.identify import identify
from gradine.exact.results import HeadFit, Identified
from gradine.exact.units import Units
from gradine.exact.wide_bars import unidentified
from gradine.exact.workshop import RunPhase
from gradine.progress import Tell
from gradine.queries.asking.oracle import Oracle
from gradine.queries.asking.precision import Precision, probe_precision
from gradine.queries.by_fit.frame import Frame
from gradine.queries.by_fit.noisy import FitAnswer, learn_noisy, named, spare_note
from gradine.queries.by_fit.questions import Plan, Questions, plans
from gradine.queries.by_fit.scout import Scouted, scout
from gradine.queries.config import QueryConfig
from gradine.status import NotLearned, Status

__all__ = ["FitAnswer", "learn_fit"]

Array = NDArray[np.float64]

QUICK = 3000  # unknowns of a fit that takes about a second
LEFT = 1e-11  # residual that a right fit leaves in double precision, at worst,
ABOVE = 100.0  # or so many times the noise of the answers
PREDICTS = 1e-4  # relative error on the sequence that no fit sees, up to which one is believed


def learn_fit(
    oracle: Oracle,
    heads: int | None,
    precision: Precision,
    seed: int,
    run: RunPhase,
    config: QueryConfig,
    *,
    tell: Tell | None = None,
    most_unknowns: float = math.inf,
) -> FitAnswer:
    """Learn all heads from random questions; ``config.exact.rank`` is their rank, if it is known.

    `NotLearned` where that fails: the function is none of so many heads, the budget is spent, or
    the first look shows heads of more than ``most_unknowns`` numbers.
    """
    seen: Scouted = run("scout", Scouted, lambda: scout(oracle, precision, seed))
    if not seen.sure and precision.kind == "float64":
        # No gap: as many heads as outputs, or answers that are less exact than they look.
        precision = probe_precision(oracle, seed=seed)
        if precision.kind != "float64":
            seen = run(named("scout", 1), Scouted, lambda: scout(oracle, precision, seed))
    m = _first_heads(heads, seen)
    numbers = unknowns(m, oracle.dim, oracle.dim, seen.out_dim, config.exact.rank)
    if numbers > most_unknowns:
        detail = f"a fit of the {m} heads that show has {numbers} unknowns, which takes too long"
        raise NotLearned(Status.NOT_REALIZABLE, detail)
    if not _exact(precision, config.exact):
        return learn_noisy(oracle, heads, heads or m, precision, seed, run, config, seen, tell)
    logit = config.fit_logit if config.exact.rank is None else config.narrow_logit
    questions = Questions(oracle, seen, m, logit, config.least_tokens, config, seed)
    kept, strange = questions.kept(), 0
    found: _Attempt | None = None
    for attempt, plan in enumerate(plans(questions, m, heads is None)):
        questions.ask(plan.rows)
        found = _Attempt(questions, kept, plan, precision, seed, run, attempt, tell)
        strange += found.determined and not found.predicts
        if found.determined and (found.predicts or strange == 2):
            # Twice the same heads, and a sequence they do not predict: the last check will tell.
            return found.answer(precision, _notes(heads, found, config))
        if attempt == 1 and precision.kind == "float64" and not found.exact:
            # Twice no exact fit: are the answers less exact than they look?
            precision = probe_precision(oracle, seed=seed)
            if not _exact(precision, config.exact):
                return learn_noisy(
                    oracle, heads, heads or m, precision, seed, run, config, seen, tell
                )
    assert found is not None
    if found.fit.exact and found.predicts:  # the function is known, and its heads are not
        return found.answer(precision, "" if found.exact else _more_left(found))
    raise _gave_up(found, heads, seen)


def _notes(heads: int | None, found: _Attempt, config: QueryConfig) -> str:
    rank = config.exact.rank
    notes = [spare_note(heads, found.fit.heads)]
    if rank is not None and found.fit.rank is None:
        notes.append(f"heads of rank {rank} do not explain the answers, and these have full rank")
    return "; ".join(note for note in notes if note)


def _more_left(found: _Attempt) -> str:
    return (
        f"{found.fit.heads} heads leave a residual of {found.fit.residual:.2g}, more than rounding "
        "does: heads that hardly show or hardly differ may be missing"
    )


def _first_heads(heads: int | None, seen: Scouted) -> int:
    if heads is None or (seen.sure and seen.heads < heads):
        return seen.heads
    return heads


def _exact(precision: Precision, exact: ExactConfig) -> bool:
    """Whether a right fit can be told from a wrong one by its residual alone."""
    return precision.noise(1.0) <= 0.3 * exact.exact_residual


def _rounding(precision: Precision, exact: ExactConfig) -> float:
    """The residual up to which a fit is right: a bias of a millionth is no rounding."""
    return min(exact.exact_residual, max(LEFT, ABOVE * precision.noise(1.0)))


def _gave_up(found: _Attempt, heads: int | None, seen: Scouted) -> NotLearned:
    if heads is not None and seen.sure and seen.heads > heads:
        detail = f"the answers show {seen.heads} heads; {heads} were asked for"
    else:
        detail = (
            f"{found.fit.heads} heads leave a residual of {found.fit.residual:.2g} and an error of "
            f"{found.fit.validation_error:.2g} on a sequence kept away"
        )
    return NotLearned(Status.NOT_REALIZABLE, detail)


class _Attempt:
    """A fit to all answers so far, and whether it is to be believed."""

    def __init__(
        self,
        questions: Questions,
        kept: tuple[Array, Array],
        plan: Plan,
        precision: Precision,
        seed: int,
        run: RunPhase,
        again: int,
        tell: Tell | None,
    ) -> None:
        oracle, config = questions.oracle, questions.config
        heads, rank = plan.heads, plan.rank
        self.frame = Frame(oracle.center, questions.size, plan.constant)
        unit = 2.0 ** round(math.log2(float(np.sqrt(np.mean(questions.Y**2)))))
        self.units = Units(None, unit, len(questions.X), "", False)
        quick = questions.bound(heads, plan.constant, rank) * questions.seen.out_dim <= QUICK
        starts = config.quick_starts if quick else config.fit_starts
        exact = replace(config.exact, starts=starts, curve_points=0)
        self.task = FitTask(
            self.frame.coordinates(questions.X),
            questions.Y / unit,
            self.frame.coordinates(kept[0]),
            kept[1] / unit,
            oracle.dim,
            exact,
            seed + again,
            tell,
        )
        self.fit: HeadFit = run(
            named(f"fit_{heads}", again), HeadFit, lambda: fit_heads(self.task, heads, rank)
        )
        needed = needed_heads(self.fit)
        if self.fit.exact and len(needed) < heads:
            fewer: HeadFit = run(
                named(f"needed_{len(needed)}", again),
                HeadFit,
                lambda: without_spare(self.task, self.fit, needed),
            )
            self.fit = fewer if fewer.exact else self.fit
        self.exact = self.fit.residual <= _rounding(precision, config.exact)
        self.predicts = self.fit.validation_error <= PREDICTS
        self.identified: Identified | None = None
        if self.exact:
            self.identified = run(
                named("identify", again),
                Identified,
                lambda: identify(self.task, self.fit, self.units),
            )
        self.determined = self.identified is not None and self.identified.determined

    def answer(self, precision: Precision, note: str) -> FitAnswer:
        layer = self.frame.layer(self.fit.theta, self.units.w(self.fit.w))
        identified = self.identified or unidentified(self.fit)
        return FitAnswer(layer, self.fit, identified, None, note, precision)
