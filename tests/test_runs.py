"""The run folder: what is written, what is refused, and what is never touched."""

from __future__ import annotations

import json
import os

import pytest

from gradine import learn, plant, sample_inputs
from gradine.files import OutputError
from gradine.progress import Listener
from gradine.runs import ClearsEarlierRun, check_free, output_folder, read_result, write_run


@pytest.fixture(scope="module")
def fits():
    """One run that learned and one that did not."""
    X = sample_inputs(8000, 3, 6, seed=2)
    layer = plant(1, 6, 3.0, seed=1)
    return learn(X, layer(X)), learn(X, 0.0 * X)


@pytest.fixture
def earlier(tmp_path):
    """A folder with the files of a run and one that belongs to somebody else."""
    (tmp_path / "phases").mkdir()
    names = ["layer.safetensors", "result.json", "report.html", "phases/01_crude_sum.safetensors"]
    for name in [*names, "notes.txt", "phases/other.safetensors"]:
        (tmp_path / name).write_text("old")
    return tmp_path


def test_result_is_read_as_it_was_written(fits, tmp_path):
    learned, _ = fits
    written = write_run(tmp_path, learned, {"data": "data.npz"})
    assert read_result(tmp_path) == written
    assert written["data"] == "data.npz" and written["format_version"] == 1
    assert (tmp_path / "layer.safetensors").exists()


def test_what_was_not_learned_has_no_layer(fits, earlier):
    _, failed = fits
    assert not failed.learned
    write_run(earlier, failed, {})
    assert not (earlier / "layer.safetensors").exists()
    assert read_result(earlier)["certificate"] is None


def test_result_holds_no_number_that_json_has_not(fits, tmp_path):
    write_run(tmp_path, fits[0], {"gap": float("inf"), "nested": [{"error": float("nan")}]})
    text = (tmp_path / "result.json").read_text()
    result = json.loads(text, parse_constant=pytest.fail)
    assert result["gap"] is None and result["nested"] == [{"error": None}]


@pytest.mark.parametrize("text", ["{", "[]", '{"format_version": 99}'])
def test_a_result_that_is_not_ours(tmp_path, text):
    with pytest.raises(FileNotFoundError, match=r"result\.json: no such file"):
        read_result(tmp_path)
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(ValueError, match=r"result\.json: "):
        read_result(tmp_path)


@pytest.mark.parametrize("name", ["result.json", "phases/01_crude_sum.safetensors"])
def test_a_folder_with_a_run_needs_a_word(tmp_path, name):
    check_free(tmp_path, "learn", resume=False, overwrite=False)
    (tmp_path / "phases").mkdir()
    check_free(tmp_path, "learn", resume=False, overwrite=False)
    (tmp_path / name).write_text('{"format_version": 1}')
    with pytest.raises(ValueError, match="holds an earlier run; continue it with --resume"):
        check_free(tmp_path, "learn", resume=False, overwrite=False)
    check_free(tmp_path, "learn", resume=True, overwrite=False)
    check_free(tmp_path, "learn", resume=False, overwrite=True)
    with pytest.raises(ValueError, match="--resume and --overwrite"):
        check_free(tmp_path, "learn", resume=True, overwrite=True)


@pytest.mark.parametrize("name", ["layer.safetensors", "result.json", "report.html"])
def test_a_file_that_no_run_wrote_needs_a_word_of_its_own(tmp_path, name):
    (tmp_path / name).write_text("mine")
    for resume in (False, True):
        with pytest.raises(ValueError, match=rf"holds a {name} that no run wrote; choose another"):
            check_free(tmp_path, "learn", resume, overwrite=False)
    check_free(tmp_path, "learn", resume=False, overwrite=True)
    assert (tmp_path / name).read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_a_pipe_in_the_place_of_an_answer_is_never_replaced(tmp_path):
    os.mkfifo(tmp_path / "layer.safetensors")
    with pytest.raises(OutputError, match=r"layer\.safetensors: is no plain file"):
        check_free(tmp_path, "learn", resume=False, overwrite=True)
    assert (tmp_path / "layer.safetensors").is_fifo()


def test_an_output_folder_vanishes_if_nothing_came_of_it(tmp_path):
    with pytest.raises(ValueError, match="bad"), output_folder(tmp_path / "a" / "b") as folder:
        assert folder.is_dir() and list(folder.glob("[!.]*")) == []
        (folder / "phases").mkdir()
        raise ValueError("bad")
    assert list(tmp_path.iterdir()) == []
    with output_folder(tmp_path / "a" / "b") as folder:
        (folder / "result.json").touch()
    assert folder.is_dir()


def test_an_output_folder_that_was_there_stays(tmp_path):
    with output_folder(tmp_path):
        pass
    assert tmp_path.is_dir()


def test_an_output_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(OSError, match=f"cannot write {path}"), output_folder(path):
            pytest.fail("there is no such folder")


def held(folder):
    names = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(map(str, names))


NOT_OURS = ["notes.txt", "phases/other.safetensors"]


def test_a_new_run_clears_once_its_examples_were_accepted(earlier):
    before = held(earlier)
    listener = ClearsEarlierRun(earlier, False, Listener())
    listener.phase_started("survey", 10)
    listener.examples_seen(10)
    listener.phase_ended("survey", {}, False)
    assert held(earlier) == before
    listener.phase_started("crude_sum", 10)
    listener.fit_went_on(0.1, list)
    assert held(earlier) == NOT_OURS
    (earlier / "phases" / "01_crude_sum.safetensors").touch()
    listener.phase_ended("crude_sum", {}, False)
    listener.phase_started("sculpt", 10)
    assert held(earlier) == ["notes.txt", "phases/01_crude_sum.safetensors", NOT_OURS[1]]


def test_a_run_that_goes_on_clears_once_a_record_was_read(earlier):
    before = held(earlier)
    listener = ClearsEarlierRun(earlier, True, Listener())
    listener.phase_started("crude_sum", 10)
    assert held(earlier) == before
    listener.phase_ended("crude_sum", {}, True)
    assert held(earlier) == ["notes.txt", "phases/01_crude_sum.safetensors", NOT_OURS[1]]


def test_a_run_with_nothing_to_go_on_from_clears_at_its_start(earlier):
    (earlier / "phases" / "01_crude_sum.safetensors").unlink()
    ClearsEarlierRun(earlier, True, Listener()).phase_started("crude_sum", 10)
    assert held(earlier) == NOT_OURS
