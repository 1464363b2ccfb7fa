"""The exact learner, stage by stage: count by moments, begin there, fit, check, put error bars."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from gradine.exact.config import ExactConfig
from gradine.exact.count import count_heads, improves, spare_heads
from gradine.exact.heads import fit_heads
from gradine.exact.identify import identify, noise_of, structure_left
from gradine.exact.mixing import mix, mixing_examples
from gradine.exact.moments import moment_spectrum
from gradine.exact.results import Curve, HeadFit, Identified, Mixed, Spectrum
from gradine.exact.workshop import RunPhase, Workshop
from gradine.examples import FittingData
from gradine.status import NotLearned, Status

__all__ = ["ExactAnswer", "learn_exactly"]


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
) -> ExactAnswer:
    """Learn the heads; ``like`` is an array of the library that does the arithmetic."""
    if _nothing_to_see(data):
        raise NotLearned(Status.NOTHING_TO_SEE)
    workshop = Workshop(data, like, config, seed, run)

    if heads is None:
        # The moments count the heads and say where they lie, if the inputs are such that they can.
        spectrum: Spectrum = run("spectrum", Spectrum, lambda: _spectrum(data, kind, config, seed))
        most = workshop.most_heads()
        first = min(max(spectrum.heads, 1), most)
        if first == spectrum.heads:
            mixed: Mixed = run("mixing", Mixed, lambda: _mix(data, spectrum, config, seed))
            workshop.known[first] = mixed.theta[:, :, : data.dim]
        # Variable projection with ever more heads, until one more explains nothing more.
        sure = spectrum.confidence >= config.sure
        heads = count_heads(workshop.counting_fit, first, most, sure, config)
        fit, asked = workshop.counting_fit(heads), False
    else:
        fit, asked = workshop.fit(heads), True
    note = ""
    if fit.exact and (spare := spare_heads(fit)) and (fewer := workshop.fit(heads - spare)).exact:
        fit, note = fewer, f"{heads - spare} of {heads} heads suffice"

    # Is what is left noise? Then all examples that memory allows average it out.
    ending = None
    if not fit.exact:
        ending = _objection(workshop, fit, asked)
        if ending is None:
            fit = workshop.refined(fit)

    # What the examples determine.
    task = workshop.task(fit.heads, fit.rank)
    identified: Identified = run("identify", Identified, lambda: identify(task, fit))
    bar = float(np.max(identified.theta_bars))
    if ending is None and not fit.exact and not bar <= config.largest_bar:
        detail = f"noise of {identified.noise:.2g} leaves heads uncertain by {bar:.2g}"
        ending = NotLearned(Status.TOO_NOISY, detail)
    if config.curve_points and fit.exact:
        run("curve", Curve, lambda: _error_curve(workshop, fit))
    return ExactAnswer(fit, identified, ending, note)


def _nothing_to_see(data: FittingData) -> bool:
    """Whether all outputs are zero."""
    return not data.reduce(lambda _, Y: bool(Y.any()), lambda a, b: a or b)


def _spectrum(data: FittingData, kind: str, config: ExactConfig, seed: int) -> Spectrum:
    reason = ""
    if kind == "other":
        reason = "tokens are neither uniform on +-1 nor standard Gaussian"
    elif data.split.n_fit < config.spectrum_examples:
        reason = f"{data.split.n_fit} examples; moments take {config.spectrum_examples}"
    if reason:
        return Spectrum.not_applicable(reason, data.dim, data.out_dim)
    return moment_spectrum(data, config.moments, seed)


def _mix(data: FittingData, spectrum: Spectrum, config: ExactConfig, seed: int) -> Mixed:
    count = mixing_examples(spectrum.heads, data.width, data.seq_len, config.mixing)
    X, Y = data.sample(count, seed)
    return mix(X, Y, spectrum.theta_span, config.mixing, seed, constant=data.constant)


def _objection(workshop: Workshop, fit: HeadFit, asked: bool) -> NotLearned | None:
    """Why a residual that is not rounding is not noise either; None if it may be."""
    config = workshop.config
    noise = noise_of(fit)
    if noise > config.largest_noise:
        detail = f"what {fit.heads} heads leave is {noise:.2g} of the outputs"
        return NotLearned(Status.NOT_REALIZABLE, detail)
    if fit.heads < workshop.most_heads():
        more = workshop.counting_fit(fit.heads + 1)
        if more.exact or improves(fit, more, config):
            detail = (
                f"{fit.heads} heads leave a held-out error of {fit.validation_error:.2g}, "
                f"{more.heads} leave {more.validation_error:.2g}"
            )
            return NotLearned(Status.NOT_REALIZABLE, detail)
    elif not asked:
        detail = f"{fit.heads} heads, all that the examples could determine, were not enough"
        return NotLearned(Status.NOT_REALIZABLE, detail)
    share, z = structure_left(workshop.task(fit.heads, fit.rank), fit)
    if z > config.significance:
        detail = f"the tokens predict {share:.1%} of what {fit.heads} heads leave: no noise"
        return NotLearned(Status.NOT_REALIZABLE, detail)
    return None


def _error_curve(workshop: Workshop, answer: HeadFit) -> Curve:
    """Fits from scratch to ever more of the examples: where learning sets in."""
    began = time.perf_counter()
    task = workshop.task(answer.heads, answer.rank)
    bound = answer.examples / answer.equations
    most = min(answer.examples, int(np.ceil(4.0 * bound)))
    counts = np.unique(np.geomspace(bound, most, workshop.config.curve_points).astype(int))
    errors = [
        fit_heads(task.first(int(n)), answer.heads, answer.rank, starts=1).validation_error
        for n in counts
    ]
    return Curve(
        examples=counts.astype(float),
        ratio=counts / bound,
        errors=np.array(errors),
        seconds=time.perf_counter() - began,
    )
