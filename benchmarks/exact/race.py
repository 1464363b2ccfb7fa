"""One seed of one instance: our learner, and the peers right after it on the same examples."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.exact.instances import Instance
from benchmarks.exact.ours import HELD_OUT, figures, ours
from benchmarks.exact.rivals import RIVALS, Rivals, run_rivals
from benchmarks.store import Store

__all__ = ["MEASURED_BY", "PEER_SECONDS", "Contest", "race", "races", "warm_up"]

MEASURED_BY = (
    "clock.py",
    "train.py",
    *(f"exact/{name}.py" for name in ("instances", "ours", "expand", "rivals", "race", "watch")),
)


PEER_SECONDS = 360.0  # spent by the peers on a contest; after that they get no further seed
Tell = Callable[[str, dict[str, Any]], None]


@dataclass(frozen=True)
class Contest:
    """An instance over seeds; the first ``peer_seeds`` of them are given to the peers too."""

    label: str
    instance: Instance
    ratio: float
    seeds: int
    peer_seeds: int
    rivals: Rivals | None


def race(
    instance: Instance, ratio: float, seed: int, rivals: Rivals | None, rate: float | None = None
) -> dict[str, Any]:
    """``ratio`` times the counting bound are fitted, by us and by the peers."""
    truth = instance.truth(seed)
    X = instance.inputs(instance.examples_at(ratio) + HELD_OUT, seed)
    Y = truth(X)
    answer = ours(X, Y, instance.heads, seed, rank=instance.rank, truth=truth)
    record = {"ours": figures(answer, truth), "examples": len(answer.fitted)}
    if rivals is not None:
        X, Y = X[answer.fitted], Y[answer.fitted]
        record["rivals"] = run_rivals(
            X, Y, truth, instance.rank, answer.seconds, seed, rivals, rate
        )
    return {**record, "load": os.getloadavg()[0]}


def races(store: Store, contest: Contest, tell: Tell | None = None) -> list[dict[str, Any]]:
    """All seeds, those in the store not again. Adam's learning rate is that of the first seed."""
    records, rate, spent = [], None, 0.0
    for seed in range(contest.seeds):
        still = seed < contest.peer_seeds and spent < PEER_SECONDS
        opposed = contest.rivals if still else None
        record = store.once(
            partial(race, contest.instance, contest.ratio, seed, opposed, rate),
            contest.label,
            contest.instance.name,
            contest.ratio,
            seed,
            needs=["rivals"] if opposed else [],
        )
        if "rivals" in record:
            rate = rate or record["rivals"]["rate"]
            spent += sum(record["rivals"].get(name, {}).get("total", 0.0) for name in RIVALS)
        if tell is not None:
            tell(f"{contest.instance.name} x{contest.ratio:g} seed {seed}", record)
        records.append(record)
    return records


def warm_up(rivals: Rivals | None) -> None:
    """Imports and first calls are not what is measured."""
    instance = Instance(1, 3, 4, 2.0)
    race(instance, 8, 0, rivals and Rivals(rates=(1e-2,), starts=1, patience=0.0, least=0.1))
