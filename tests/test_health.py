"""What is found where Gradine is installed: sound dependencies, broken ones, a trial that fails."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import metadata

import pytest

from gradine import health
from gradine.health import Dependency, Trial, examine, self_test


def test_what_is_installed_is_found():
    found = examine(trial=False)
    assert found.problems == () and found.trial is None
    names = {item.name: item for item in found.dependencies if item.extra is None}
    assert names["numpy"].found == metadata.version("numpy")
    assert {item["name"] for item in found.threads["libraries"]}
    assert 0 < found.memory["allowed"] < found.memory["installed"]
    assert set(found.engines) == {"serial", "pool", "dask"}
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ("1.26.4", "numpy is 1.26.4; expected >=2.0: pip install 'numpy>=2.0'"),
        (None, "numpy is missing; pip install 'numpy>=2.0'"),
        ("2.0", None),
    ],
)
def test_a_dependency_that_is_too_old_or_missing_is_a_problem(monkeypatch, version, problem):
    def version_of(_: str) -> str:
        if version is None:
            raise metadata.PackageNotFoundError
        return version

    monkeypatch.setattr(health.metadata, "version", version_of)
    monkeypatch.setattr(health.metadata, "requires", lambda _: ["numpy>=2.0"])
    found = examine(trial=False)
    assert found.problems == ((problem,) if problem else ())


def test_extras_may_be_missing():
    items = (Dependency("zarr", ">=3", None, "zarr", False), Dependency("a", "", "1", "zarr"))
    assert [item.problem() for item in items] == [None, None]
    found = examine(trial=False)
    assert replace(found, dependencies=items).extras == {"zarr": ["zarr"]}


def test_a_package_that_is_not_installed_is_a_problem(monkeypatch):
    def nothing(_: str) -> None:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(health.metadata, "metadata", nothing)
    assert "not installed" in examine(trial=False).problems[0]


def test_a_scheduler_that_does_not_answer_is_a_problem(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("gradine.engine.cluster.CONNECTING", 0.2)
    found = examine("tcp://127.0.0.1:9", trial=False)
    assert "tcp://127.0.0.1:9" in found.problems[0] and "does not answer" in found.engines["dask"]


def test_a_self_test_that_breaks_is_told(monkeypatch):
    def broken() -> Trial:
        raise ImportError("libopenblas is not there")

    monkeypatch.setattr(health, "self_test", broken)
    found = examine()
    assert found.trial is None
    assert found.problems == ("the self-test ended with ImportError: libopenblas is not there",)


def test_a_self_test_that_cannot_succeed_does_not():
    trial = self_test(examples=20)
    assert not trial.learned and trial.theta_error is None and trial.certificate is None
