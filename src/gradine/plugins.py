"""Packages that add to Gradine: modules that register learners or attention functions.

A package names its module in its own pyproject.toml, and once it is installed Gradine finds it:

    [project.entry-points."gradine.plugins"]
    anything = "my_module"
"""

from __future__ import annotations

import warnings
from importlib.metadata import entry_points

from gradine.refusals import refuses_too

__all__ = ["GROUP", "load_plugins"]

GROUP = "gradine.plugins"
_loaded: set[str] = set()


def load_plugins() -> None:
    """Import the modules that installed packages name, each once, when a name is not known.

    One that fails is warned of and left out: what it would have added is then unknown.

    >>> load_plugins()
    """
    for point in entry_points(group=GROUP):
        if point.value in _loaded:
            continue
        _loaded.add(point.value)  # first, as a plugin may look up names itself
        refuses_too(point.module)
        try:
            point.load()
        except Exception as error:
            warnings.warn(
                f"plugin {point.name!r} ({point.value}) cannot be loaded: {error}", stacklevel=2
            )
