"""`gradine features`: figures, and how a stopped run goes on."""

from __future__ import annotations

import json
import shutil

import pytest

from gradine.cli import main
from gradine.features.experiments import Setting

TINY = Setting(4, 3, 20, 100, (16, 64), 2, 50, 100)


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setattr("gradine.cli.features.QUICK", TINY)


@pytest.fixture(scope="module")
def measured_once(tmp_path_factory):
    """Made for all tests: measuring is not what they are about."""
    folder = tmp_path_factory.mktemp("features") / "powers"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gradine.cli.features.QUICK", TINY)
        assert main(["features", "--figure", "powers", "--quick", "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def measured(measured_once, tmp_path):
    """The folder of a run that has ended, to be changed at will."""
    return shutil.copytree(measured_once, tmp_path / "powers")


def units(folder):
    return sorted(path.name for path in (folder / "units").iterdir())


def test_results_and_pictures(cli, tmp_path):
    answer = cli("features", "--figure", "powers", "--quick", "--out", tmp_path, "--json")
    assert answer.code == 0 and len(answer.out.splitlines()) == 1
    results = json.loads((tmp_path / "results.json").read_text())
    assert json.loads(answer.out) == results | {"out": str(tmp_path)}
    assert set(results["figures"]["powers"]["p=2"]["models"]) == {"RFA", "BRFA", "RFMLP"}
    assert (tmp_path / "powers.svg").exists() and (tmp_path / "powers.png").exists()
    assert len(units(tmp_path)) == 6 and "6/6" in answer.err


def test_a_summary_for_people(cli, tmp_path):
    answer = cli("features", "--figure", "bridge", "--quick", "--out", tmp_path)
    assert answer.code == 0 and "n = 64" in answer.out and "softmax RFA" in answer.out


def test_a_stopped_run_continues_seed_by_seed(cli, tmp_path, monkeypatch):
    from gradine.cli import features

    real, calls = features.measure, []

    def stopped(part, model, seed, *rest):
        if len(calls) == 4:
            raise KeyboardInterrupt
        calls.append((model, seed))
        return real(part, model, seed, *rest)

    monkeypatch.setattr(features, "measure", stopped)
    run = ("features", "--figure", "correlation", "--quick", "--out", tmp_path / "run")
    answer = cli(*run)
    assert answer.code == 130 and answer.err.endswith("stopped; continue with --resume\n")
    assert len(units(tmp_path / "run")) == 4 and not (tmp_path / "run" / "results.json").exists()
    monkeypatch.setattr(features, "measure", real)
    answer = cli(*run)
    assert answer.code == 2 and "--resume" in answer.err and len(answer.err.splitlines()) == 1
    answer = cli(*run, "--resume")
    assert answer.code == 0 and answer.err.count("recalled") == 4
    whole = cli(*run[:-1], tmp_path / "whole")
    assert whole.code == 0
    both = [json.loads((tmp_path / name / "results.json").read_text()) for name in ("run", "whole")]
    assert both[0]["figures"] == both[1]["figures"]


def test_another_figure_is_measured_beside(cli, measured):
    before = json.loads((measured / "results.json").read_text())["figures"]
    other = ("features", "--figure", "correlation", "--quick", "--out", measured)
    answer = cli(*other, "--resume")
    assert answer.code == 0 and "recalled" not in answer.err
    after = json.loads((measured / "results.json").read_text())["figures"]
    assert list(after) == ["powers", "correlation"] and after["powers"] == before["powers"]
    answer = cli("features", "--figure", "powers", "--quick", "--out", measured, "--resume")
    assert answer.err.count("recalled") == 6
    answer = cli(*other, "--overwrite")
    assert answer.code == 0 and not (measured / "powers.png").exists()


DAMAGED = [
    lambda unit: unit.clear(),
    lambda unit: unit.update(curves=1),
    lambda unit: unit.update(model="BRFA"),
    lambda unit: unit.update(seed=1),
    lambda unit: unit.update(seconds="x"),
    lambda unit: unit["curves"].update({"powers/p=7": unit["curves"]["powers/p=1"]}),
    lambda unit: unit["curves"]["powers/p=1"].update(errors=[None, None]),
    lambda unit: unit["curves"]["powers/p=1"].update(errors="ab"),
    lambda unit: unit["curves"]["powers/p=1"].update(errors=[-1.0, 0.5]),
    lambda unit: unit["curves"]["powers/p=1"].update(errors=[float("nan"), 0.5]),
]


@pytest.mark.parametrize("damage", [None, *DAMAGED])
def test_a_damaged_unit_is_named(cli, measured, damage):
    path = measured / "units" / "targets-RFA-0.json"
    value = json.loads(path.read_text())
    if damage is not None:
        damage(value["unit"])
    path.write_text("[]" if damage is None else json.dumps(value))
    answer = cli("features", "--figure", "powers", "--quick", "--out", measured, "--resume")
    assert answer.code == 2 and answer.error_line.startswith(f"gradine: {path}: damaged")


def test_short_curves_are_of_other_sizes(cli, measured):
    run = ("features", "--figure", "powers", "--quick", "--out", measured)
    path = measured / "units" / "targets-RFA-0.json"
    value = json.loads(path.read_text())
    value["unit"]["curves"]["powers/p=1"]["alphas"].pop()
    path.write_text(json.dumps(value))
    assert "other sizes" in cli(*run, "--resume").error_line


def test_a_file_in_the_way_is_said_before_anything_is_measured(cli, tmp_path):
    (tmp_path / "units").write_text("")
    answer = cli("features", "--figure", "powers", "--quick", "--out", tmp_path)
    assert answer.code == 2 and "in the way" in answer.error_line


@pytest.mark.parametrize("name", ["results.json", "correlation.svg", "powers.png"])
def test_files_that_no_experiment_wrote_are_not_replaced_unasked(cli, tmp_path, name):
    (tmp_path / name).write_text("mine")
    (tmp_path / "units").mkdir()
    (tmp_path / "units" / "other.json").write_text("{}")
    for options in ((), ("--resume",)):
        answer = cli("features", "--figure", "powers", "--quick", "--out", tmp_path, *options)
        assert answer.code == 2 and f"holds a {name} that no run wrote" in answer.error_line
    assert (tmp_path / name).read_text() == "mine"


def test_units_behind_a_link_are_not_removed(cli, measured, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "units").symlink_to(measured / "units")
    answer = cli("features", "--quick", "--out", tmp_path / "other", "--overwrite")
    assert answer.code == 2 and "is in the way" in answer.error_line and len(units(measured)) == 6


def test_other_sizes_are_refused(cli, measured, monkeypatch):
    other = Setting(4, 3, 20, 100, (16, 32), 2, 50, 100)
    monkeypatch.setattr("gradine.cli.features.QUICK", other)
    run = ("features", "--figure", "powers", "--quick", "--out", measured)
    answer = cli(*run, "--resume")
    assert answer.code == 2 and "other sizes" in answer.err
    foreign = measured / "units" / "notes.json"
    damaged = measured / "units" / units(measured)[0]
    foreign.write_text('{"mine": 1}')
    damaged.write_text("{")
    answer = cli(*run, "--overwrite")
    assert answer.code == 0
    assert foreign.read_text() == '{"mine": 1}' and damaged.read_text() != "{"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--figure", "roots", "--out", "x"), "roots"),
        (("--figure", "powers"), "--out"),
        (("--resume", "--overwrite", "--quick", "--out", "x"), "--overwrite"),
    ],
)
def test_bad_input_is_one_line(cli, tmp_path, monkeypatch, arguments, named):
    monkeypatch.chdir(tmp_path)
    answer = cli("features", *arguments)
    assert answer.code == 2 and named in answer.err and len(answer.err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_run_that_is_stopped_while_pictures_are_drawn_says_so(cli, tmp_path, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("gradine.cli.features.draw_figures", stopped)
    answer = cli("features", "--figure", "powers", "--quick", "--out", tmp_path)
    assert answer.code == 130 and answer.err.endswith("stopped; continue with --resume\n")


def test_a_damaged_unit_is_named_before_anything_is_measured(cli, measured):
    run = ("features", "--figure", "powers", "--quick", "--out", measured)
    (measured / "units" / "targets-RFA-0.json").unlink()
    (measured / "units" / "targets-RFMLP-1.json").write_text("[]")
    answer = cli(*run, "--resume")
    assert answer.code == 2 and "targets-RFMLP-1.json: damaged" in answer.err
    assert len(answer.err.splitlines()) == 1 and len(units(measured)) == 5


@pytest.mark.parametrize("slope", [None, float("nan")])
def test_no_slope_is_a_dash(slope):
    from gradine.cli.features import _lines

    curve = {"median": [0.5], "slope": slope, "n": [64]}
    lines = _lines({"figures": {"powers": {"p=1": {"models": {"RFA": curve}}}}})
    assert lines[-1].endswith("RFA 0.5 (-)")
