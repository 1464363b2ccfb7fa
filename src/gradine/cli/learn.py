"""`gradine learn`: the heads of a layer, from examples alone."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gradine.cli.console import STOPPED, Ending
from gradine.cli.options import (
    AsJson,
    Attention,
    Confidence,
    EngineName,
    EngineOption,
    Example,
    Heads,
    Out,
    Overwrite,
    Report,
    Scheduler,
    Seed,
    Truth,
    Words,
    Workers,
    number_of_heads,
)
from gradine.cli.run import Request, ending_of, print_outcome, read_shown, run
from gradine.layer import AttentionLayer

__all__ = ["learn"]


class Method(StrEnum):
    """The learners of `gradine.learn`."""

    auto = "auto"
    exact = "exact"
    sculpt = "sculpt"


def learn(
    data: Annotated[
        Path, typer.Argument(help="An .npz file with X and Y, or a folder with X.npy and Y.npy.")
    ],
    out: Out,
    heads: Heads = "auto",
    method: Annotated[Method, typer.Option("--method", help="The learner.")] = Method.auto,
    seed: Seed = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in the folder, if there is one.")
    ] = False,
    overwrite: Overwrite = False,
    truth: Truth = None,
    polish: Annotated[
        bool,
        typer.Option("--polish/--no-polish", help="Refine the theorem's answer, or stop there."),
    ] = True,
    report: Report = True,
    example: Example = None,
    words: Words = None,
    constant: Annotated[
        bool | None,
        typer.Option(
            "--constant/--no-constant",
            help="Whether the layer has biases.",
            show_default="decided from the data",
        ),
    ] = None,
    confidence: Confidence = 0.99,
    rank: Annotated[
        int | None,
        typer.Option(
            "--rank",
            help="Rank of every head, if it is known to be small.",
            show_default="full; low ranks are tried where examples are too few for that",
        ),
    ] = None,
    attention: Attention = "softmax",
    engine: EngineOption = EngineName.auto,
    workers: Workers = None,
    scheduler: Scheduler = None,
    examples_budget: Annotated[
        int | None,
        typer.Option(
            "--examples-budget", min=1, help="Look at the first N examples.", show_default="all"
        ),
    ] = None,
    time_budget: Annotated[
        float | None,
        typer.Option(
            "--time-budget",
            help="Seconds after which sculpt goes on with the examples it has seen.",
            show_default="no limit",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn the heads of a layer from examples, and verify them on examples kept away.

    The folder then holds layer.safetensors (only if it was verified), result.json and report.html.

    Example: `gradine learn data.npz --out run`
    """
    request = Request(
        data=data,
        out=out,
        heads=number_of_heads(heads),
        method=method.value,
        seed=seed,
        resume=resume,
        overwrite=overwrite,
        truth=None if truth is None else AttentionLayer.load(truth),
        polish=polish,
        report=report,
        shown=read_shown(example, words),
        constant=constant,
        confidence=confidence,
        rank=rank,
        attention=attention,
        engine=engine.value,
        workers=workers,
        scheduler=scheduler,
        examples_budget=examples_budget,
        time_budget=time_budget,
    )
    try:
        outcome = run(request)
    except KeyboardInterrupt:
        raise Ending(STOPPED, "stopped; continue with --resume") from None
    print_outcome(outcome, as_json)
    if not outcome.fit.learned:
        raise ending_of(outcome)
