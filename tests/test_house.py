"""The house: imports go one way along the story, and `import gradine` stays light."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gradine

PACKAGE = Path(gradine.__file__).parent

# The story in order: a module imports from those before it, never from those after it.
ORDER = [
    "checks",
    "files",
    "lock",
    "lines",
    "memory",
    "records",
    "progress",
    "kernels",
    "plugins",
    "attention_functions",
    "factors",
    "forward",
    "canonical",
    "layer_file",
    "projections",
    "checkpoint",
    "torch_layer",
    "layer",
    "named",
    "inputs",
    "hard",
    "engine",
    "examples",
    "status",
    "solvers",
    "sculpt",
    "exact",
    "students",
    "certificate",
    "fit",
    "admission",
    "verdict",
    "phases",
    "queries",
    "learners",
    "learn",
    "query",
    "theory",
    "features",
    "runs",
    "score",
    "atlas",
    "report",
    "cli",
    "__main__",
]
MAY_SEE_THE_TRUTH = {"score", "atlas", "report", "cli"}
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


def part_of(path: Path) -> str:
    """The first-level part of the package a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(path: Path, source: str | None = None) -> set[str]:
    """First-level parts of gradine that a file imports, anywhere in it."""
    parts = set()
    for node in ast.walk(ast.parse(path.read_text() if source is None else source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = ["gradine", *path.relative_to(PACKAGE).parts[:-1]]
            prefix = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*prefix, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        parts |= {name.split(".")[1] for name in names if name.startswith("gradine.")}
    return parts


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_follow_the_story(path):
    part = part_of(path)
    assert part in ORDER, f"give {part} its place in ORDER"
    for imported in imported_parts(path) - {part, "__version__"}:
        assert imported in ORDER, f"{path.name} imports gradine.{imported}: import from its module"
        assert ORDER.index(imported) < ORDER.index(part), f"{part} must not import {imported}"
        assert imported != "score" or part in MAY_SEE_THE_TRUTH, f"{part} must not see the truth"


# The only files of the queries that may touch what answers: a learner gets an oracle, and asks.
BEHIND_THE_ORACLE = {"sources", "torch_source", "config", "courier", "defences", "oracle"}
QUERIES = sorted((PACKAGE / "queries").rglob("*.py"))


def reaches_behind(source: str) -> list[str]:
    """Private names of other objects, and modules behind the oracle, that a file uses."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if re.match(r"_(?!_)", node.attr) and not own:
                found.append(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch(r"_[a-z]\w*", node.value):  # getattr(oracle, "_source")
                found.append(node.value)
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            hidden = ("sources", "torch_source", "courier")
            behind = {f"gradine.queries.asking.{name}" for name in hidden}
            found += [name for name in names if name in behind]
    return found


@pytest.mark.parametrize("path", QUERIES, ids=lambda path: f"{path.parent.stem}/{path.stem}")
def test_learners_do_not_reach_behind_the_oracle(path):
    asking = path.parent.stem == "asking" and path.stem in BEHIND_THE_ORACLE
    if asking or path.stem == "__init__":
        return
    assert reaches_behind(path.read_text()) == []


def test_reaching_behind_the_oracle_is_noticed():
    source = (
        "from gradine.queries.asking.sources import answerer_of\n"
        "from gradine.queries.asking import courier\n"
        "def f(oracle, self):\n"
        "    return self._mine, oracle._source, getattr(oracle, '_courier')\n"
    )
    assert sorted(reaches_behind(source)) == [
        "_courier",
        "_source",
        "gradine.queries.asking.courier",
        "gradine.queries.asking.sources",
    ]


def test_every_way_to_import_is_noticed():
    source = (
        "import gradine.score\n"
        "from gradine import cli\n"
        "from ..layer import softmax\n"
        "from .. import report\n"
        "from .sibling import x\n"
        "def f():\n    from gradine.learn import learn\n"
    )
    found = imported_parts(PACKAGE / "sculpt" / "body.py", source)
    assert found == {"score", "cli", "layer", "report", "sculpt", "learn"}


def run_python(code: str) -> str:
    answer = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return answer.stdout.strip()


def test_import_is_light():
    heavy = "{'scipy', 'matplotlib', 'torch', 'typer', 'rich', 'piqp', 'safetensors'}"
    assert run_python(f"import gradine; print({heavy} & set(sys.modules))") == "set()"
    use = "import gradine; gradine.plant(2, 4)(gradine.sample_inputs(3, 2, 4))"
    assert run_python(f"{use}; print({heavy} & set(sys.modules))") == "set()"


def test_every_public_name_is_there():
    for name in gradine.__all__:
        assert getattr(gradine, name).__name__ == name
    assert set(gradine.__all__) <= set(dir(gradine))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        gradine.nonsense  # noqa: B018


def test_version_is_that_of_the_package():
    import tomllib

    pyproject = PACKAGE.parent.parent / "pyproject.toml"
    assert tomllib.loads(pyproject.read_text())["project"]["version"] == gradine.__version__


@pytest.mark.parametrize(
    "first", ["import gradine.learn", "from gradine.learn import Fit", "from gradine import learn"]
)
def test_learn_is_the_function_whatever_was_imported_first(first):
    assert run_python(f"{first}; import gradine; print(callable(gradine.learn))") == "True"
