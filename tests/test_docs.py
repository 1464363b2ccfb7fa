"""The README and the docs say what is so: code runs, commands work, links lead somewhere."""

from __future__ import annotations

import ast
import contextlib
import io
import itertools
import math
import pydoc
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import gradine
from gradine.cli import main
from gradine.exact.config import ExactConfig
from gradine.exact.deflate import DeflateConfig
from gradine.exact.finish import FinishConfig
from gradine.exact.mixing import MixConfig
from gradine.exact.moments import MomentConfig
from gradine.fit import LearnConfig
from gradine.learners import LEARNERS
from gradine.queries.config import QueryConfig
from gradine.sculpt.config import SculptConfig
from gradine.status import Status

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = [README, *sorted(DOCS.glob("*.md"))]
#: Pages whose snippets build on each other, in the order in which a reader meets them.
STORY = [
    "quickstart",
    "index",
    "notebooks",
    "layers",
    *(f"phase{number}" for number in range(1, 7)),
    "polish",
    "exact",
    "oracles",
    "queries",
    "scalar",
    "choosing",
    "certificate",
    "report",
    "limits",
    "features",
    "hard",
    "check",
    "plan",
    "tails",
    "attention",
    "map",
    "sources",
    "cluster",
    "extending",
]

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?%?")
TIME = re.compile(r" s\b")  # what stands behind a number that is one
ROUNDING = 1e-12  # below this, numbers are what rounding left
SMALL = 1e-3  # below this, they are what iterations left, and a machine has its own


def blocks(page: Path) -> list[tuple[str, str]]:
    """(language, content) of the fenced blocks of a page."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def snippets(page: Path) -> Iterator[tuple[str, str | None]]:
    """Python blocks, each with the text block that follows and shows what it prints, if any."""
    found = [*blocks(page), ("", "")]
    for (language, content), (next_language, shown) in itertools.pairwise(found):
        if language == "python":
            yield content, shown if next_language == "text" else None


def words(text: str) -> list[str]:
    """What is left without numbers and without the width of columns."""
    return NUMBER.sub("#", text).split()


def numbers(text: str) -> list[float]:
    return [float(number.rstrip("%")) for number in NUMBER.findall(text)]


def slacks(text: str) -> list[float]:
    """The factor by which each number may be another one. Times belong to a machine and its load,
    shares of few examples and small numbers to its rounding."""
    found = []
    for number in NUMBER.finditer(text):
        if TIME.match(text, number.end()):
            found.append(math.inf)
        else:
            small = number[0].endswith("%") or float(number[0]) < SMALL
            found.append(3.0 if small else 1.2)
    return found


def assert_like(printed: str, shown: str) -> None:
    """The same words, and numbers as near as they can be on another machine."""
    assert words(printed) == words(shown)
    for now, then, slack in zip(numbers(printed), numbers(shown), slacks(shown), strict=True):
        near = then / slack <= now <= slack * then or max(now, then) < ROUNDING
        assert near or math.isinf(slack), f"{now} for {then} in {shown}"


def run_snippets(page: Path, namespace: dict[str, object]) -> None:
    for code, shown in snippets(page):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(code, page.name, "exec"), namespace)
        if shown is not None:
            assert_like(output.getvalue(), shown)


def names_of(tree: ast.AST) -> Iterator[str]:
    """`gradine.hard.dial` and the like, and what is imported from gradine, as dotted names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "gradine":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute):
            dotted = ast.unparse(node)
            if re.fullmatch(r"gradine(\.\w+)+", dotted):
                yield dotted


def exists(dotted: str) -> bool:
    """Whether a dotted name leads somewhere, by attributes and by modules."""
    head, _, last = dotted.rpartition(".")
    try:
        return hasattr(pydoc.locate(head), last) or pydoc.locate(dotted) is not None
    except pydoc.ErrorDuringImport:
        return False


LEFT_TO_THE_READER = [
    (page.name, content) for page in PAGES for language, content in blocks(page) if language == "py"
]


@pytest.mark.parametrize(("page", "code"), LEFT_TO_THE_READER)
def test_python_that_is_not_run_could_be(page, code):
    """It takes long or what is not installed; it parses, and has no name that is gone."""
    gone = [name for name in names_of(ast.parse(code, page)) if not exists(name)]
    assert not gone, f"{page} names {gone}"


def test_a_name_that_is_gone_is_found():
    code = "from gradine.hard import dial, never\ngradine.plant(1).save\ngradine.hard.gone"
    names = set(names_of(ast.parse(code)))
    assert {name for name in names if not exists(name)} == {
        "gradine.hard.never",
        "gradine.hard.gone",
    }
    assert {"gradine.hard.dial", "gradine.plant"} <= names


def test_python_of_the_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert list(snippets(README))
    run_snippets(README, {})
    assert (tmp_path / "layer.safetensors").exists()


@pytest.mark.slow
def test_python_of_the_docs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for name in STORY:
        run_snippets(DOCS / f"{name}.md", namespace)
    told = {DOCS / f"{name}.md" for name in STORY}
    others = [page for page in PAGES[1:] if page not in told and list(snippets(page))]
    assert not others, "give these pages their place in STORY"


def transcript(page: Path) -> list[tuple[list[str], str]]:
    """The commands of the console blocks of a page, each with the output shown below it."""
    commands = []
    for language, content in blocks(page):
        if language == "console":
            for part in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
                line, _, shown = part.partition("\n")
                commands.append((shlex.split(line), shown))
    return commands


def replay(page: Path, capsys) -> list[int]:
    """Run the commands of a page; output must be as shown, progress lines may be left out."""
    codes = []
    for command, shown in transcript(page):
        assert command[0] == "gradine", f"{page.name} shows {command[0]}"
        codes.append(main(command[1:]))
        out, err = capsys.readouterr()
        complaint = "".join(line for line in err.splitlines(True) if line.startswith("gradine: "))
        assert_like(out + complaint, shown)
    return codes


def test_commands_of_the_readme_and_of_the_page_on_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert replay(README, capsys) == [0, 0, 0, 0, 0]
    # The page on files goes on where the README ends.
    assert replay(DOCS / "files.md", capsys) == [2, 3, 2, 0]


def test_commands_of_the_page_on_layers(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = DOCS / "layers.md"
    run_snippets(page, {"np": np, "gradine": gradine})  # these write the model
    assert replay(page, capsys) == [0, 0, 2]


def test_commands_of_the_quickstart(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert replay(DOCS / "quickstart.md", capsys) == [0, 0, 0]


def test_commands_of_the_page_on_extending(tmp_path, monkeypatch, capsys):
    """The file of the page, installed as the page says."""
    page = DOCS / "extending.md"
    code, _ = next(snippets(page))
    entry = next(content for language, content in blocks(page) if language == "toml")
    section, line = entry.strip().splitlines()
    about = tmp_path / "flat_attention-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: flat-attention\nVersion: 1.0\n")
    group = section.removeprefix('[project.entry-points."').removesuffix('"]')
    (about / "entry_points.txt").write_text(f"[{group}]\n{line.replace(chr(34), '')}\n")
    (tmp_path / "flat_attention.py").write_text(code)
    others = {name: learner for name, learner in LEARNERS.items() if name != "flat"}
    monkeypatch.setattr("gradine.learners.LEARNERS", others)
    monkeypatch.setattr("gradine.plugins._loaded", set())
    monkeypatch.delitem(sys.modules, "flat_attention", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert replay(page, capsys) == [0, 0, 3]


def test_demo_of_the_readme(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shown = next(content for _, content in blocks(README) if content.startswith("planted "))
    assert main(["demo"]) == 0
    assert_like(capsys.readouterr().out, shown)


def test_every_command_shown_anywhere_has_the_options_it_is_given():
    """Commands outside console blocks: in sh blocks, and between backticks."""
    from typer.main import get_command

    from gradine.cli import app
    from gradine.cli.story import Story

    alone = get_command(app)  # `gradine --help`, `gradine --version`
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        inline = re.findall(r"`gradine ([^`\n]+)`", text)
        shown = "\n".join(content for language, content in blocks(page) if language == "sh")
        for line in [*inline, *re.findall(r"^gradine (.+)$", shown, re.MULTILINE)]:
            name, *arguments = shlex.split(line.split("#")[0])
            command = alone if name.startswith("-") else Story.loaded(name)
            if hasattr(command, "commands") and arguments:  # a group, such as hard
                command = command.commands[arguments[0]]
            options = {option for parameter in command.params for option in parameter.opts}
            options |= {option for item in command.params for option in item.secondary_opts}
            given = {argument for argument in (name, *arguments) if argument.startswith("--")}
            assert given <= options | {"--help"}, f"{page.name}: gradine {line}"


def sh_lines(page: Path) -> list[str]:
    """The commands of the sh blocks of a page, but for those it calls long."""
    shown = "".join(content for language, content in blocks(page) if language == "sh")
    return [line for line in shown.splitlines() if "# long" not in line]


@pytest.mark.parametrize("page", [page for page in PAGES if sh_lines(page)], ids=lambda p: p.name)
def test_commands_in_sh_blocks(page, tmp_path, monkeypatch):
    """As they are written, but for the port of a scheduler: it may be in use."""
    monkeypatch.chdir(tmp_path)
    X = gradine.sample_inputs(20_000, seq_len=3, dim=6, seed=2)
    (tmp_path / "data").mkdir()
    np.save("data/X.npy", X)
    np.save("data/Y.npy", gradine.plant(heads=1, dim=6, scale=3.0, seed=1)(X))
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    with contextlib.ExitStack() as at_the_end:
        for line in sh_lines(page):
            words = shlex.split(line.replace("8786", port), comments=True)
            if words[0] == "make":  # CI runs `make test`, and a test the demo
                assert set(words[1:]) <= targets
                continue
            if "--out" in words:  # of two ways to learn the same, each in its own folder
                shutil.rmtree(words[words.index("--out") + 1], ignore_errors=True)
            program = {"gradine": "gradine", "dask": "dask"}[words[0]]
            process = subprocess.Popen(
                [sys.executable, "-m", program, *words[1:]],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            at_the_end.callback(process.wait)
            at_the_end.callback(process.terminate)
            if program == "gradine":
                said, _ = process.communicate()
                assert process.returncode == 0, f"{line}\n{said}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_lead_somewhere(page):
    text = re.sub(BLOCK, "", page.read_text(encoding="utf-8"))
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    for target in targets:
        if not re.match(r"[a-z]+:", target):
            path = (page.parent / target.split("#")[0]).resolve()
            assert path.exists(), f"{page.name} points to {target}"
            assert path.is_relative_to(ROOT.resolve())


def test_files_named_on_the_pages_exist():
    """`sculpt/span.py` and the like, from the root or from the package."""
    for page in PAGES:
        for name in re.findall(r"`([\w/]+/[\w.]+\.(?:py|md))`", page.read_text(encoding="utf-8")):
            homes = (ROOT / name, ROOT / "src" / "gradine" / name)
            generated = name.startswith("benchmarks/results/")
            assert generated or any(path.exists() for path in homes), f"{page.name} names {name}"


def test_every_page_is_on_the_map():
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    for page in PAGES[1:]:
        assert page.name == "index.md" or f"({page.name})" in text


EXACT = DOCS / "exact.md"
#: Where the settings of each learner are explained: the two share some names.
EXPLAINED = {
    SculptConfig: [page for page in PAGES[1:] if page not in (EXACT, DOCS / "notation.md")],
    ExactConfig: [EXACT],
    MomentConfig: [EXACT],
    MixConfig: [EXACT],
    QueryConfig: [DOCS / "queries.md"],
    DeflateConfig: [EXACT],
    FinishConfig: [EXACT],
}
SETTINGS = [
    (kind, item.name)
    for kind in EXPLAINED
    for item in fields(kind)
    if kind is not QueryConfig or item not in fields(LearnConfig)
]


@pytest.mark.parametrize(
    ("kind", "field"), SETTINGS, ids=[f"{kind.__name__}.{field}" for kind, field in SETTINGS]
)
def test_every_setting_is_explained(kind, field):
    default = getattr(kind(), field)
    rows = [
        line
        for page in EXPLAINED[kind]
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith(f"| `{field}` | ")
    ]
    assert len(rows) == 1, f"{field} wants one row in a table of settings"
    stated = rows[0].split("|")[2]
    if default is None or isinstance(default, bool):
        assert f"`{default}`" in stated
    elif isinstance(default, MomentConfig | MixConfig | DeflateConfig | FinishConfig):
        assert f"`{type(default).__name__}()`" in stated
    elif isinstance(default, str):
        assert f"`{default}`" in stated
    elif isinstance(default, tuple):
        assert tuple(numbers(stated)) == default
    else:
        sign = -1.0 if stated.strip().startswith("-") else 1.0
        assert sign * numbers(stated.replace(",", ""))[0] == default


@pytest.mark.parametrize("status", Status, ids=lambda status: status.code)
def test_every_status_is_on_the_page_of_limits(status):
    text = (DOCS / "limits.md").read_text(encoding="utf-8")
    assert f"| `{status.code}` | {status.phase} |" in text
