"""Maps: the same whatever the workers, kept trial by trial, continued where they were."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gradine.atlas import Axis, sweep
from gradine.atlas.store import TRIALS

GRID = {"x": "scale:1,3", "y": "ratio:0.2,6", "fixed": {"heads": 1, "dim": 4}, "trials": 2}


def figures(made):
    """All but the seconds, which belong to the machine."""
    return {key: [replace(t, seconds=0.0) for t in own] for key, own in made.trials.items()}


@pytest.fixture(scope="module")
def made():
    return sweep(**GRID, workers=1)


def test_success_over_the_grid(made):
    assert made.success("exact").tolist() == [[0.0, 0.0], [1.0, 1.0]]
    results = made.to_dict()
    own = results["learners"]["exact"]
    assert own["examples"] == [[1, 1], [16, 16]] and own["certified"] == [[0, 0], [2, 2]]
    assert own["endings"] == {"learned": 4, "refused": 4} and own["false_certificates"] == 0
    json.dumps(results, allow_nan=False)


def test_workers_do_not_change_the_answers(made):
    assert figures(sweep(**GRID, workers=2)) == figures(made)


def test_a_stopped_map_goes_on(made, tmp_path):
    class Stopped(Exception):  # noqa: N818
        pass

    def stop(progress):
        if progress.done == 3:
            raise Stopped

    with pytest.raises(Stopped):
        sweep(**GRID, workers=1, folder=tmp_path, told=stop)
    path = tmp_path / TRIALS
    assert len(path.read_text().splitlines()) == 3
    path.write_bytes(path.read_bytes() + b'{"key": "torn')
    with pytest.raises(ValueError, match="holds trials"):
        sweep(**GRID, workers=1, folder=tmp_path)
    seen = []
    again = sweep(**GRID, workers=1, folder=tmp_path, resume=True, told=seen.append)
    assert figures(again) == figures(made)
    assert [p.done for p in seen] == [4, 5, 6, 7, 8] and seen[-1].seconds_left == 0.0
    assert seen[0].where.keys() == {"scale", "ratio"} and seen[0].total == 8


def test_a_map_can_be_extended(tmp_path, made):
    seen = []
    sweep(**GRID, workers=1, folder=tmp_path)
    wider = {**GRID, "trials": 3}
    sweep(**wider, workers=1, folder=tmp_path, resume=True, told=seen.append)
    assert len(seen) == 4 and {p.trial.seed for p in seen} == {2}


def test_lines_that_are_no_trials_are_done_again(tmp_path, made):
    sweep(**GRID, workers=1, folder=tmp_path)
    path, seen = tmp_path / TRIALS, []
    lines = path.read_text().splitlines()
    first, second = json.loads(lines[0]), json.loads(lines[1])
    del first["trial"]["status"]
    second["trial"] = 3
    path.write_text("\n".join([json.dumps(first), json.dumps(second), *lines[2:]]) + "\n")
    again = sweep(**GRID, workers=1, folder=tmp_path, resume=True, told=seen.append)
    assert len(seen) == 2 and figures(again) == figures(made)


@pytest.mark.parametrize(
    ("named", "changed"),
    [
        ("both axes are scale", {"y": "scale:1:2"}),
        ("scale is set, but it is an axis", {"fixed": {"scale": 1.0}}),
        ("learner is 'magic'", {"learners": ["exact", "magic"]}),
        ("no learner", {"learners": []}),
        ("trials is 0", {"trials": 0}),
        ("workers is 0", {"workers": 0}),
        ("parameter is 'width'", {"fixed": {"width": 2}}),
        ("heads is 5", {"fixed": {"heads": 5, "dim": 4}}),
        ("heads is set, but a parity", {"x": Axis("t", (1, 2))}),
    ],
)
def test_what_cannot_be_asked(named, changed):
    with pytest.raises(ValueError, match=named):
        sweep(**{"workers": 1, **GRID, **changed})


def test_descent_without_torch_is_refused_at_once(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="learner 'adam' needs PyTorch"):
        sweep(**GRID, learners=["exact", "adam"], workers=1)
