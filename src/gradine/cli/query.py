"""`gradine query`: the heads of a layer that answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from gradine.cli.console import STOPPED, Ending, prints_for_people
from gradine.cli.options import (
    AsJson,
    Confidence,
    Example,
    Heads,
    Out,
    Overwrite,
    Report,
    Seed,
    Truth,
    Words,
    number_of_heads,
)
from gradine.cli.run import (
    Outcome,
    Shown,
    check_attention,
    ending_of,
    finish,
    print_outcome,
    read_shown,
)
from gradine.cli.story import with_examples
from gradine.files import printable
from gradine.fit import Fit
from gradine.layer import AttentionLayer
from gradine.progress import PhaseDisplay
from gradine.queries.asking.config import OracleConfig
from gradine.queries.asking.limits import Ball, Box, Limit
from gradine.queries.asking.oracle import Oracle, as_oracle
from gradine.queries.config import QueryConfig
from gradine.queries.verification import fresh_questions
from gradine.query import answer_log, check_query, learn_by_queries
from gradine.runs import check_free, check_inputs_outside, clear_run, output_folder

__all__ = ["query"]


class Method(StrEnum):
    """The learners of `gradine.learn_by_queries`."""

    auto = "auto"
    fit = "fit"
    closed = "closed"
    scalar = "scalar"


class Rows(StrEnum):
    """Which rows of an answer are visible."""

    all = "all"
    last = "last"


@dataclass(frozen=True)
class Request:
    """What is to be asked, how, and where it goes."""

    oracle: str
    out: Path
    dim: int | None
    heads: int | Literal["auto"]
    method: Method
    max_queries: int | None
    seed: int
    resume: bool
    overwrite: bool
    truth: AttentionLayer | None
    report: bool
    shown: Shown | None
    config: QueryConfig
    options: dict[str, Any]  #: of the oracle


@with_examples(
    "gradine query --oracle layer.safetensors --out asked",
    "gradine query --oracle model:answer --dim 16 --max-queries 5000 --out limited",
)
def query(
    oracle: Annotated[
        str,
        typer.Option(
            "--oracle",
            help="What is asked: a layer file, or module:function of the working directory.",
        ),
    ],
    out: Out,
    dim: Annotated[
        int | None,
        typer.Option("--dim", help="Coordinates of a token.", show_default="what a layer file has"),
    ] = None,
    heads: Heads = "auto",
    rank: Annotated[
        int | None, typer.Option("--rank", help="Rank of every head, if it is known to be small.")
    ] = None,
    method: Annotated[Method, typer.Option("--method", help="The learner.")] = Method.auto,
    max_queries: Annotated[
        int | None, typer.Option("--max-queries", help="Sequences that may be sent, in all.")
    ] = None,
    rows: Annotated[
        Rows, typer.Option("--rows", help="Rows of an answer that are visible.")
    ] = Rows.all,
    output: Annotated[
        int | None, typer.Option("--output", help="The one coordinate of a row that is visible.")
    ] = None,
    box: Annotated[
        tuple[float, float] | None,
        typer.Option("--box", help="Coordinates of tokens stay between these."),
    ] = None,
    ball: Annotated[
        float | None, typer.Option("--ball", help="The largest norm of a token.")
    ] = None,
    one_at_a_time: Annotated[
        bool, typer.Option("--one-at-a-time", help="The function takes one sequence (k, d).")
    ] = False,
    retries: Annotated[
        int, typer.Option("--retries", help="Calls in a row that may bring nothing new.")
    ] = OracleConfig.retries,
    seed: Seed = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in the folder; ask nothing again.")
    ] = False,
    overwrite: Overwrite = False,
    truth: Truth = None,
    report: Report = True,
    example: Example = None,
    words: Words = None,
    confidence: Confidence = 0.99,
    as_json: AsJson = False,
) -> None:
    """Learn the heads of a layer by asking it, and verify them.

    They are verified on fresh questions. The folder then holds layer.safetensors (only if it was
    verified), result.json, report.html and the answers, so that a run that was stopped asks
    nothing again.
    """
    check_inputs_outside(out, (oracle, truth, example))
    config = QueryConfig(confidence=confidence)
    request = Request(
        oracle=oracle,
        out=out,
        dim=dim,
        heads=number_of_heads(heads),
        method=method,
        max_queries=max_queries,
        seed=seed,
        resume=resume,
        overwrite=overwrite,
        truth=None if truth is None else _visible(AttentionLayer.load(truth), output),
        report=report,
        shown=read_shown(example, words),
        config=replace(config, exact=replace(config.exact, rank=rank)),
        options={
            "rows": None if rows is Rows.all else rows.value,
            "output": output,
            "limit": _limit(box, ball),
            "config": OracleConfig(one_at_a_time=one_at_a_time, retries=retries),
        },
    )
    try:
        with prints_for_people():
            outcome = _run(request)
    except KeyboardInterrupt:
        raise Ending(STOPPED, "stopped; continue with --resume") from None
    print_outcome(outcome, as_json)
    if not outcome.fit.learned:
        raise ending_of(outcome)


def _limit(box: tuple[float, float] | None, ball: float | None) -> Limit | None:
    if box is not None and ball is not None:
        raise ValueError("--box and --ball were both given; expected at most one of them")
    if box is not None:
        return Box(*box)
    return None if ball is None else Ball(ball)


def _visible(truth: AttentionLayer, output: int | None) -> AttentionLayer:
    """What of the truth can be found, where one coordinate of a row is visible."""
    if output is None or not 0 <= output < truth.out_dim:
        return truth
    w = truth.w[:, :, output : output + 1]
    return AttentionLayer(truth.theta, w, truth.constant, attention=truth.function.name)


def _run(request: Request) -> Outcome:
    # All that can be wrong is found before an earlier run is cleared away.
    asked = as_oracle(request.oracle, request.dim, **request.options)
    check_query(asked, request.heads, request.method.value, request.seed, request.config)
    _check_truth(request.truth, asked)
    if request.shown is not None:
        request.shown.check(asked.dim)
    check_free(request.out, "query", request.resume, request.overwrite)
    with output_folder(request.out) as folder:
        if not request.resume:
            clear_run(folder)
        fit = _learn(request, folder)
        extra = {"oracle": printable(Path(request.oracle).name), "dim": asked.dim}
        shown = None
        if request.report:
            fresh = fresh_questions(asked, fit.candidate, 1, request.config, request.seed)[0]
            shown = request.shown or Shown(fresh)
        return finish(folder, fit, extra, request.truth, shown)


def _check_truth(truth: AttentionLayer | None, oracle: Oracle) -> None:
    if truth is None:
        return
    check_attention(truth, "softmax")
    if truth.dim != oracle.dim or oracle.out_dim not in (None, truth.out_dim):
        expected = "any" if oracle.out_dim is None else str(oracle.out_dim)
        raise ValueError(
            f"truth has dim {truth.dim} and out_dim {truth.out_dim}; expected {oracle.dim} "
            f"and {expected} as the oracle has"
        )


def _learn(request: Request, folder: Path) -> Fit:
    with PhaseDisplay() as display:
        log = answer_log(
            folder,
            request.resume,
            request.heads,
            request.method.value,
            request.seed,
            request.config,
        )
        oracle = as_oracle(
            request.oracle,
            request.dim,
            log=log,
            on_answer=display.examples_seen,
            **request.options,
        )
        clear_run(folder, keep_records=True)  # the log is that of this run: so are stale answers
        return learn_by_queries(
            oracle,
            heads=request.heads,
            max_queries=request.max_queries,
            method=request.method.value,
            seed=request.seed,
            config=request.config,
            listener=display,
        )
