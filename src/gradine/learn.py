"""The front door: check the examples, run a learner, and verify its answer on fresh examples."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from gradine.certificate import Certificate, HeadBars, certify, relative_errors
from gradine.exact.heads import unknowns
from gradine.exact.pipeline import learn_exactly
from gradine.exact.results import Identified
from gradine.examples import (
    ArrayExamples,
    Examples,
    FittingData,
    Split,
    Survey,
    make_split,
    survey,
    take,
)
from gradine.files import OutputError
from gradine.fit import Fit, LearnConfig, figures_of
from gradine.layer import AttentionLayer
from gradine.progress import Listener
from gradine.records import check_record, fingerprint, load_record, save_record
from gradine.sculpt.pipeline import six_phases
from gradine.sculpt.search import square
from gradine.solvers.convex import SolverError
from gradine.status import NotLearned, Status

__all__ = ["Fit", "LearnConfig", "Status", "learn", "learn_examples"]

Array = NDArray[np.float64]
Result = TypeVar("Result")
Method = Literal["auto", "exact", "sculpt"]

BIAS_Z = 8.0  # a mean output this many standard errors from zero: the layer has biases
LARGEST_OUTPUT = 1e10  # beyond, the polish mixes numbers of too different sizes
NOISE_SLACK = 1.25  # held-out error over estimated noise: relative errors weigh small outputs more
RECORDS = "phases"
RECORD_PATTERN = "[0-9][0-9]_*.safetensors"  # phase records, and nothing that others put there

#: The learners that a method tries in turn.
LEARNERS: dict[str, tuple[str, ...]] = {
    "auto": ("exact", "sculpt"),
    "exact": ("exact",),
    "sculpt": ("sculpt",),
}
#: Endings after which the next learner is tried: the first one may have lost its way.
SECOND_CHANCE = (Status.NOT_REALIZABLE, Status.NOT_VERIFIED)


def learn(
    X: Any,
    Y: Any,
    heads: int | Literal["auto"] = "auto",
    method: Method = "auto",
    seed: int = 0,
    *,
    config: LearnConfig | None = None,
    listener: Listener | None = None,
) -> Fit:
    """Learn the heads of an attention layer from examples.

    ``X`` (n, k, d) are token sequences and ``Y`` (n, k, d_out) what the layer made of them; for
    torch tensors the exact learner computes in torch, on their device. A run
    that does not succeed returns a `Fit` whose status says why; only input that makes no sense
    raises ``ValueError``.

    >>> import gradine
    >>> truth = gradine.plant(heads=1, dim=6, scale=3.0, seed=1)
    >>> X = gradine.sample_inputs(8000, seq_len=3, dim=6, seed=2)
    >>> fit = gradine.learn(X, truth(X))
    >>> fit.status.code, fit.layer
    ('learned', AttentionLayer(heads=1, dim=6, out_dim=6, constant=False))
    """
    examples = ArrayExamples(X, Y)
    return learn_examples(examples, heads, method, seed, config=config, listener=listener)


def learn_examples(
    examples: Examples,
    heads: int | Literal["auto"] = "auto",
    method: Method = "auto",
    seed: int = 0,
    *,
    config: LearnConfig | None = None,
    listener: Listener | None = None,
    records: str | os.PathLike[str] | None = None,
    resume: bool = False,
) -> Fit:
    """Like `learn`, for examples from anywhere; phases are saved in the folder ``records``.

    With ``resume``, phases that an earlier run on the same data and settings finished are read
    back instead of run, and the answer is the same as that of an unbroken run.
    """
    began = time.perf_counter()
    config = config or LearnConfig()
    listener = listener or Listener()
    wanted = _check_request(examples, heads, method, seed, config)
    listener.phase_started("survey", examples.n)
    split = make_split(
        examples.n,
        validation=config.validation_examples,
        certify=config.certify_examples,
        largest_share=config.held_out_share,
        seed=seed,
    )
    seen = survey(
        examples,
        config.block_size,
        may_decide=split.fit_rows,
        on_block=lambda count, _: listener.examples_seen(count),
    )
    listener.phase_ended("survey", {"inputs": seen.kind, "examples": seen.n}, False)
    data = _fitting_data(examples, split, seen, config, listener)
    _check_size(data, seen)
    objections = {
        name: objection(data, seen, wanted, config) for name, objection in OBJECTIONS.items()
    }
    names = LEARNERS[method]
    if objections[names[0]]:
        raise ValueError(f"{examples.name}: {objections[names[0]]}")
    phases: dict[str, Any] = {}
    recalled: list[float] = []  # seconds that phases took in the run that is resumed
    key = _run_key(seen, wanted, method, seed, config)
    run = _runner(phases, recalled, data, listener, records, resume, key)
    request = _Request(data, seen.kind, wanted, config, seed, run)
    ended = _Ended(names[0], None, NotLearned(Status.NOT_VERIFIED))
    verdict = _Verdict(Status.NOT_VERIFIED)
    for name in names:
        if objections[name]:
            continue
        latest = RUNS[name](request)
        judged = _verdict(latest, data, config)
        if name == names[0] or judged.status.learned:
            ended, verdict = latest, judged
        if judged.status not in SECOND_CHANCE:
            break
    candidate = ended.layer
    return Fit(
        status=verdict.status,
        detail=verdict.detail,
        layer=candidate if verdict.status.learned else None,
        certificate=verdict.certificate,
        phases=phases,
        theorem=_layer_of(data, phases.get("search")),
        candidate=candidate,
        heads=None if candidate is None else candidate.n_heads,
        held_out_error=verdict.error,
        examples_used=examples.n,
        seconds=time.perf_counter() - began + sum(recalled),
        seed=seed,
        method=ended.method,
        config=config,
        survey=seen,
    )


@dataclass(frozen=True, eq=False)
class _Request:
    """What a learner is given."""

    data: FittingData
    kind: str
    heads: int | None
    config: LearnConfig
    seed: int
    run: Callable[[str, type[Any], Callable[[], Any]], Any]


@dataclass(frozen=True, eq=False)
class _Ended:
    """What a learner gives back: a layer to be verified, or why there is none to believe."""

    method: str
    layer: AttentionLayer | None
    ending: NotLearned | None = None
    identified: Identified | None = None
    noisy: bool = False  #: the residual is taken for noise of the labels
    note: str = ""


@dataclass(frozen=True, eq=False)
class _Verdict:
    status: Status
    detail: str = ""
    certificate: Certificate | None = None
    error: float | None = None


def _run_exact(request: _Request) -> _Ended:
    data, config = request.data, request.config
    try:
        answer = learn_exactly(
            data,
            request.kind,
            request.heads,
            config.exact,
            request.seed,
            request.run,
            like=data.examples.like,
        )
    except NotLearned as stopped:
        return _Ended("exact", None, stopped)
    noisy = not answer.fit.exact
    layer = _layer_of(data, answer.fit)
    return _Ended("exact", layer, answer.ending, answer.identified, noisy, answer.note)


def _run_sculpt(request: _Request) -> _Ended:
    data, config = request.data, request.config
    try:
        answer = six_phases(data, request.heads, config.sculpt, request.seed, request.run)
    except NotLearned as stopped:
        return _Ended("sculpt", None, stopped)
    except SolverError as stopped:
        return _Ended("sculpt", None, NotLearned(Status.NO_BODY, str(stopped)))
    return _Ended("sculpt", _layer_of(data, answer))


def _layer_of(data: FittingData, result: Any) -> AttentionLayer | None:
    """The layer of a phase result that has heads."""
    if result is None:
        return None
    return AttentionLayer(square(result.theta, data.width), result.w, data.constant).canonical()


def _check_request(
    examples: Examples, heads: int | str, method: str, seed: int, config: LearnConfig
) -> int | None:
    """The number of heads, None for auto; ``ValueError`` for what cannot be asked."""
    if method not in LEARNERS:
        raise ValueError(f"method is {method!r}; expected {', '.join(map(repr, LEARNERS))}")
    if not 0.0 < config.confidence < 1.0:
        raise ValueError(f"confidence is {config.confidence}; expected between 0 and 1")
    for name in ("validation_examples", "certify_examples"):
        if getattr(config, name) < 1:
            raise ValueError(f"{name} is {getattr(config, name)}; expected at least 1")
    if seed < 0:
        raise ValueError(f"seed is {seed}; expected a whole number from 0")
    if heads == "auto":
        return None
    if isinstance(heads, bool) or not isinstance(heads, int | np.integer):
        raise ValueError(f"heads is {heads!r}; expected 'auto' or a whole number")
    if not 1 <= heads <= examples.dim:
        raise ValueError(
            f"heads is {heads}; expected between 1 and {examples.dim}, the dimension of a token"
        )
    return int(heads)


def _fitting_data(
    examples: Examples, split: Split, seen: Survey, config: LearnConfig, listener: Listener
) -> FittingData:
    """Settle whether there is a constant coordinate."""
    wants_constant = config.constant if config.constant is not None else seen.bias_z > BIAS_Z
    if seen.constant_column and config.constant is False:
        raise ValueError(
            f"{examples.name}: the last coordinate of X is always 1, but constant=False was asked"
        )
    return FittingData(
        examples,
        split,
        constant=seen.constant_column or wants_constant,
        appended=wants_constant and not seen.constant_column,
        block_size=config.block_size,
        on_block=listener.examples_seen,
    )


def _check_size(data: FittingData, seen: Survey) -> None:
    size = float(np.sqrt(np.sum(seen.y_second)))
    if size > LARGEST_OUTPUT or 0.0 < size < 1.0 / LARGEST_OUTPUT:
        raise ValueError(
            f"{data.examples.name}: outputs have size {size:.1g}; expected between "
            f"{1 / LARGEST_OUTPUT:g} and {LARGEST_OUTPUT:g} (scale Y)"
        )


def _sculpt_objection(
    data: FittingData, seen: Survey, heads: int | None, config: LearnConfig
) -> str:
    """Why the six phases cannot work with these examples; empty if they can."""
    m = heads or 1
    per_head = data.unknowns + data.width * data.out_dim
    bound = math.ceil(m * per_head / (data.seq_len * data.out_dim))
    needed = max(bound, math.ceil(1.5 * data.unknowns / (data.seq_len * (data.seq_len - 1))))
    if data.split.n_fit < needed:
        return _too_few(data, m, needed, ", and the six phases usually thousands")
    if seen.kind == "other":
        return (
            "X is neither uniform on +-1 nor near standard Gaussian; "
            "the six phases need one of these"
        )
    return ""


def _exact_objection(
    data: FittingData, seen: Survey, heads: int | None, config: LearnConfig
) -> str:
    """Why variable projection cannot work with these examples; empty if it can."""
    rank = config.exact.rank
    if rank is not None and not 1 <= rank <= data.dim:
        return f"rank is {rank}; expected between 1 and {data.dim}, the dimension of a token"
    m = heads or 1
    least = unknowns(m, data.width, data.dim, data.out_dim, 1 if rank is None else rank)
    needed = math.ceil(least / (data.seq_len * data.out_dim))
    if not len(data.split.validation) or not len(data.split.certify):
        return f"n = {data.examples.n} is too few examples: none is left to check an answer"
    return _too_few(data, m, needed, "") if data.split.n_fit < needed else ""


def _too_few(data: FittingData, heads: int, needed: int, more: str) -> str:
    total = math.ceil(needed * data.examples.n / max(data.split.n_fit, 1))
    return (
        f"n = {data.examples.n} is too few examples for the unknowns; {heads} "
        f"head{'s' if heads > 1 else ''} at dim {data.dim} need at least {total}{more}"
    )


OBJECTIONS = {"exact": _exact_objection, "sculpt": _sculpt_objection}
RUNS: dict[str, Callable[[_Request], _Ended]] = {"exact": _run_exact, "sculpt": _run_sculpt}


def _run_key(seen: Survey, heads: int | None, method: str, seed: int, config: LearnConfig) -> str:
    """What a phase result depends on: the data (by all its moments), the request, the settings."""
    from gradine import __version__

    config = replace(config, exact=replace(config.exact, curve_points=0))  # no part of the answer
    settings = [heads, method, seed, asdict(config), __version__, seen.n, seen.seq_len]
    moments = [seen.x_mean, seen.x_variance, seen.x_fourth, seen.y_mean, seen.y_second]
    return fingerprint(settings, *moments)


def _runner(
    phases: dict[str, Any],
    recalled_seconds: list[float],
    data: FittingData,
    listener: Listener,
    records: str | os.PathLike[str] | None,
    resume: bool,
    key: str,
) -> Callable[[str, type[Any], Callable[[], Any]], Any]:
    """Run each phase once, tell the listener, and keep its result on disk."""
    folder = None if records is None else Path(records) / RECORDS
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot write {folder}: {error.strerror or error}") from error
        if resume:  # all of them, as this run may come to other phases than that one
            for path in sorted(folder.glob(RECORD_PATTERN)):
                check_record(path, key)

    def run(name: str, kind: type[Result], work: Callable[[], Result]) -> Result:
        path = None if folder is None else folder / f"{len(phases) + 1:02d}_{name}.safetensors"
        listener.phase_started(name, data.examples.n)
        recalled = resume and path is not None and path.exists()
        if recalled:
            assert path is not None
            result = load_record(path, kind, key)
            recalled_seconds.append(result.seconds)  # pyright: ignore[reportAttributeAccessIssue]
        else:
            result = work()
            if path is not None:
                save_record(path, result, key)
        phases[name] = result
        listener.phase_ended(name, figures_of(result), recalled)
        return result

    return run


def _verdict(ended: _Ended, data: FittingData, config: LearnConfig) -> _Verdict:
    """Certify on examples that took no part in fitting; nothing else is called learned."""
    if ended.layer is None:
        assert ended.ending is not None
        return _Verdict(ended.ending.status, ended.ending.detail)
    X, Y = take(data.examples, data.split.certify)
    errors = relative_errors(ended.layer(data.tokens(X)), Y)
    certificate = certify(errors, config.confidence, _bars(ended.identified))
    median = certificate.median_error
    if ended.ending is not None:
        return _Verdict(ended.ending.status, ended.ending.detail, None, median)
    least = math.ceil(
        math.log((1.0 - config.confidence) / len(certificate.p)) / math.log1p(-config.share)
    )
    if len(errors) < least:
        detail = f"{len(errors)} are held out; a share of {config.share:g} takes {least}"
        return _Verdict(Status.TOO_FEW_HELD_OUT, detail, None, median)
    if ended.noisy and ended.identified is not None:
        return _noisy_verdict(ended.identified, errors, certificate)
    tolerance = config.polished_tolerance
    if ended.method == "sculpt" and not config.sculpt.polish:
        tolerance = config.theorem_tolerance
    if certificate.eps_at(config.share) <= tolerance:
        return _Verdict(Status.LEARNED, ended.note, certificate, median)
    detail = f"median relative error {median:.2g}, tolerance {tolerance:g}"
    return _Verdict(Status.NOT_VERIFIED, detail, None, median)


def _noisy_verdict(identified: Identified, errors: Array, certificate: Certificate) -> _Verdict:
    """Held-out examples must err by the noise that fitting found, and no more."""
    noise, error = identified.noise, float(np.sqrt(np.mean(errors**2)))
    detail = f"noise {noise:.2g} of the outputs, heads known to {identified.theta_bars.max():.2g}"
    if error <= NOISE_SLACK * noise:
        return _Verdict(Status.LEARNED_UP_TO_NOISE, detail, certificate, certificate.median_error)
    detail = f"held-out error {error:.2g}, but the noise is {noise:.2g}"
    return _Verdict(Status.NOT_VERIFIED, detail, None, certificate.median_error)


def _bars(identified: Identified | None) -> HeadBars | None:
    if identified is None:
        return None
    return HeadBars(
        noise=identified.noise,
        theta=tuple(identified.theta_bars.tolist()),
        w=tuple(identified.w_bars.tolist()),
        condition=identified.condition,
    )
