"""Each public function has a doctest; pytest runs them all (``--doctest-modules``)."""

from __future__ import annotations

import doctest
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

#: The documented surface: what `import gradine` offers, and the modules that the docs name.
MODULES = ("gradine", "gradine.atlas", "gradine.features", "gradine.hard", "gradine.report")
MODULES += ("gradine.health",)


def source_of(thing: Any) -> str:
    """The code of the examples in a docstring."""
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(thing) or "")
    return "".join(example.source for example in examples)


def methods_of(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods that a class defines itself."""
    for name, member in vars(kind).items():
        function = getattr(member, "__func__", member)
        if not name.startswith("_") and inspect.isfunction(function):
            yield name, function


def missing_in(name: str, thing: Any) -> list[str]:
    """What of a public name no doctest calls: of a class, its methods one by one.

    A method counts if its own docstring, or that of its class, has an example that calls it. A
    protocol is only a promise: those who keep it are tried.
    """
    if getattr(thing, "_is_protocol", False):
        return []
    if not inspect.isclass(thing):
        called = not inspect.isfunction(thing) or f"{name}(" in source_of(thing)
        return [] if called else [name]
    own = source_of(thing)
    untried = [
        f"{name}.{method}"
        for method, function in methods_of(thing)
        if f".{method}(" not in own + source_of(function)
    ]
    tried = own or any(source_of(function) for _, function in methods_of(thing))
    return untried + ([] if tried else [name])


PUBLIC = [
    (module, name)
    for module in MODULES
    for name in importlib.import_module(module).__all__
    if not inspect.ismodule(getattr(importlib.import_module(module), name))
]


@pytest.mark.parametrize(("module", "name"), PUBLIC, ids=[f"{m}.{n}" for m, n in PUBLIC])
def test_public_names_have_doctests(module, name):
    assert missing_in(name, getattr(importlib.import_module(module), name)) == []


def test_what_has_no_doctest_is_noticed():
    def bare(x: int) -> int:
        """Doubles."""
        return 2 * x

    class Half:
        """Two halves.

        >>> Half().left()
        """

        def left(self) -> None: ...
        def right(self) -> None: ...

    assert missing_in("bare", bare) == ["bare"]
    assert missing_in("Half", Half) == ["Half.right"]
