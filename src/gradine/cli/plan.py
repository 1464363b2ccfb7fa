"""`gradine plan`: how many examples it takes, before any is there."""

from __future__ import annotations

from typing import Annotated

import typer

from gradine.cli.console import print_json
from gradine.cli.options import AsJson
from gradine.cli.story import with_examples
from gradine.theory import plan as planning
from gradine.theory.plan import MOST, Budget, Plan

__all__ = ["plan"]


@with_examples(
    "gradine plan --heads 2 --dim 10 --seq-len 3 --scale 4",
    "gradine plan --heads 2 --dim 10 --seq-len 3 --scale 4 --confidence 0.99 --json",
)
def plan(
    heads: Annotated[int, typer.Option("--heads", help="Heads of the layer.")],
    dim: Annotated[int, typer.Option("--dim", help="Coordinates of a token.")],
    seq_len: Annotated[int, typer.Option("--seq-len", help="Tokens of a sequence.")],
    scale: Annotated[float, typer.Option("--scale", help="Standard deviation of a logit.")],
    confidence: Annotated[
        float, typer.Option("--confidence", help="Chance that learning succeeds.")
    ] = 0.9,
    out_dim: Annotated[
        int | None,
        typer.Option(
            "--out-dim", help="Coordinates of an output.", show_default="those of a token"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Plan the learning of a random layer: examples, seconds and memory.

    Seconds are those of this machine.
    """
    planned = planning.plan(heads, dim, seq_len, scale, confidence, out_dim=out_dim)
    if as_json:
        print_json(planned.to_dict())
        return
    _print_table(planned)
    print(planned.sentence())


def _print_table(planned: Plan) -> None:
    needs = [(f"phase {need.phase}", need.examples, need.limit) for need in planned.phases]
    needs.append(("exact learner", planned.exact_fit, planned.exact_limit))
    print(f"{'':19s}  {'must fit':>15s}  because of")
    for name, examples, limit in needs:
        count = f"{examples:,d}" if examples <= MOST else "out of reach"
        print(f"{name:19s}  {count:>15s}  {limit}")
    print(f"\n{'':19s}  {'examples':>15s}  {'fit':>15s}  {'verify':>6s}  {'s':>8s}  {'MiB':>7s}")
    for name, budget in (("six phases", planned.sculpt), ("exact learner", planned.exact)):
        print(f"{name:19s}  {_cells(budget)}")


def _cells(budget: Budget | None) -> str:
    if budget is None:
        return "out of reach"
    return (
        f"{budget.examples:15,d}  {budget.fit:15,d}  {budget.verify:6,d}  "
        f"{budget.seconds:8.2g}  {budget.memory / 2**20:7,.0f}"
    )
