"""The front door of learning by queries: ask, learn, and verify the answer on fresh questions."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gradine.checks import whole_number
from gradine.exact.heads import unknowns
from gradine.exact.workshop import RunPhase
from gradine.examples import ArrayExamples, Survey, survey
from gradine.fit import Asking, Fit
from gradine.phases import Phases
from gradine.progress import Listener, Tell, chosen_listener
from gradine.queries import Usage
from gradine.queries.asking.log import AnswerLog
from gradine.queries.asking.oracle import Oracle, as_oracle
from gradine.queries.asking.precision import Precision, glance_at_precision, probe_precision
from gradine.queries.asking.tokens import allowed_size
from gradine.queries.by_fit.learn import learn_fit
from gradine.queries.by_fit.noisy import spare_note
from gradine.queries.closed_form.learn import learn_in_closed_form
from gradine.queries.config import QueryConfig
from gradine.queries.scalar.learn import learn_scalar
from gradine.queries.verification import Budget, fresh_questions, verified
from gradine.status import NotLearned, Status
from gradine.verdict import Ended

__all__ = [
    "ANSWERS",
    "METHODS",
    "QueryMethod",
    "answer_log",
    "check_query",
    "learn_by_queries",
    "ways",
]

Array = NDArray[np.float64]
QueryMethod = Literal["auto", "fit", "closed", "scalar"]

METHODS = ("auto", "fit", "closed", "scalar")
ANSWERS = "answers"  # folder of the answers in that of a run
LIKELY_HEADS = 8  # by which `auto` judges what a fit would take, where heads are not told


def learn_by_queries(
    oracle: Any,
    dim: int | None = None,
    heads: int | Literal["auto"] = "auto",
    max_queries: int | None = None,
    *,
    method: QueryMethod = "auto",
    rank: int | None = None,
    seed: int = 0,
    config: QueryConfig | None = None,
    listener: Listener | None = None,
    records: str | os.PathLike[str] | None = None,
    resume: bool = False,
) -> Fit:
    """Learn the heads of an attention layer that can be asked.

    ``oracle`` is an `Oracle`, or anything that `as_oracle` makes one of; ``dim`` is the number of
    coordinates of a token, where the oracle does not tell. At most ``max_queries`` sequences are
    sent. ``rank`` is that of every head, if it is known to be small. Answers are kept in the folder
    ``records``, and with ``resume`` those of an earlier run are not asked again (an `Oracle` keeps
    its own log). A run that does not succeed returns a `Fit` whose status says why; only what
    makes no sense raises ``ValueError``.

    >>> import gradine
    >>> hidden = gradine.plant(heads=2, dim=8, seed=1)
    >>> fit = learn_by_queries(hidden)
    >>> fit.status.code, fit.heads, fit.asking.rows_used - fit.asking.verify_rows
    ('learned', 2, 66)
    """
    began = time.perf_counter()
    config = QueryConfig() if config is None else config
    if not isinstance(config, QueryConfig):
        raise ValueError(f"config is of type {type(config).__name__}; expected QueryConfig")
    if rank is not None:
        config = replace(config, exact=replace(config.exact, rank=rank))
    log = None
    if records is not None:
        if isinstance(oracle, Oracle):
            raise ValueError(
                "records is given, and oracle is an Oracle, which keeps its own log; expected "
                "as_oracle(..., log=AnswerLog(folder))"
            )
        log = answer_log(records, resume, heads, method, seed, config)
    source = as_oracle(oracle, dim, log=log)
    wanted = check_query(source, heads, method, seed, config)
    before, budget = source.usage, Budget(source, max_queries, config)
    listener = chosen_listener(listener)
    phases = Phases(listener, budget.most or 0)
    try:
        ended, precision = Ended(method, None, budget.hopeless), None
        if ended.ending is None:
            request = _Request(
                source, wanted, seed, config, phases.run, listener.fit_went_on, method != "auto"
            )
            with budget.without_verification():
                ended, precision = _learn(request, ways(method, source, wanted, config))
        learning = source.usage
        X = fresh_questions(source, ended.layer, budget.verify, config, seed)
        verdict, Y = verified(source, ended, precision, X, config, phases.run)
    finally:
        budget.end()
    return Fit(
        status=verdict.status,
        detail=verdict.detail,
        layer=ended.layer if verdict.status.learned else None,
        certificate=verdict.certificate,
        phases=phases.results,
        theorem=None,
        candidate=ended.layer,
        heads=None if ended.layer is None else ended.layer.n_heads,
        held_out_error=verdict.error,
        examples_used=source.queries_used - before.queries_used,
        seconds=time.perf_counter() - began,
        seed=seed,
        method=ended.method,
        config=config,
        survey=_survey(X, Y),
        asking=_asking(before, learning, source, precision, Y),
        call={"heads": heads, "max_queries": max_queries, "method": method},
    )


@dataclass(frozen=True, eq=False)
class _Request:
    """What a learner is given."""

    oracle: Oracle
    heads: int | None
    seed: int
    config: QueryConfig
    run: RunPhase
    tell: Tell  #: where a fit has got to
    insists: bool  #: on the learner, whatever it takes


Way = Callable[[_Request, Precision], tuple[Ended, Precision]]


def answer_log(
    records: str | os.PathLike[str],
    resume: bool,
    heads: int | str,
    method: str,
    seed: int,
    config: QueryConfig,
) -> AnswerLog:
    """The answers of one run in its folder; those of a run with other settings are refused.

    Phases leave no records beside them: one that asked, and was not run again, would leave the
    log out of step. What took time is the asking.
    """
    from gradine import __version__

    run = [str(heads), method, seed, asdict(config), __version__]
    return AnswerLog(Path(records) / ANSWERS, resume=resume, run=run)


def check_query(
    oracle: Oracle, heads: int | str, method: str, seed: int, config: QueryConfig
) -> int | None:
    """The number of heads, None for auto; ``ValueError`` for what cannot be asked."""
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; expected {', '.join(map(repr, METHODS))}")
    whole_number("seed", seed, 0)
    if config.exact.attention != "softmax":
        raise ValueError(
            f"attention is {config.exact.attention!r}; expected 'softmax', which is all that "
            "learning by queries is for"
        )
    rank = config.exact.rank
    if rank is not None and not 1 <= rank <= oracle.dim:
        raise ValueError(
            f"rank is {rank}; expected between 1 and {oracle.dim}, the dimension of a token"
        )
    last = oracle.readout.rows == "last"
    if method in ("fit", "closed") and last:
        raise ValueError(
            f"method is {method!r}, and only the last row is visible; expected 'scalar' or 'auto'"
        )
    if last and oracle.readout.output is None:
        raise ValueError(
            "the oracle shows all outputs of the last row; expected one of them (output=0, or "
            "--output 0), or all rows"
        )
    if method == "scalar" and not last:
        raise ValueError("method is 'scalar'; expected an oracle with rows='last'")
    allowed_size(oracle)
    if heads == "auto":
        return None
    return whole_number("heads", heads, 1)


def ways(method: str, oracle: Oracle, heads: int | None, config: QueryConfig) -> tuple[str, ...]:
    """The learners to try in turn; a second one where the function is none that the first can."""
    if method != "auto":
        return (method,)
    if oracle.readout.rows == "last":
        return ("scalar",)
    d = oracle.dim
    numbers = unknowns(heads or LIKELY_HEADS, d, d, oracle.out_dim or d, config.exact.rank)
    return ("fit",) if numbers <= config.affordable else ("closed", "fit")


def _learn(request: _Request, ways: tuple[str, ...]) -> tuple[Ended, Precision | None]:
    """The answer of the first learner that has one, and how exact answers were found to be."""
    ended, precision = Ended(ways[0], None), None
    for way in ways:
        try:
            look = glance_at_precision if way == "fit" else probe_precision
            precision = precision or look(request.oracle, seed=request.seed)
            ended, precision = WAYS[way](request, precision)
        except NotLearned as stopped:
            ended = Ended(way, None, stopped)
            if stopped.status is not Status.NOT_REALIZABLE:
                break
            continue
        break
    return ended, precision


def _by_fit(request: _Request, precision: Precision) -> tuple[Ended, Precision]:
    answer = learn_fit(
        request.oracle,
        request.heads,
        precision,
        request.seed,
        request.run,
        request.config,
        tell=request.tell,
        most_unknowns=math.inf if request.insists else request.config.affordable,
    )
    ended = Ended("fit", answer.layer, answer.ending, answer.identified, answer.fitted, answer.note)
    return ended, answer.precision


def _in_closed_form(request: _Request, precision: Precision) -> tuple[Ended, Precision]:
    layer = learn_in_closed_form(
        request.oracle, request.heads, precision, request.seed, request.run, request.tell
    )
    note = spare_note(request.heads, layer.n_heads)
    return Ended("closed", layer, note=note), precision


def _scalar(request: _Request, precision: Precision) -> tuple[Ended, Precision]:
    layer = learn_scalar(request.oracle, request.heads, precision, request.seed, request.run)
    note = spare_note(request.heads, layer.n_heads)
    return Ended("scalar", layer, note=note), precision


WAYS: dict[str, Way] = {
    "fit": _by_fit,
    "closed": _in_closed_form,
    "scalar": _scalar,
}


def _survey(X: Array, Y: Array) -> Survey:
    """What the last questions look like; where one row is visible, it stands for all."""
    return survey(ArrayExamples(X, np.broadcast_to(Y, (*X.shape[:2], Y.shape[2]))))


def _asking(
    before: Usage, learning: Usage, source: Oracle, precision: Precision | None, Y: Array
) -> Asking:
    after = source.usage
    size = float(np.sqrt(np.mean(Y**2)))
    noise = 0.0 if precision is None else precision.noise(size or 1.0) / (size or 1.0)
    return Asking(
        queries_used=after.queries_used - before.queries_used,
        rows_used=after.rows_used - before.rows_used,
        verify_queries=after.queries_used - learning.queries_used,
        verify_rows=after.rows_used - learning.rows_used,
        failures=after.failures - before.failures,
        seconds=after.seconds - before.seconds,
        precision="" if precision is None else precision.kind,
        noise=noise,
        oracle_options=source.options,
    )
