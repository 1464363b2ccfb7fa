"""The commands in the order a person needs them; a command's module is loaded when it is used.

`gradine --help` needs a line for each command and nothing of the mathematics: it stays as quick as
the library that prints it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from gradine.cli.help_page import HelpPage

__all__ = [
    "STEPS",
    "STORY",
    "Command",
    "Group",
    "Step",
    "Story",
    "examples_of",
    "with_examples",
]

MAY_BE_EMPTY = ("prefix",)  # names of a model may begin with nothing

Function = TypeVar("Function", bound=Callable[..., None])


@dataclass(frozen=True)
class Step:
    """One command: its name, which is that of its module, and its line in `gradine --help`."""

    name: str
    line: str  #: the first line of its own help
    member: str = ""  #: of the module, where the command is called otherwise there

    def load(self) -> Any:
        """Its function, or its group of commands."""
        module = importlib.import_module(f"gradine.cli.{self.name}")
        return getattr(module, self.member or self.name)


#: Each panel of `gradine --help` with its commands.
STORY = {
    "Start here": (
        Step("demo", "Plant, sample, learn, compare, and write a report: the whole story."),
        Step("doctor", "Say what is installed, what it runs on, and whether it works."),
    ),
    "1. Get a layer": (
        Step("plant", "Plant a random layer: the truth that is to be found again."),
        Step("extract", "Extract one attention layer of a trained model, to be found again."),
        Step("hard", "Write a layer that is hard to learn.", "app"),
    ),
    "2. Learn it, from examples or by asking": (
        Step("sample", "Sample token sequences X and what the layer makes of them, Y."),
        Step("learn", "Learn the heads of a layer from examples, and verify them."),
        Step("query", "Learn the heads of a layer by asking it, and verify them."),
        Step("compare", "Compare a learned layer with the truth, head by head and as functions."),
    ),
    "3. Ask whether it can be learned": (
        Step("check", "Check the conditions under which the theorem's learner is proven to work."),
        Step("plan", "Plan the learning of a random layer: examples, seconds and memory."),
        Step("map", "Draw which learner succeeds where, over two parameters.", "draw"),
    ),
    "4. Heads that are never trained": (
        Step("features", "Measure test errors of random-feature attention."),
    ),
}
STEPS = {step.name: step for steps in STORY.values() for step in steps}


def with_examples(
    *commands: str, shown_by: type[Command] | None = None
) -> Callable[[Function], Function]:
    """Give a command its examples: whole command lines, shown below its help as they are typed.

    ``shown_by`` is for a command whose help depends on what is installed.

    >>> @with_examples("gradine greet --name you")
    ... def greet(name: str) -> None: ...
    >>> examples_of(greet)
    ('gradine greet --name you',)
    """

    def give(function: Function) -> Function:
        function.__dict__["examples"] = commands
        function.__dict__["shown_by"] = shown_by or Command
        return function

    return give


def examples_of(function: Callable[..., Any] | None) -> tuple[str, ...]:
    """The examples of a command; none where it has none."""
    return getattr(function, "examples", ())


class _WithPage:
    """Help on a page of our own, with the examples of the command below it."""

    callback: Callable[..., Any] | None

    def get_help(self, ctx: Any) -> str:
        page = HelpPage(width=ctx.terminal_width, max_width=ctx.max_content_width)
        self.format_help(ctx, page)
        return page.getvalue().rstrip("\n")

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Examples are unbroken, so that they can be copied."""
        shown = examples_of(self.callback)
        if shown:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line}\n" for line in shown))

    if TYPE_CHECKING:

        def format_help(self, ctx: Any, formatter: Any) -> None: ...


class Command(_WithPage, TyperCommand):
    """A command with examples, none of whose values may be empty."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse what is empty, such as a path: as a path it would be the working directory."""
        given = {} if ctx.resilient_parsing else self.make_parser(ctx).parse_args(list(args))[0]
        parameters: list[Any] = list(self.params)
        for parameter in parameters:
            if given.get(str(parameter.name)) == "" and parameter.name not in MAY_BE_EMPTY:
                raise typer.BadParameter("is empty; expected a value", ctx=ctx, param=parameter)
        return super().parse_args(ctx, args)


class Group(_WithPage, TyperGroup):
    """A group of commands, with examples as a command has."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Without a command, show which there are."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.fail("Missing command.")
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Each panel with its commands, all their names in one column."""
        panels: dict[str, list[tuple[str, str]]] = {}
        longest = max(map(len, self.commands))
        for name, command in self.commands.items():
            panel = getattr(command, "rich_help_panel", None) or "Commands"
            line = (command.help or "").partition("\n\n")[0]
            panels.setdefault(panel, []).append((name.ljust(longest), line))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)


class Story(Group):
    """The commands of `STORY`. In a list they are lines; the one that is called is loaded."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for panel, steps in STORY.items():
            for step in steps:
                self.add_command(TyperCommand(step.name, help=step.line, rich_help_panel=panel))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, self.loaded(str(name)), rest

    @staticmethod
    def loaded(name: str) -> Any:
        """The command itself, with all its options.

        >>> [parameter.name for parameter in Story.loaded("sample").params][:2]
        ['layer', 'examples']
        """
        found = STEPS[name].load()
        if isinstance(found, typer.Typer):
            return get_command(found)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(name, cls=getattr(found, "shown_by", Command))(found)
        return get_command(alone)
