"""`gradine doctor`: what there is, and whether it works."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator
from typing import Annotated

import typer

from gradine.cli.console import BAD_INPUT, NOT_LEARNED, Ending, print_json, tell
from gradine.cli.options import AsJson, Scheduler
from gradine.cli.story import with_examples
from gradine.health import Health, Trial, examine
from gradine.memory import in_words

__all__ = ["doctor"]

NAMES = 14  # columns of what is told of


@with_examples(
    "gradine doctor",
    "gradine doctor --no-self-test --json",
    "gradine doctor --scheduler tcp://host:8786",
)
def doctor(
    scheduler: Scheduler = None,
    self_test: Annotated[
        bool,
        typer.Option(
            "--self-test/--no-self-test", help="Learn a small layer, in about five seconds."
        ),
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Say what is installed, what it runs on, and whether it works.

    Exit code 0: all is well; 2: something is missing, too old or does not answer; 3: the layer of
    the self-test was not learned.
    """
    if self_test and sys.stderr.isatty():
        tell("learning a small layer, in a few seconds")
    health = examine(scheduler, self_test)
    if as_json:
        print_json(health.to_dict())
    else:
        for name, told in _lines(health):
            print(_in_columns(name, told))
    if health.problems:
        raise Ending(BAD_INPUT, "; ".join(health.problems))
    if health.trial is not None and not health.trial.learned:
        raise Ending(
            NOT_LEARNED,
            f"the self-test was not learned: {health.trial.status}; run it again, and report it "
            "with what gradine doctor --json says",
        )


def _lines(health: Health) -> Iterator[tuple[str, str]]:
    versions = health.versions
    yield "gradine", f"{versions['gradine']}, Python {versions['python']}, {versions['system']}"
    needed = [item for item in health.dependencies if item.extra is None]
    yield "dependencies", ", ".join(f"{item.name} {item.found or 'missing'}" for item in needed)
    yield "extras", "; ".join(_extra(*item) for item in health.extras.items()) or "unknown"
    yield "engines", "; ".join(f"{name}: {what}" for name, what in health.engines.items())
    libraries = sorted(
        f"{item['name']} {item['version'] or ''} with {_counted(item['threads'], 'thread')}"
        for item in health.threads["libraries"]
    )
    yield "threads", "; ".join([_counted(health.threads["cores"], "core"), *libraries])
    yield "memory", _memory(health.memory)
    yield "browser", "none needed; report.html opens in any"
    if health.trial is not None:
        yield "self-test", _trial(health.trial)
    if not health.problems and (health.trial is None or health.trial.learned):
        yield "all is well", ""


def _in_columns(name: str, told: str) -> str:
    """One line; in a terminal as many as it takes, broken between words."""
    margin = " " * NAMES
    line = f"{name:<{NAMES}s}{told}".rstrip()
    if not sys.stdout.isatty():
        return line
    width = max(shutil.get_terminal_size().columns, NAMES + 20)
    return textwrap.fill(line, width, subsequent_indent=margin, break_on_hyphens=False)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _extra(name: str, missing: list[str]) -> str:
    if not missing:
        return f"{name}: installed"
    return f"{name}: without {', '.join(missing)} (pip install 'gradine[{name}]')"


def _memory(memory: dict[str, int | None]) -> str:
    sizes = {name: "unknown" if size is None else in_words(size) for name, size in memory.items()}
    told = (
        f"{sizes['available']} available of {sizes['installed']}; "
        f"blocks are those of {sizes['allowed']} unless --memory says otherwise"
    )
    available, allowed = memory["available"], memory["allowed"]
    if available is None or allowed is None or available >= allowed:
        return told
    return f"{told}: give --memory {available // 10**6}MB, as less than that is available"


def _trial(trial: Trial) -> str:
    if not trial.learned:
        return f"{trial.status} after {trial.seconds:.1f} s"
    return (
        f"learned a layer from {trial.examples} examples in {trial.seconds:.1f} s "
        f"({trial.rate:,.0f} a second), theta error {trial.theta_error:.0e}; {trial.certificate}"
    )
