"""The house: imports go one way along the story, and `import gradine` stays light."""

from __future__ import annotations

import ast
import graphlib
import importlib
import itertools
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import gradine

PACKAGE = Path(gradine.__file__).parent

HOUSE = (PACKAGE.parent.parent / "docs" / "house.md").read_text(encoding="utf-8")


def table_of(heading: str) -> list[list[str]]:
    """The cells of the table of docs/house.md whose first heading this is."""
    lines = HOUSE[HOUSE.index(f"\n| {heading} |") :].strip().splitlines()[2:]
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines)
    return [row.strip("|").split("|") for row in rows]


def named_in(cell: str) -> list[str]:
    return re.findall(r"`([\w.]+)`", cell)


# The story in order, as the map tells it: a part imports from those before it, and no others.
ORDER = [part for row in table_of("floor") for part in named_in(row[1])]
MAY_SEE_THE_TRUTH = {"score", "atlas", "health", "report", "cli"}
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


def test_the_map_is_that_of_the_folders():
    there = {part_of(path) for path in MODULES}
    assert sorted(ORDER) == sorted(there), "docs/house.md has the map"


def test_no_modules_import_each_other_in_a_circle():
    modules = {dotted(path): path for path in MODULES}
    graph = {name: imported_modules(path, modules) - {name} for name, path in modules.items()}
    list(graphlib.TopologicalSorter(graph).static_order())  # raises, naming the circle


def dotted(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def imported_modules(path: Path, modules: dict[str, Path]) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module and not node.level, f"{path.name}: import by the whole name"
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner if inner <= set(modules) else inner | {node.module}
    return found & set(modules)


#: Who may import by name at run time: the lists of public names and of commands, what a user
#: names, and objects that a notebook wants drawn.
BY_NAME = {"__init__.py", "features/__init__.py", "named.py", "displayed.py", "cli/story.py"}
#: Who may print: what a command answers, the lines about work under way, and the Python that a
#: report gives its reader.
PRINTS = {"progress/display.py", "report/again.py"}
#: Who may open a file for writing: the one path, logs, and parts of what is then moved whole.
WRITES = {"files.py", "lines.py", "examples/batches.py", "cli/sampled.py"}


@pytest.mark.parametrize(
    ("calls", "allowed"),
    [
        (r"\bimport_module\(|__import__\(", BY_NAME),
        (r"(?<!\w)print\(", PRINTS),
        (
            r"open\([^)]*\"[wax]|np\.save\w*\(|json\.dump\(|\.write_(text|bytes)\(",
            WRITES,
        ),
        (r"(?<!\w)pickle\.(dump|load)\(|logging\.basicConfig\(", set()),
    ],
    ids=["imports by name", "prints", "writes", "never"],
)
def test_one_place_for_each(calls, allowed):
    found = set()
    for path in [*MODULES, PACKAGE / "__init__.py"]:
        code = "\n".join(re.sub(r"^\s*(>>>|\.\.\.).*", "", line) for line in source_lines(path))
        if re.search(calls, code):
            found.add(str(path.relative_to(PACKAGE)))
    commands = {name for name in found if name.startswith("cli/")} if "print" in calls else set()
    assert found - commands == allowed


def source_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


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
    heavy = "{'scipy', 'sklearn', 'matplotlib', 'torch', 'typer', 'rich', 'piqp', 'safetensors'}"
    found = run_python(f"import gradine; print(({heavy} | {{'numpy'}}) & set(sys.modules))")
    assert found == "set()"
    use = "import gradine; gradine.plant(2, 4)(gradine.sample_inputs(3, 2, 4))"
    assert run_python(f"{use}; print({heavy} & set(sys.modules))") == "set()"


def test_every_public_name_is_there():
    for name in gradine.__all__:
        assert getattr(gradine, name).__name__ == name
    assert set(gradine.__all__) <= set(dir(gradine))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        gradine.nonsense  # noqa: B018


def test_every_public_name_is_listed():
    listed = [name for row in table_of("name") for name in named_in(row[0])]
    assert sorted(listed) == sorted(gradine.__all__), "docs/house.md lists the public names"
    for module, names in table_of("module"):
        (home,) = named_in(module)
        assert set(named_in(names)) <= set(importlib.import_module(home).__all__)


def test_version_is_that_of_the_installed_package(monkeypatch):
    assert gradine.__version__ == metadata.version("gradine")
    assert "__version__" in dir(gradine)

    def nothing(_: str) -> str:
        raise metadata.PackageNotFoundError

    monkeypatch.delitem(gradine.__dict__, "__version__")
    monkeypatch.setattr(metadata, "version", nothing)
    assert gradine.__version__ == "0+unknown"
    monkeypatch.delitem(gradine.__dict__, "__version__")


@pytest.mark.parametrize(
    "first", ["import gradine.learn", "from gradine.learn import Fit", "from gradine import learn"]
)
def test_learn_is_the_function_whatever_was_imported_first(first):
    assert run_python(f"{first}; import gradine; print(callable(gradine.learn))") == "True"
