"""Trials in a folder, each written when it is done, so that a stopped map goes on."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gradine.atlas.setting import Setting
from gradine.atlas.trial import MapConfig, Trial
from gradine.lines import JsonLines
from gradine.records import assembled, fingerprint

__all__ = ["TRIALS", "TrialStore", "trial_key"]

TRIALS = "trials.jsonl"


def trial_key(setting: Setting, learner: str, seed: int, config: MapConfig) -> str:
    """A digest of all that a trial depends on; the version of the package is part of it."""
    from gradine import __version__

    return fingerprint([_set(setting), learner, seed, asdict(config), __version__])


def _set(setting: Setting) -> dict[str, Any]:
    """What differs from the defaults: a parameter that is added leaves older trials as they are."""
    usual = asdict(Setting())
    return {name: value for name, value in asdict(setting).items() if value != usual[name]}


class TrialStore:
    """The trials of a folder by key; without a folder, none is kept.

    Trials of other settings may be there too, such as those of a smaller map that is extended. A
    folder that holds trials is refused unless they are to be used.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, *, resume: bool = False) -> None:
        self._held: dict[str, Trial] = {}
        self._lines = None if folder is None else JsonLines(Path(folder) / TRIALS)
        if self._lines is None:
            return
        records = self._lines.read()
        if records and not resume:
            raise ValueError(
                f"{folder}: holds trials of an earlier map; "
                "continue it with --resume or replace it with --overwrite"
            )
        for record in records:
            trial = _trial_of(record)
            if trial is not None:
                self._held[record["key"]] = trial

    @staticmethod
    def held(folder: str | os.PathLike[str]) -> bool:
        """Whether a map left trials in the folder."""
        records = JsonLines(Path(folder) / TRIALS).read()
        return any(_trial_of(record) is not None for record in records)

    def get(self, key: str) -> Trial | None:
        return self._held.get(key)

    def put(self, key: str, setting: Setting, trial: Trial) -> None:
        self._held[key] = trial
        if self._lines is not None:
            self._lines.append({"key": key, "setting": _set(setting), "trial": asdict(trial)})


def _trial_of(record: dict[str, Any]) -> Trial | None:
    """The trial of a line; None where it is none, which then is done again."""
    written = record.get("trial")
    if not isinstance(record.get("key"), str) or not isinstance(written, dict):
        return None
    try:
        return assembled(Trial, written)
    except (KeyError, TypeError):
        return None
