"""`gradine doctor`: what it prints, and its three exit codes."""

from __future__ import annotations

import pytest

import gradine
from gradine import health
from gradine.cli import main
from gradine.health import self_test


@pytest.fixture(scope="module")
def trial():
    """A self-test of a thousand examples."""
    return self_test(1000)


@pytest.fixture
def small(monkeypatch, trial):
    monkeypatch.setattr(health, "self_test", lambda: trial)


def test_a_healthy_machine(cli, small):
    answer = cli("doctor")
    assert answer.code == 0 and answer.err == ""
    names = ["gradine", "dependencies", "extras", "engines", "threads", "memory", "browser"]
    assert [line.split()[0] for line in answer.out.splitlines()] == [*names, "self-test", "all"]
    assert gradine.__version__ in answer.out and "a second" in answer.out


def test_a_terminal_has_lines_that_fit(small, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["doctor"]) == 0
    told = capsys.readouterr()
    assert told.err == "learning a small layer, in a few seconds\n"
    lines = told.out.splitlines()
    assert max(map(len, lines)) <= 80 and any(line.startswith(" " * 14) for line in lines)


def test_extras_that_are_missing_are_no_problem_and_say_how_to_get_them(cli, monkeypatch):
    monkeypatch.setattr(health.Health, "extras", {"cluster": [], "zarr": ["fsspec", "zarr"]})
    answer = cli("doctor", "--no-self-test")
    assert answer.code == 0 and "all is well" in answer.out
    without = "zarr: without fsspec, zarr (pip install 'gradine[zarr]')"
    assert f"cluster: installed; {without}" in answer.out


def test_little_memory_is_told_with_what_to_do(cli, monkeypatch):
    for available, advice in ((500 * 10**6, True), (10**10, False), (None, False)):
        monkeypatch.setattr(health, "_available", lambda available=available: available)
        answer = cli("doctor", "--no-self-test")
        assert answer.code == 0 and ("give --memory 500MB" in answer.out) == advice


def test_a_dependency_that_cannot_be_loaded_is_no_defect(cli, monkeypatch):
    def gone(name):
        raise ModuleNotFoundError("No module named 'scipy'", name="scipy")

    monkeypatch.setattr("gradine.cli.story.importlib.import_module", gone)
    answer = cli("doctor")
    assert answer.code == 2
    assert "No module named 'scipy'; a package that gradine needs is missing" in answer.error_line


def test_json(cli, small):
    told = cli("doctor", "--json").json
    assert told["trial"]["learned"] and told["trial"]["theta_error"] < 1e-9
    assert told["trial"]["examples_per_second"] > 0
    assert cli("doctor", "--json", "--no-self-test").json["trial"] is None


def test_what_is_missing_ends_with_2(cli, monkeypatch):
    monkeypatch.setattr(health.metadata, "requires", lambda _: ["nonesuch>=1"])
    answer = cli("doctor", "--no-self-test")
    assert answer.code == 2 and "all is well" not in answer.out
    assert "nonesuch is missing; pip install 'nonesuch>=1'" in answer.error_line


def test_what_is_not_learned_ends_with_3(cli, monkeypatch):
    monkeypatch.setattr(health, "self_test", lambda: self_test(20))
    answer = cli("doctor")
    assert answer.code == 3 and "all is well" not in answer.out
    assert "not learned" in answer.error_line
