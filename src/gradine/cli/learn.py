"""`gradine learn`: the heads of a layer, from examples alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from gradine.cli.console import STOPPED, Ending, prints_for_people
from gradine.cli.options import (
    AsJson,
    Attention,
    Confidence,
    EngineName,
    EngineOption,
    Example,
    Heads,
    Inputs,
    InputsOption,
    Memory,
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
from gradine.cli.story import Command, with_examples
from gradine.examples import GeneratedExamples
from gradine.layer import AttentionLayer
from gradine.learners import learners_of, methods
from gradine.memory import parse_size
from gradine.plugins import load_plugins
from gradine.runs import check_inputs_outside

__all__ = ["LearnCommand", "learn"]


class LearnCommand(Command):
    """Says which learners there are, those of installed packages too."""

    def get_params(self, ctx: Any) -> list[Any]:
        load_plugins()
        options: list[Any] = list(self.params)
        for parameter in options:
            if parameter.name == "method":
                parameter.help = f"The learner: {', '.join(methods())}."
        return super().get_params(ctx)


def _known(method: str) -> str:
    try:
        learners_of(method)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return method


def _begun_methods(incomplete: str) -> list[str]:
    """What a shell offers for it."""
    load_plugins()
    return [name for name in methods() if name.startswith(incomplete)]


@dataclass(frozen=True)
class Generated:
    """Examples that no file holds, as options ask for them."""

    oracle: str | None
    n: int | None
    seq_len: int | None
    dim: int | None

    def examples(self, data: str | None, inputs: Inputs, seed: int) -> str | GeneratedExamples:
        """What is learned from: the file that was named, or examples by seed."""
        if self.oracle is None:
            options = {"--examples": self.n, "--seq-len": self.seq_len, "--dim": self.dim}
            given = [name for name, value in options.items() if value is not None]
            if data is None:
                raise ValueError("no examples; expected a file, a folder or a store, or --oracle")
            if given:
                raise ValueError(f"{given[0]} is for --oracle; {data} says it itself")
            return data
        if data is not None:
            raise ValueError(f"{data} and --oracle were both given; expected one of them")
        if self.n is None or self.seq_len is None:
            missing = "--examples" if self.n is None else "--seq-len"
            raise ValueError(f"{missing} is missing; --oracle needs it")
        return GeneratedExamples(
            self.oracle, self.n, self.seq_len, inputs.value, seed, dim=self.dim
        )


@with_examples(
    "gradine learn data.npz --out run",
    "gradine learn data.npz --out run --resume",
    "gradine learn data.npz --method sculpt --heads 2 --engine pool --out phases",
    "gradine learn --oracle layer.safetensors --examples 40000 --seq-len 3 --out made",
    shown_by=LearnCommand,
)
def learn(
    out: Out,
    data: Annotated[
        str | None,
        typer.Argument(
            help="Examples: an .npz file with X and Y, a folder with X.npy and Y.npy, or a zarr "
            "store, which may be an address such as s3://bucket/data.zarr. With --oracle: none.",
            show_default=False,
        ),
    ] = None,
    heads: Heads = "auto",
    method: Annotated[
        str,
        typer.Option(
            "--method", help="The learner.", callback=_known, autocompletion=_begun_methods
        ),
    ] = "auto",
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
    memory: Memory = None,
    skip_bad_blocks: Annotated[
        bool,
        typer.Option(
            "--skip-bad-blocks",
            help="Leave out blocks that cannot be read or are not finite, and count them.",
        ),
    ] = False,
    oracle: Annotated[
        str | None,
        typer.Option(
            "--oracle",
            help="Make the examples on the way: a layer file, or module:function, labels fresh "
            "inputs.",
        ),
    ] = None,
    examples: Annotated[
        int | None, typer.Option("--examples", help="How many of these.", show_default=False)
    ] = None,
    seq_len: Annotated[
        int | None, typer.Option("--seq-len", help="Tokens of a sequence.", show_default=False)
    ] = None,
    inputs: InputsOption = Inputs.boolean,
    dim: Annotated[
        int | None,
        typer.Option("--dim", help="Coordinates of a token.", show_default="what a layer file has"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn the heads of a layer from examples, and verify them.

    They are verified on examples kept away from fitting. The folder then holds layer.safetensors
    (only if it was verified), result.json and report.html.
    """
    check_inputs_outside(out, (data, oracle, truth, example))
    asked = Generated(oracle, examples, seq_len, dim)
    with prints_for_people():
        source = asked.examples(data, inputs, seed)
    request = Request(
        data=source,
        out=out,
        heads=number_of_heads(heads),
        method=method,
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
        memory=None if memory is None else parse_size(memory),
        skip_bad_blocks=skip_bad_blocks,
    )
    try:
        with prints_for_people():
            outcome = run(request)
    except KeyboardInterrupt:
        raise Ending(STOPPED, "stopped; continue with --resume") from None
    print_outcome(outcome, as_json)
    if not outcome.fit.learned:
        raise ending_of(outcome)
