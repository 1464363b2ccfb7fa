"""What a release needs: licences that are listed, bounds that can be pinned, papers in order."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from email.message import Message
from itertools import chain
from pathlib import Path
from types import ModuleType

import pytest

from gradine.cli.story import STEPS

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_licences_are_those_of_the_installed_packages():
    licences = script("licences")
    listed = licences.PAGE.read_text(encoding="utf-8")
    assert listed == licences.page(), "run python scripts/licences.py"
    for requirement in PROJECT["dependencies"]:
        assert f"| {re.split('[^a-z-]', requirement)[0]} | " in listed


def test_a_package_without_a_licence_is_noticed(monkeypatch):
    licences = script("licences")
    monkeypatch.setattr(licences.metadata, "metadata", lambda _: Message())
    with pytest.raises(SystemExit, match="name no licence"):
        licences.licence("nonesuch")


def test_every_dependency_has_a_lowest_version():
    pins = script("release_check").lowest()
    assert len(pins) == len(PROJECT["dependencies"])


def test_the_smoke_test_runs_commands_that_there_are():
    for line in script("release_check").SMOKE:
        program, command, *_ = line.split()
        assert program == "gradine" and (command in STEPS or command.startswith("--"))


def test_constraints_name_every_direct_dependency():
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower()
    for requirement in chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()):
        name = re.split(r"[\[><=]", requirement)[0]
        assert re.search(rf"^{name.replace('-', '[-_]')}==", pinned, re.MULTILINE), name


@pytest.mark.parametrize("name", ["CITATION.cff", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"])
def test_papers_are_there_and_in_the_sdist(name):
    assert (ROOT / name).read_text(encoding="utf-8").strip()
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    included = build["build"]["targets"]["sdist"]["include"]
    assert f"/{name}" in included or (name.endswith(".md") and "/*.md" in included)


def test_the_citation_can_be_read():
    yaml = pytest.importorskip("yaml")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["cff-version"] == "1.2.0" and cited["license"] == PROJECT["license"]
    assert {"message", "title", "authors"} <= set(cited)
    assert "version" not in cited  # the tag says it
