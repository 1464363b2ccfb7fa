"""`gradine check`: the conditions of the theorem, for a layer or for examples of one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradine.cli.console import print_json
from gradine.cli.options import AsJson, Inputs, Seed
from gradine.cli.story import with_examples
from gradine.examples import open_examples
from gradine.layer import AttentionLayer
from gradine.theory import conditions, from_data
from gradine.theory.judgement import LEARNERS, Check, Condition, Learner

__all__ = ["check"]

LAYER = ".safetensors"


@with_examples("gradine check layer.safetensors --seq-len 3", "gradine check data.npz --json")
def check(
    path: Annotated[
        str,
        typer.Argument(
            help="A layer file (.safetensors), or examples: .npz, a folder of .npy, or a zarr "
            "store, which may be an address such as s3://bucket/data.zarr."
        ),
    ],
    seq_len: Annotated[
        int | None,
        typer.Option("--seq-len", help="Tokens of a sequence; examples have their own."),
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option(
            "--examples",
            help="How many examples a learner of the layer will get.",
            show_default=f"{conditions.EXAMPLES}",
        ),
    ] = None,
    inputs: Annotated[
        Inputs | None,
        typer.Option(
            "--inputs",
            help="Tokens: uniform on +-1, or standard Gaussian; examples have their own.",
            show_default="boolean",
        ),
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Check the conditions under which the theorem's learner is proven to work.

    Each condition is a number against a threshold; what fails without it is said. Of examples only
    some conditions can be estimated. Exit code 0 says that the check is done, not that all hold.
    """
    if Path(path).suffix == LAYER:
        if seq_len is None:
            raise ValueError("--seq-len is missing; expected the tokens of a sequence")
        wanted = conditions.EXAMPLES if examples is None else examples
        kind = (inputs or Inputs.boolean).value
        layer = AttentionLayer.load(path)
        checked = conditions.check(layer, seq_len, examples=wanted, kind=kind, seed=seed)
    else:
        given = (("--seq-len", seq_len), ("--examples", examples), ("--inputs", inputs))
        for option, value in given:
            if value is not None:
                raise ValueError(f"{option} is {value}; {path} holds examples, which say it")
        checked = from_data.check_source(open_examples(path), seed)
    if as_json:
        print_json(checked.to_dict())
        return
    _print_table(checked)


def _print_table(checked: Check) -> None:
    width = max(len(condition.name) for condition in checked.conditions)
    print(
        f"{'condition':<{width}}  {'value':>9}  {'needed':>11}  holds  {'exact needs':>11}  holds"
    )
    for condition in checked.conditions:
        told = "  ".join(
            f"{_bound(condition, learner):>11}  {_holds(condition, learner):<5}"
            for learner in LEARNERS
        )
        print(f"{condition.name:<{width}}  {condition.value:>9.3g}  {told}".rstrip())
    for learner in LEARNERS:
        for condition in checked.failing(learner):
            print(f"{condition.name}, {learner}: {condition.sentence(learner)}")
    print(checked.sentence())


def _bound(condition: Condition, learner: Learner) -> str:
    threshold = condition.threshold_of(learner)
    if threshold is None:
        return "-"
    return f"{'>=' if condition.rule.at_least else '<='} {threshold:.3g}"


def _holds(condition: Condition, learner: Learner) -> str:
    """Nothing is asked of a condition that a learner does without."""
    if condition.threshold_of(learner) is None:
        return "-"
    return "yes" if condition.holds_for(learner) else "no"
