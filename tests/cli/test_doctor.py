"""`gradine doctor`: what it prints, and its three exit codes."""

from __future__ import annotations

import pytest

import gradine
from gradine import health
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
