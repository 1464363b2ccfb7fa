"""The exact learner, stage by stage: count by moments, begin there, fit, check, put error bars."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gradine.attention_functions import attention_function
from gradine.exact.config import ExactConfig
from gradine.exact.count import count_heads, improves
from gradine.exact.curve import error_curve
from gradine.exact.identify import identify, noise_of, structure_left
from gradine.exact.mixing import mix, mixing_examples
from gradine.exact.moments import moment_spectrum
from gradine.exact.results import Curve, HeadFit, Identified, Mixed, Spectrum
from gradine.exact.units import Units, measure
from gradine.exact.wide_bars import identify_wide, unidentified
from gradine.exact.workshop import RunPhase, Workshop
from gradine.examples import ArrayExamples, FittingData, survey
from gradine.progress import Tell
from gradine.status import NotLearned, Status, heads_in_words

__all__ = ["ExactAnswer", "learn_exactly"]

LOOKED_AT = 10_000  # examples that show whether tokens are Gaussian
OPEN = "heads hardly differ, or hardly show"


class ExactAnswer(NamedTuple):
    """The heads, and what stands against them."""

    fit: HeadFit
    identified: Identified
    ending: NotLearned | None  #: why they are not to be believed; None: verify them
    note: str  #: what the user should know of an answer that is believed


def learn_exactly(
    data: FittingData,
    kind: str,
    heads: int | None,
    config: ExactConfig,
    seed: int,
    run: RunPhase,
    like: Any = None,
    tell: Tell | None = None,
) -> ExactAnswer:
    """Learn the heads; ``like`` is an array of the library that does the arithmetic."""
    units = measure(data, isotropic=kind != "other")
    if units.silent:
        raise NotLearned(Status.NOTHING_TO_SEE)
    data = units.apply(data)
    workshop = Workshop(data, units.distinct, like, config, seed, run, tell)

    if heads is None:
        # The moments count the heads and say where they lie, if the inputs are such that they can.
        spectrum: Spectrum = run("spectrum", Spectrum, lambda: _spectrum(data, kind, config, seed))
        most = workshop.most_heads()
        counted = spectrum.heads if spectrum.confidence >= config.unsure else 1
        first = min(max(counted, 1), most)
        if first == spectrum.heads:
            mixed: Mixed = run("mixing", Mixed, lambda: _mix(data, spectrum, config, seed))
            workshop.known[first] = mixed.theta[:, :, : workshop.keys]
        # Variable projection with ever more heads, until one more explains nothing more.
        sure = spectrum.confidence >= config.sure
        heads = count_heads(workshop.counting_fit, workshop.ripe_fit, first, most, sure, config)
        fit, asked = workshop.counting_fit(heads), False
    else:
        fit, asked = workshop.fit(heads), True
    # Is what is left noise? Then all examples that memory allows average it out.
    ending = None
    if workshop.wide(heads):
        if not fit.exact:
            detail = f"{fit.heads} heads of rank {fit.rank} leave a residual of {fit.residual:.2g}"
            ending = NotLearned(Status.NOT_REALIZABLE, detail)
        identified = _identify_wide(workshop, fit, units)
        note = OPEN if fit.exact and not identified.determined else ""
        fit = replace(fit, theta=units.theta(fit.theta), w=units.w(fit.w))
        return ExactAnswer(fit, identified, ending, note)
    if not fit.exact:
        ending = _objection(workshop, fit.heads, asked)
        if ending is None:
            fit = workshop.refined(workshop.ripe_fit(fit.heads))
    # An exact fit may have heads to spare.
    note = ""
    if fit.exact and (fewer := workshop.without_spare(fit)).heads < fit.heads:
        note = f"{fewer.heads} of {fit.heads} heads suffice" if asked else ""
        fit = fewer

    # What the examples determine.
    identified = _identify(workshop, fit, units)
    if ending is None and not fit.exact:
        ending = _noise_objection(identified, config)
        if ending is not None and fit.heads > 1:
            # Bars of heads that are not there are large, too.
            fewer = _fewer_under_noise(workshop, fit.heads)
            if fewer < fit.heads and _objection(workshop, fewer, asked=False) is None:
                note = f"{fewer} of {fit.heads} heads suffice"
                fit = workshop.refined(workshop.ripe_fit(fewer), f"refine_{fewer}")
                identified = _identify(workshop, fit, units, f"identify_{fewer}")
                ending = _noise_objection(identified, config)
        if ending is None and not fit.settled:
            detail = f"a residual of {fit.residual:.2g} is left, and still falling"
            ending = NotLearned(Status.NOT_REALIZABLE, detail)
    if fit.exact and not identified.determined:
        why = units.blind or OPEN
        note = f"{note}; {why}" if note else why
    if config.curve_points and ending is None:
        run("curve", Curve, lambda: error_curve(workshop.task(fit.heads, fit.rank), fit))
    fit = replace(fit, theta=units.theta(fit.theta), w=units.w(fit.w))
    return ExactAnswer(fit, identified, ending, note)


def _identify(workshop: Workshop, fit: HeadFit, units: Units, name: str = "identify") -> Identified:
    task = workshop.task(fit.heads, fit.rank)
    found: Identified = workshop.run(name, Identified, lambda: identify(task, fit, units))
    return _believed(found, fit, workshop.config)


def _identify_wide(workshop: Workshop, fit: HeadFit, units: Units) -> Identified:
    if not fit.exact or fit.rank is None:
        return unidentified(fit)
    task = workshop.wide_task(fit.heads, fit.rank)
    found = workshop.run("identify", Identified, lambda: identify_wide(task, fit, units))
    return _believed(found, fit, workshop.config)


def _believed(identified: Identified, fit: HeadFit, config: ExactConfig) -> Identified:
    """Bars that are too large, where there is no noise, say that heads are not determined."""
    if fit.exact and _bar(identified) > config.largest_bar:
        return replace(identified, determined=False)
    return identified


def _fewer_under_noise(workshop: Workshop, heads: int) -> int:
    """The smallest number of heads that explains noisy examples as well as so many do."""
    while heads > 1:
        fewer, more = workshop.ripe_fit(heads - 1), workshop.ripe_fit(heads)
        if improves(fewer, more, workshop.config):
            break
        heads -= 1
    return heads


def _spectrum(data: FittingData, kind: str, config: ExactConfig, seed: int) -> Spectrum:
    reason = ""
    if kind == "other" and not _gaussian(data, seed):
        reason = "tokens are neither uniform on +-1 nor standard Gaussian"
    elif data.split.n_fit < config.spectrum_examples:
        reason = f"{data.split.n_fit} examples; moments take {config.spectrum_examples}"
    if reason:
        return Spectrum.not_applicable(reason, data.dim, data.out_dim)
    normalised = attention_function(config.attention).normalised
    return moment_spectrum(data, config.moments, seed, normalised=normalised)


def _gaussian(data: FittingData, seed: int) -> bool:
    """Whether tokens are standard Gaussian now that they are in units of their own."""
    X, Y = data.sample(LOOKED_AT, seed)
    return survey(ArrayExamples(X[..., : data.dim], Y)).kind == "gaussian"


def _mix(data: FittingData, spectrum: Spectrum, config: ExactConfig, seed: int) -> Mixed:
    count = mixing_examples(spectrum.heads, data.width, data.seq_len, config.mixing)
    X, Y = data.sample(count, seed)
    return mix(
        X,
        Y,
        spectrum.theta_span,
        config.mixing,
        seed,
        constant=data.constant,
        function=attention_function(config.attention),
    )


def _objection(workshop: Workshop, heads: int, asked: bool) -> NotLearned | None:
    """Why a residual that is not rounding is not noise either; None if it may be."""
    config, few = workshop.config, workshop.counting_fit(heads)
    words = heads_in_words(heads)
    words += f" of rank {config.rank}" if config.rank is not None else ""
    if few.rank is not None and config.rank is None:
        needed = workshop.unknowns(heads, None) / (workshop.data.seq_len * workshop.data.out_dim)
        detail = f"{few.examples} examples are fitted; {words} of full rank take {needed:.0f}"
        return NotLearned(Status.TOO_FEW_EXAMPLES, detail)
    fit = workshop.ripe_fit(heads)
    if fit.exact:
        return None
    noise = noise_of(fit)
    if noise > config.largest_noise:
        return NotLearned(
            Status.NOT_REALIZABLE, f"what {words} cannot explain is {noise:.2g} of the outputs"
        )
    if heads < workshop.most_heads():
        more = workshop.ripe_fit(heads + 1)
        if improves(fit, more, config):
            detail = (
                f"the validation error is {fit.validation_error:.2g} with {words}, "
                f"{more.validation_error:.2g} with one more"
            )
            return NotLearned(Status.NOT_REALIZABLE, detail)
    elif not asked:
        if heads >= workshop.heads_allowed():
            detail = f"{words}, the most that are tried at this dimension, do not explain them"
            return NotLearned(Status.NOT_REALIZABLE, detail)
        detail = f"{words}, all that the examples could determine, do not explain them"
        return NotLearned(Status.TOO_FEW_EXAMPLES, detail)
    share, z = structure_left(workshop.task(heads, fit.rank, count=fit.examples), fit)
    if z > config.significance:
        detail = f"the tokens predict {share:.1%} of what {words} cannot explain"
        return NotLearned(Status.NOT_REALIZABLE, detail)
    return None


def _bar(identified: Identified) -> float:
    return float(max(np.max(identified.theta_bars), np.max(identified.w_bars)))


def _noise_objection(identified: Identified, config: ExactConfig) -> NotLearned | None:
    """Why noise leaves too little to believe; None if it does not."""
    bar = _bar(identified)
    if not identified.determined:
        return NotLearned(Status.TOO_NOISY, "directions that hardly show leave no error bars")
    if identified.noise <= config.largest_noise and bar <= config.largest_bar:
        return None
    detail = f"noise of {identified.noise:.2g} leaves heads uncertain by {bar:.2g}"
    return NotLearned(Status.TOO_NOISY, detail)
