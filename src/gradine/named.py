"""What answers, by its name: a layer file, or a function of a module."""

from __future__ import annotations

import importlib
import os
import re
import sys
from pathlib import Path
from typing import Any

from gradine.layer import AttentionLayer

__all__ = ["open_named"]

LAYER_SUFFIX = ".safetensors"
FUNCTION = re.compile(r"(?P<module>[^\W\d][\w.]*):(?P<function>[^\W\d][\w.]*)")


def open_named(source: str | os.PathLike[str]) -> Any:
    """The layer of a layer file, or what a module of the working directory, or an installed one,
    has under that name; ``ValueError`` if there is nothing.

    >>> open_named("math:hypot")(3, 4)
    5.0
    """
    text = os.fspath(source)
    named = FUNCTION.fullmatch(text) if isinstance(source, str) else None
    if Path(text).suffix == LAYER_SUFFIX or (named is None and Path(text).is_file()):
        return AttentionLayer.load(text)
    if named is None:
        raise ValueError(
            f"oracle is {text!r}; expected a layer file ({LAYER_SUFFIX}) or module:function"
        )
    value = _imported(text, named["module"])
    for part in named["function"].split("."):
        if not hasattr(value, part):
            raise ValueError(f"oracle {text!r}: {named['module']} has no {named['function']}")
        value = getattr(value, part)
    if isinstance(value, str | os.PathLike):
        raise ValueError(f"oracle {text!r}: is {value!r}; expected something that can be called")
    return value


def _imported(text: str, module: str) -> Any:
    # As `python -m` has it. It stays there: the function may import its neighbours when called.
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module)
    except SystemExit as left:
        raise ValueError(
            f"oracle {text!r}: importing {module} failed (it called sys.exit({left.code!r}))"
        ) from None
    except Exception as error:  # whatever the module does when it is run
        missing = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(
            f"{error.name}."
        )
        if missing:
            raise ValueError(
                f"oracle {text!r}: no module {module} in the working directory, and none installed"
            ) from None
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"oracle {text!r}: importing {module} failed ({reason})") from error
