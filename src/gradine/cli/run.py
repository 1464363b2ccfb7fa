"""One run with its folder and its report: what `learn`, `query` and `demo` have in common."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gradine.cli.console import BAD_INPUT, NOT_LEARNED, Ending, one_line, print_json, tell
from gradine.cli.options import opened
from gradine.engine import FailedBlockError, LostSchedulerError, LostWorkerError
from gradine.exact.config import ExactConfig
from gradine.examples import Examples, open_examples
from gradine.examples.stored import open_npy
from gradine.files import OutputError, check_regular, printable
from gradine.layer import AttentionLayer
from gradine.learn import Fit, LearnConfig, learn_examples
from gradine.progress import PhaseDisplay
from gradine.records import RecordError
from gradine.refusals import is_refusal
from gradine.runs import (
    LAYER,
    REPORT,
    RESULT,
    ClearsEarlierRun,
    check_free,
    output_folder,
    write_run,
)
from gradine.score import Match, compare
from gradine.sculpt.config import SculptConfig
from gradine.status import Status, heads_in_words

__all__ = [
    "Outcome",
    "Request",
    "Shown",
    "check_attention",
    "ending_of",
    "finish",
    "print_outcome",
    "read_shown",
    "run",
    "what_in_words",
]

#: What ends a run that can go on later: workers, a scheduler, a disk that fails or is full.
RESUMABLE = (LostWorkerError, LostSchedulerError, FailedBlockError, OutputError)
LONGEST_SHOWN = 1000  # tokens of an example: attention is drawn for each pair
CURVE_POINTS = 5  # of the report's error against examples


@dataclass(frozen=True, eq=False)
class Shown:
    """A sequence of tokens for the report, and what they stand for."""

    example: NDArray[np.float64]  #: (k, d)
    words: tuple[str, ...] | None = None

    def check(self, dim: int) -> None:
        """Before the run: a wrong example would spoil the report hours later."""
        if self.example.shape[1] != dim:
            raise ValueError(
                f"--example has tokens of {self.example.shape[1]} coordinates; expected {dim}"
            )


def read_shown(path: Path | None, words: str | None) -> Shown | None:
    """What --example and --words say."""
    if path is None:
        if words is not None:
            raise ValueError("--words names the tokens of an --example, and none was given")
        return None
    check_regular(path)
    stored = open_npy(path)
    if len(stored.shape) != 2 or not 0 < stored.shape[0] <= LONGEST_SHOWN:
        raise ValueError(f"{path}: has shape {stored.shape}; expected one sequence, (k, d)")
    example = stored.read(0, stored.shape[0])
    if not np.isfinite(example).all():
        raise ValueError(f"{path}: has a NaN or infinite value; expected finite tokens")
    names = None if words is None else tuple(words.split())
    if names is not None and len(names) != len(example):
        raise ValueError(f"--words has {len(names)} words; expected {len(example)}, one a token")
    return Shown(example, names)


@dataclass(frozen=True)
class Request:
    """What is to be learned, how, and where it goes."""

    data: str | os.PathLike[str] | Examples  #: where the examples are, or they themselves
    out: Path
    heads: int | Literal["auto"] = "auto"
    method: str = "auto"
    seed: int = 0
    resume: bool = False
    overwrite: bool = False
    truth: AttentionLayer | None = None  #: shown in the report; no learner gets to see it
    polish: bool = True
    report: bool = True
    shown: Shown | None = None
    constant: bool | None = None
    confidence: float = 0.99
    rank: int | None = None
    attention: str = "softmax"
    engine: str = "auto"
    workers: int | None = None
    scheduler: str | None = None
    examples_budget: int | None = None
    time_budget: float | None = None
    memory: int | None = None
    skip_bad_blocks: bool = False

    def examples(self) -> Examples:
        if isinstance(self.data, Examples):
            return self.data
        return open_examples(self.data, memory=self.memory)

    @property
    def data_name(self) -> str:
        """What result.json calls the examples: no more of a path than its end."""
        if isinstance(self.data, Examples):
            return self.data.name
        return printable(os.fspath(self.data).rstrip("/").rpartition("/")[2])

    def config(self) -> LearnConfig:
        if not 0.0 < self.confidence < 1.0:
            raise ValueError(f"confidence is {self.confidence}; expected between 0 and 1")
        if self.rank is not None and self.rank < 1:
            raise ValueError(f"rank is {self.rank}; expected at least 1")
        if self.rank is not None and self.method == "sculpt":
            raise ValueError("--rank is for the exact learner; leave it out with --method sculpt")
        if not self.polish and self.method == "exact":
            raise ValueError("--no-polish is for the six phases; leave it out with --method exact")
        if self.attention != "softmax" and self.method == "sculpt":
            raise ValueError(
                f"attention is {self.attention!r}; expected 'softmax' with --method sculpt"
            )
        return LearnConfig(
            sculpt=SculptConfig(polish=self.polish),
            exact=ExactConfig(
                attention=self.attention,
                rank=self.rank,
                curve_points=CURVE_POINTS if self.report else 0,
            ),
            constant=self.constant,
            confidence=self.confidence,
            examples_budget=self.examples_budget,
            time_budget=self.time_budget,
            memory=self.memory,
            bad_blocks="skip" if self.skip_bad_blocks else "stop",
        )


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a request."""

    fit: Fit
    match: Match | None  #: with the truth, if there is one and the layer was learned
    result: dict[str, Any]  #: what result.json holds
    out: Path
    written: tuple[str, ...]


def run(request: Request) -> Outcome:
    """Learn, and leave a run folder behind; `ValueError` and `OSError` for what cannot be done."""
    config = request.config()
    examples = request.examples()
    _check_truth(request.truth, examples, request.attention)
    if request.shown is not None:
        request.shown.check(examples.dim)
    with output_folder(request.out) as folder:
        check_free(request.out, "learn", request.resume, request.overwrite)
        fit = _learn(request, config, examples)
        shown = (request.shown or _first_example(examples, fit)) if request.report else None
        file = None if isinstance(request.data, Examples) else request.data_name
        return finish(folder, fit, {"data": request.data_name}, request.truth, shown, file)


def _first_example(examples: Examples, fit: Fit) -> Shown:
    """The first one that is in no bad block."""
    index = 0
    for block in fit.survey.left_out:
        if block.start == index:
            index = block.stop
    return Shown(examples.block(index, index + 1)[0][0])


def finish(
    folder: Path,
    fit: Fit,
    extra: dict[str, Any],
    truth: AttentionLayer | None,
    shown: Shown | None,
    data: str | None = None,
) -> Outcome:
    """Write what a run came to; a report only with an example to show in it.

    ``data`` is the file of the examples, for the Python in the report.
    """
    result = write_run(folder, fit, extra)
    match = None
    if truth is not None and fit.layer is not None:
        kind = "boolean" if fit.survey.boolean else "gaussian"
        match = compare(fit.layer, truth, seq_len=fit.survey.seq_len, kind=kind)
    written = [LAYER] if fit.learned else []
    written.append(RESULT)
    if shown is not None and _write_report(folder, fit, truth, shown, match, data):
        written.append(REPORT)
    return Outcome(fit, match, result, folder, tuple(written))


def check_attention(truth: AttentionLayer, attention: str) -> None:
    if truth.function.name != attention:
        raise ValueError(
            f"truth has attention {truth.function.name!r}; expected {attention!r}, which is learned"
        )


def _check_truth(truth: AttentionLayer | None, examples: Examples, attention: str) -> None:
    """A truth that cannot be compared with the answer would spoil the report hours later."""
    if truth is None:
        return
    check_attention(truth, attention)
    if truth.dim not in (examples.dim, examples.dim - 1) or truth.out_dim != examples.out_dim:
        raise ValueError(
            f"truth has dim {truth.dim} and out_dim {truth.out_dim}; expected {examples.dim} "
            f"and {examples.out_dim} as {examples.name} has"
        )


def _learn(request: Request, config: LearnConfig, examples: Examples) -> Fit:
    engine = opened(request.engine, request.workers, request.scheduler)
    with engine, PhaseDisplay() as display:
        try:
            return learn_examples(
                examples,
                request.heads,
                request.method,
                request.seed,
                config=config,
                listener=ClearsEarlierRun(request.out, request.resume, display),
                records=request.out,
                resume=request.resume,
                engine=engine,
            )
        except RESUMABLE as error:
            raise Ending(BAD_INPUT, f"{one_line(error)}; continue with --resume") from error
        except RecordError:
            raise  # names the record
        except ValueError as error:
            if examples.name in str(error) or not is_refusal(error):
                raise
            raise ValueError(f"{examples.name}: {error}") from error


def _write_report(
    folder: Path,
    fit: Fit,
    truth: AttentionLayer | None,
    shown: Shown,
    match: Match | None,
    data: str | None,
) -> bool:
    """Write report.html; whether it could be drawn does not change what was learned."""
    from gradine.report import write_report  # here: plots load slowly

    try:
        write_report(
            folder / REPORT,
            fit,
            truth=truth,
            example=shown.example,
            words=shown.words,
            match=match,
            data=data,
        )
    except ValueError as error:
        if not is_refusal(error):
            raise
        tell(f"{REPORT} was left out: {one_line(error)}")
        return False
    return True


def print_outcome(outcome: Outcome, as_json: bool) -> None:
    """The summary on standard output."""
    if as_json:
        print_json(outcome.result | {"out": str(outcome.out)})
        return
    fit = outcome.fit
    if fit.survey.left_out:
        blocks = len(fit.survey.left_out)
        print(
            f"left out {blocks} bad block{'s' if blocks > 1 else ''} of {fit.survey.skipped} "
            f"examples in all; first: {fit.survey.left_out[0]}"
        )
    if fit.certificate is not None:
        print(f"learned {what_in_words(fit)} {_cost_in_words(fit)} in {fit.seconds:.1f} s")
        if fit.detail:
            kind = "up to noise" if fit.status is Status.LEARNED_UP_TO_NOISE else "note"
            print(f"{kind}: {fit.detail}")
        print(f"certificate: {fit.certificate.sentence()}")
    print(f"written to {outcome.out}: {', '.join(outcome.written)}")


def _cost_in_words(fit: Fit) -> str:
    asking = fit.asking
    if asking is None:
        return f"from {fit.examples_used} examples"
    learning = asking.queries_used - asking.verify_queries
    return (
        f"by {asking.queries_used} queries ({learning} to learn, {asking.verify_queries} to "
        f"verify; {asking.rows_used} rows)"
    )


def what_in_words(fit: Fit) -> str:
    """What can be said to be learned: the heads, or a function that so many heads compute."""
    if fit.status is Status.LEARNED_FUNCTION:
        return f"the function (by {heads_in_words(fit.heads)} that are not determined)"
    return heads_in_words(fit.heads)


def ending_of(outcome: Outcome) -> Ending:
    """How a run that did not learn ends: phase, reason and help in one line."""
    fit = outcome.fit
    return Ending(NOT_LEARNED, f"not learned: {fit.reason}; {fit.help}")
