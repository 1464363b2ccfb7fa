"""The front door: check the examples, run a learner, and verify its answer on fresh examples."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradine.certificate import Certificate, certify, relative_errors
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
from gradine.records import fingerprint, load_record, save_record
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
RECORDS = "phases"


def learn(
    X: ArrayLike,
    Y: ArrayLike,
    heads: int | Literal["auto"] = "auto",
    method: Method = "auto",
    seed: int = 0,
    *,
    config: LearnConfig | None = None,
    listener: Listener | None = None,
) -> Fit:
    """Learn the heads of an attention layer from examples.

    ``X`` (n, k, d) are token sequences and ``Y`` (n, k, d_out) what the layer made of them. A run
    that does not succeed returns a `Fit` whose status says why; only input that makes no sense
    raises ``ValueError``.

    >>> import gradine
    >>> truth = gradine.plant(heads=1, dim=6, scale=3.0, seed=1)
    >>> X = gradine.sample_inputs(8000, seq_len=3, dim=6, seed=2)
    >>> fit = gradine.learn(X, truth(X))
    >>> fit.status.code, fit.layer
    ('learned', AttentionLayer(heads=1, dim=6, out_dim=6, constant=False))
    """
    return learn_examples(
        ArrayExamples(X, Y), heads, method, seed, config=config, listener=listener
    )


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
    _check_examples(data, seen, wanted)
    phases: dict[str, Any] = {}
    recalled: list[float] = []  # seconds that phases took in the run that is resumed
    key = _run_key(seen, wanted, seed, config)
    run = _runner(phases, recalled, data, listener, records, resume, key)
    try:
        answer = six_phases(data, wanted, config.sculpt, seed, run)
        ending: NotLearned | None = None
    except NotLearned as stopped:
        answer, ending = None, stopped
    except SolverError as stopped:
        answer, ending = None, NotLearned(Status.NO_BODY, str(stopped))

    def layer_of(result: Any) -> AttentionLayer | None:
        if result is None:
            return None
        return AttentionLayer(square(result.theta, data.width), result.w, data.constant).canonical()

    candidate = layer_of(answer)
    status, detail, certificate, error = _verdict(candidate, ending, data, config)
    return Fit(
        status=status,
        detail=detail,
        layer=candidate if status.learned else None,
        certificate=certificate,
        phases=phases,
        theorem=layer_of(phases.get("search")),
        candidate=candidate,
        heads=None if candidate is None else candidate.n_heads,
        held_out_error=error,
        examples_used=examples.n,
        seconds=time.perf_counter() - began + sum(recalled),
        seed=seed,
        method="sculpt",
        config=config,
        survey=seen,
    )


def _check_request(
    examples: Examples, heads: int | str, method: str, seed: int, config: LearnConfig
) -> int | None:
    """The number of heads, None for auto; ``ValueError`` for what cannot be asked."""
    if method not in ("auto", "sculpt"):
        raise ValueError(f"method is {method!r}; expected 'auto' or 'sculpt'")
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


def _check_examples(data: FittingData, seen: Survey, heads: int | None) -> None:
    """Refuse inputs that the six phases cannot work with."""
    name, m = data.examples.name, heads or 1
    per_head = data.unknowns + data.width * data.out_dim
    bound = math.ceil(m * per_head / (data.seq_len * data.out_dim))
    needed = max(bound, math.ceil(1.5 * data.unknowns / (data.seq_len * (data.seq_len - 1))))
    if data.split.n_fit < needed:
        total = math.ceil(needed / 0.6)  # up to two fifths are held out
        raise ValueError(
            f"{name}: n = {data.examples.n} is too few examples for the unknowns; "
            f"{m} head{'s' if m > 1 else ''} at dim {data.dim} need at least {total}, "
            "and the six phases usually thousands"
        )
    size = float(np.sqrt(np.sum(seen.y_second)))
    if size > LARGEST_OUTPUT or 0.0 < size < 1.0 / LARGEST_OUTPUT:
        raise ValueError(
            f"{name}: outputs have size {size:.1g}; expected between {1 / LARGEST_OUTPUT:g} and "
            f"{LARGEST_OUTPUT:g} (scale Y)"
        )
    if seen.kind == "other":
        raise ValueError(
            f"{name}: X is neither uniform on +-1 nor near standard Gaussian; "
            "the six phases need one of these"
        )


def _run_key(seen: Survey, heads: int | None, seed: int, config: LearnConfig) -> str:
    """What a phase result depends on: the data (by all its moments), the request, the settings."""
    from gradine import __version__

    settings = [heads, seed, asdict(config), __version__, seen.n, seen.seq_len]
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


def _verdict(
    candidate: AttentionLayer | None,
    ending: NotLearned | None,
    data: FittingData,
    config: LearnConfig,
) -> tuple[Status, str, Certificate | None, float | None]:
    """Certify on examples that took no part in fitting; nothing else is called learned."""
    if candidate is None:
        assert ending is not None
        return ending.status, ending.detail, None, None
    X, Y = take(data.examples, data.split.certify)
    errors = relative_errors(candidate(data.tokens(X)), Y)
    certificate = certify(errors, config.confidence)
    tolerance = config.polished_tolerance if config.sculpt.polish else config.theorem_tolerance
    least = math.ceil(
        math.log((1.0 - config.confidence) / len(certificate.p)) / math.log1p(-config.share)
    )
    if len(errors) < least:
        detail = f"{len(errors)} are held out; a share of {config.share:g} takes {least}"
        return Status.TOO_FEW_HELD_OUT, detail, None, certificate.median_error
    if certificate.eps_at(config.share) <= tolerance:
        return Status.LEARNED, "", certificate, certificate.median_error
    detail = f"median relative error {certificate.median_error:.2g}, tolerance {tolerance:g}"
    return Status.NOT_VERIFIED, detail, None, certificate.median_error
