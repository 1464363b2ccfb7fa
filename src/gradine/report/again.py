"""The Python that gives a run again, and the attention that is shown."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import gradine
from gradine.report.parts import code, section
from gradine.report.story import Story

__all__ = ["again", "attention_python", "run_python"]


def again(story: Story) -> str:
    """The section, with code to copy."""
    text = (
        "The same data, seed and settings give the same answer. Settings that are not named have "
        "their defaults."
    )
    if story.data is not None:  # a page that is passed on tells nothing of folders
        text += f" Run it in the folder of {story.data}, which is named here without its path."
    return section("again", "Run it again", text, code("run-python", run_python(story)))


def run_python(story: Story) -> str:
    """Code that repeats the run; it says what it has to be given."""
    fit, imports = story.fit, {"import gradine"}
    arguments = [f"{name}={value!r}" for name, value in fit.call.items()] or [f"heads={fit.heads}"]
    arguments.append(f"seed={fit.seed}")
    settings = _python_of(fit.config, imports)
    if not settings.endswith("()"):
        arguments.append("config=config")
    given, called = _data(story)
    lines = [*sorted(imports, reverse=True), "", given]
    if "config=config" in arguments:
        lines.append(f"config = {settings}")
    lines += [f"fit = gradine.{called}, {', '.join(arguments)})", "print(fit.reason)"]
    return "\n".join(lines) + "\n"


def _data(story: Story) -> tuple[str, str]:
    """Where examples or answers come from, and the call up to them."""
    seen = story.fit.survey
    d, out = len(seen.x_mean), len(seen.y_mean)
    if story.fit.asking is not None:
        given = "# oracle: the layer that answered, as gradine.as_oracle takes it"
        if options := story.fit.asking.oracle_options:
            given += f"\noracle = gradine.as_oracle(oracle, dim={d}, {options})"
        return given, f"learn_by_queries(oracle, dim={d}"
    if story.data is not None:
        return f"examples = gradine.open_examples({story.data!r})", "learn_examples(examples"
    shape = f"{seen.n}, {seen.seq_len}"
    return f"# X ({shape}, {d}) and Y ({shape}, {out}): the examples of this run", "learn(X, Y"


def attention_python(story: Story) -> str:
    """Code that makes ``layer``, the one whose attention is shown; tokens follow."""
    if story.learned is None:
        return ""
    if not story.fit.learned:  # then there is no file of it
        run = run_python(story).replace("import gradine\n", "import gradine\nimport numpy as np\n")
        return f"{run}layer = fit.candidate.canonical()"
    return (
        "import gradine\nimport numpy as np\n\n"
        "# or fit.layer, where the run left no file\n"
        'layer = gradine.AttentionLayer.load("layer.safetensors").canonical()'
    )


def _python_of(value: Any, imports: set[str]) -> str:
    """Settings as a call that names those that differ from their defaults."""
    if not is_dataclass(value):
        return repr(value)
    kind, default = type(value), type(value)()
    changed = [
        f"{item.name}={_python_of(getattr(value, item.name), imports)}"
        for item in fields(value)
        if getattr(value, item.name) != getattr(default, item.name)
    ]
    if kind.__name__ in gradine.__all__:
        return f"gradine.{kind.__name__}({', '.join(changed)})"
    imports.add(f"from {kind.__module__} import {kind.__name__}")
    return f"{kind.__name__}({', '.join(changed)})"
