"""The front door: check the examples, run a learner, and verify its answer on fresh examples."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gradine.admission import check_memory, check_request, check_size, held_out_objection
from gradine.checks import in_short
from gradine.engine import BOOKMARKS, Bookmarks, Engine, check_engine
from gradine.examples import (
    ArrayExamples,
    Examples,
    FirstExamples,
    FittingData,
    Split,
    Survey,
    survey,
    take,
    without_bad_blocks,
)
from gradine.fit import Fit, LearnConfig
from gradine.learners import Request, learners_of
from gradine.phases import Phases
from gradine.progress import Listener, chosen_listener
from gradine.records import fingerprint
from gradine.status import NotLearned, Status
from gradine.verdict import Ended, judge

__all__ = ["Fit", "LearnConfig", "Status", "fitting_data", "learn", "learn_examples"]

Array = NDArray[np.float64]

LOOKED_AT = 16  # examples by which a survey that is resumed knows its data
BIAS_Z = 8.0  # a mean output this many standard errors from zero: the layer has biases

#: Endings after which the next learner is tried: the first one may have lost its way.
SECOND_CHANCE = (Status.NOT_REALIZABLE, Status.NOT_VERIFIED)


def learn(
    X: Any,
    Y: Any,
    heads: int | Literal["auto"] = "auto",
    method: str = "auto",
    seed: int = 0,
    *,
    config: LearnConfig | None = None,
    listener: Listener | None = None,
    engine: Engine | None = None,
) -> Fit:
    """Learn the heads of an attention layer from examples.

    ``X`` (n, k, d) are token sequences and ``Y`` (n, k, d_out) what the layer made of them; for
    torch tensors the exact learner computes in torch, on their device. The attention function is
    softmax unless ``config`` names another (``ExactConfig.attention``). Passes over the examples
    are run in this process, or by an ``engine`` (`gradine.engine.open_engine`), with the same
    answer. ``listener`` hears how far it is: None shows it in a notebook and nowhere else, a plain
    `gradine.progress.Listener` shows nothing. A run that does not succeed returns a `Fit` whose
    status says why; only input that makes no sense raises ``ValueError``.

    >>> import gradine
    >>> truth = gradine.plant(heads=1, dim=6, scale=3.0, seed=1)
    >>> X = gradine.sample_inputs(8000, seq_len=3, dim=6, seed=2)
    >>> fit = gradine.learn(X, truth(X))
    >>> fit.status.code, fit.layer
    ('learned', AttentionLayer(heads=1, dim=6, out_dim=6, constant=False))
    """
    examples = ArrayExamples(X, Y)
    return learn_examples(
        examples, heads, method, seed, config=config, listener=listener, engine=engine
    )


def learn_examples(
    examples: Examples,
    heads: int | Literal["auto"] = "auto",
    method: str = "auto",
    seed: int = 0,
    *,
    config: LearnConfig | None = None,
    listener: Listener | None = None,
    records: str | os.PathLike[str] | None = None,
    resume: bool = False,
    engine: Engine | None = None,
) -> Fit:
    """Like `learn`, for examples from anywhere; phases are saved in the folder ``records``.

    Those of an earlier run in that folder are replaced. With ``resume``, phases that an earlier run
    on the same data and settings finished are read back instead of run, long passes go on where
    they were, and the answer is the same as that of an unbroken run.

    >>> from gradine.examples import GeneratedExamples
    >>> from gradine.inputs import plant
    >>> examples = GeneratedExamples(plant(heads=1, dim=4, scale=2.0), 400, 3)
    >>> learn_examples(examples, heads=1).status.code
    'learned'
    """
    began = time.perf_counter()
    config = LearnConfig() if config is None else config
    listener = chosen_listener(listener)
    check_engine(engine)
    if not isinstance(examples, Examples):
        raise ValueError(
            f"examples is {in_short(examples)}; expected what gradine.open_examples(path) gives, "
            "gradine.from_batches or gradine.GeneratedExamples (arrays are for gradine.learn)"
        )
    wanted, learners = check_request(examples, heads, seed, config), learners_of(method)
    deadline = _deadline(config)
    if config.examples_budget is not None:
        examples = FirstExamples(examples, config.examples_budget)
    bookmarks = None if records is None else Bookmarks(Path(records) / BOOKMARKS, resume)
    examples, split, seen = _surveyed(examples, seed, config, listener, engine, bookmarks)
    data = fitting_data(examples, split, seen, config, listener)
    data = replace(data, engine=engine, bookmarks=bookmarks, deadline=deadline)
    check_size(data, seen)
    check_memory(data, config)
    first = learners[0]
    if objection := first.objection(data, seen, wanted, config):
        raise ValueError(f"{examples.name}: {objection}")
    key = _run_key(seen, wanted, method, seed, config)
    phases = Phases(
        listener, examples.n, records=records, resume=resume, key=key, bookmarks=bookmarks
    )
    request = Request(data, seen.kind, wanted, config, seed, phases.run, listener.fit_went_on)
    # Where nothing could be verified in the end, nothing is fitted in the first place.
    hopeless = held_out_objection(data, config)
    ended = Ended(first.name, None, NotLearned(Status.TOO_FEW_HELD_OUT, hopeless))
    verdict = judge(ended, data, config)
    for learner in learners:
        if hopeless or (learner is not first and learner.objection(data, seen, wanted, config)):
            continue
        latest = learner(request)
        judged = judge(latest, data, config)
        if learner is first or judged.status.learned:
            ended, verdict = latest, judged
        if judged.status not in SECOND_CHANCE:
            break
    candidate, found = ended.layer, phases.results.get("search")
    return Fit(
        status=verdict.status,
        detail=verdict.detail,
        layer=candidate if verdict.status.learned else None,
        certificate=verdict.certificate,
        phases=phases.results,
        theorem=None if found is None else request.layer(found.theta, found.w),
        candidate=candidate,
        heads=None if candidate is None else candidate.n_heads,
        held_out_error=verdict.error,
        examples_used=examples.n,
        seconds=_learning_seconds(began, phases),
        seed=seed,
        method=ended.method,
        config=config,
        survey=seen,
        call={"heads": heads, "method": method},
    )


def _surveyed(
    examples: Examples,
    seed: int,
    config: LearnConfig,
    listener: Listener,
    engine: Engine | None,
    bookmarks: Bookmarks | None,
) -> tuple[Examples, Split, Survey]:
    """What is learned from, without bad blocks if these are to be left out; and how it looks."""
    passes = 2 if config.bad_blocks == "skip" else 1
    listener.phase_started("survey", passes * examples.n)
    first = 0
    if config.bad_blocks == "skip":
        first = examples.n
        examples = without_bad_blocks(
            examples,
            _block_size(examples, config),
            engine,
            lambda count, _: listener.examples_seen(count),
        )
    # Only now: what is left out is neither fitted nor held out, in this pass and in all later ones.
    split = config.split(examples.n, seed)
    if bookmarks is not None:
        bookmarks.begin("00_survey", _survey_key(examples, split, config))
    seen = survey(
        examples,
        _block_size(examples, config),
        may_decide=split.fit_rows,
        engine=engine,
        bookmark=None if bookmarks is None else bookmarks.next,
        on_block=lambda count, _: listener.examples_seen(first + count),
    )
    figures = {"inputs": seen.kind, "examples": seen.n}
    if seen.left_out:
        figures |= {"skipped_blocks": len(seen.left_out), "skipped_examples": seen.skipped}
    listener.phase_ended("survey", figures, False)
    return examples, split, seen


def _block_size(examples: Examples, config: LearnConfig) -> int:
    return config.block_size or examples.block_size(config.memory)


def _learning_seconds(began: float, phases: Phases) -> float:
    """Without those of the error curve: it is a picture for the report, and no part of learning."""
    curve = phases.results["curve"].seconds if "curve" in phases.results else 0.0
    return time.perf_counter() - began + phases.recalled_seconds - curve


def fitting_data(
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
        block_size=_block_size(examples, config),
        on_block=partial(_tell, listener),
        memory=config.memory,
    )


def _tell(listener: Listener, seen: int, merged: Any) -> None:
    """How far a pass has come, and what it keeps if it selects."""
    if (kept := getattr(merged, "kept", None)) is not None:
        listener.hits_kept(kept)
    listener.examples_seen(seen)


def _deadline(config: LearnConfig) -> float | None:
    seconds = config.time_budget
    return None if seconds is None else time.monotonic() + seconds


def _survey_key(examples: Examples, split: Split, config: LearnConfig) -> str:
    """What the survey depends on, as far as that can be told before it: some of the examples."""
    from gradine import __version__

    shape = [examples.n, examples.seq_len, examples.dim, examples.out_dim]
    rows = np.unique(np.linspace(0, examples.n - 1, LOOKED_AT).astype(np.intp))
    arrays = take(examples, rows)
    size = _block_size(examples, config)
    return fingerprint([shape, split.seed, size, __version__], split.held, *arrays)


def _run_key(seen: Survey, heads: int | None, method: str, seed: int, config: LearnConfig) -> str:
    """What a phase result depends on: the data (by a digest), the request, the settings."""
    from gradine import __version__

    # No part of the answer, and a run that is resumed may take another while.
    config = replace(config, exact=replace(config.exact, curve_points=0), time_budget=None)
    left_out = [[block.start, block.stop] for block in seen.left_out]
    data = [seen.n, seen.seq_len, left_out, seen.digest]
    # The mean outputs are over the examples of the split.
    return fingerprint([heads, method, seed, asdict(config), __version__, data], seen.y_mean)
