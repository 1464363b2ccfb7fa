"""Whatever is wrong with the input: exit code 2, one line that names it, nothing half-written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from gradine.cli.console import with_next_step
from tests.cli.conftest import environment


def refused(answer, *words: str) -> None:
    assert answer.code == 2 and answer.out == ""
    for word in words:
        assert word in answer.error_line


@pytest.fixture
def learn_from(cli, tmp_path):
    """Learn from a file, and see that a refusal leaves nothing behind."""

    def run(data, *options):
        out = tmp_path / "deep" / "run"
        answer = cli("learn", data, "--out", out, *options)
        assert not (tmp_path / "deep").exists()
        return answer

    return run


@pytest.fixture
def saved(tmp_path):
    def save(**arrays):
        np.savez(tmp_path / "data.npz", **arrays)
        return tmp_path / "data.npz"

    return save


def test_missing_file(learn_from, tmp_path):
    refused(learn_from(tmp_path / "none.npz"), "none.npz: no such file")
    (tmp_path / "folder").mkdir()
    refused(learn_from(tmp_path / "folder"), "folder: holds no examples; expected X.npy and Y.npy")


def test_truncated_file(learn_from, told, tmp_path):
    (tmp_path / "cut.npz").write_bytes(told.data.read_bytes()[:-1000])
    refused(learn_from(tmp_path / "cut.npz"), "cut.npz", "truncated")


def test_wrong_array_names(learn_from, saved, arrays):
    refused(
        learn_from(saved(inputs=arrays["X"], outputs=arrays["Y"])),
        "data.npz: holds inputs, outputs; expected arrays X and Y",
    )


def test_not_a_number(learn_from, saved, arrays):
    arrays["Y"][77, 1, 2] = np.nan
    refused(learn_from(saved(**arrays)), "data.npz: examples 0:8000: Y has a NaN", "example 77")


def test_disagreeing_arrays(learn_from, saved, arrays):
    refused(learn_from(saved(X=arrays["X"], Y=arrays["Y"][:-1])), "data.npz: X has shape")
    refused(learn_from(saved(X=arrays["X"][0], Y=arrays["Y"][0])), "data.npz: X has shape (3, 6)")


def test_single_tokens(learn_from, saved, arrays):
    alone = {name: array[:, :1] for name, array in arrays.items()}
    refused(learn_from(saved(**alone)), "data.npz: sequences have 1 token; expected at least 2")


def test_too_few_examples(learn_from, saved, arrays):
    few = {name: array[:10] for name, array in arrays.items()}
    answer = learn_from(saved(**few), "--method", "sculpt")
    refused(answer, "data.npz: n = 10 is too few examples", "need at least 275")
    alone = {name: array[:1] for name, array in arrays.items()}
    refused(learn_from(saved(**alone)), "data.npz: n = 1 is too few examples")


def test_inputs_of_no_known_kind(learn_from, saved, arrays):
    arrays["X"] *= 0.3
    answer = learn_from(saved(**arrays), "--method", "sculpt")  # the only learner that minds
    refused(answer, "data.npz: X is neither uniform on +-1 nor near standard")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--heads", 0), "heads is 0; expected between 1 and 6"),
        (("--heads", 99), "heads is 99; expected between 1 and 6"),
        (("--heads", "two"), "heads is 'two'"),
        (("--heads", "1.5"), "heads is '1.5'"),
        (("--rank", 0), "rank is 0; expected at least 1"),
        (("--rank", 7), "rank is 7; expected between 1 and 6"),
        (("--rank", "1.5"), "'--rank'"),
        (("--rank", 2, "--method", "sculpt"), "--rank is for the exact learner"),
        (("--no-polish", "--method", "exact"), "--no-polish is for the six phases"),
        (("--method", "guess"), "'--method'"),
        (("--confidence", 1), "confidence is 1"),
        (("--confidence", "nan"), "confidence is nan"),
        (("--seed", "x"), "'--seed'"),
        (("--resume", "--overwrite"), "--resume and --overwrite"),
        (("--hedas", 2), "No such option: --hedas"),
        (("--truth", "none.safetensors"), "none.safetensors: no such file"),
    ],
)
def test_wrong_options(learn_from, told, options, complaint):
    refused(learn_from(told.data, *options), complaint)


def test_a_truth_of_another_size(learn_from, told, cli, tmp_path):
    other = tmp_path / "other.safetensors"
    cli("plant", "--heads", 1, "--dim", 4, "--scale", 3, "--out", other)
    refused(learn_from(told.data, "--truth", other), "truth has dim 4", "expected 6")


def test_output_that_cannot_be_written(cli, told, tmp_path):
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "run"):
        refused(cli("learn", told.data, "--out", out), f"cannot write {out}")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_that_holds_a_run(cli, told):
    before = (told.run / "result.json").read_bytes()
    answer = cli("learn", told.data, "--out", told.run)
    refused(answer, f"{told.run}: holds an earlier run", "--resume", "--overwrite")
    assert (told.run / "result.json").read_bytes() == before


def test_refused_examples_do_not_cost_an_earlier_run(cli, told, saved, arrays, tmp_path):
    out = tmp_path / "run"
    learn = ("--out", out, "--method", "sculpt", "--no-report")
    assert cli("learn", told.data, *learn, "--no-polish").code == 0
    before = sorted(out.rglob("*"))
    arrays["X"] *= 0.3
    for flag in ("--overwrite", "--resume"):
        refused(cli("learn", saved(**arrays), *learn, flag), "neither uniform on +-1 nor")
        assert sorted(out.rglob("*")) == before


def test_a_layer_that_no_run_wrote_is_not_replaced(cli, told, tmp_path):
    (tmp_path / "layer.safetensors").write_bytes(told.truth.read_bytes())
    for options in ((), ("--resume",)):
        answer = cli("learn", told.data, "--out", tmp_path, *options)
        refused(answer, "holds a layer.safetensors that no run wrote")
    assert (tmp_path / "layer.safetensors").read_bytes() == told.truth.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "next_step"),
    [
        (("carve",), "see gradine --help"),
        (("lern",), "No such command 'lern'; did you mean 'learn'? (see gradine --help)"),
        (("check", "pyproject.toml"), "expected X and Y by numpy.savez"),
        (("learn",), "see gradine learn --help"),
        (("plant", "--heads", 1), "see gradine plant --help"),
        (("hard", "parity"), "see gradine hard parity --help"),
        (("sample", "none.safetensors", "--examples", 9, "--seq-len", 3, "--out", "x"), "plant"),
        (("check", "none.npz"), "gradine sample writes examples"),
        (("check", "none"), "check the path"),
        (("compare", "pyproject.toml", "pyproject.toml"), "; "),
    ],
)
def test_every_refusal_says_what_to_do_next(cli, arguments, next_step):
    answer = cli(*arguments)
    refused(answer, next_step)
    assert "; " in answer.error_line


def test_what_is_too_large_for_memory_is_named_by_its_options():
    for command, step in [
        ("plant", "give fewer --heads, or a smaller --dim"),
        ("sample", "give a smaller --seq-len, or a smaller layer"),
        ("learn", "bound what blocks may take with --memory, or give fewer examples"),
        ("compare", "it takes a smaller layer, or a larger machine"),
    ]:
        line = with_next_step("not enough memory", MemoryError(), f"gradine {command}")
        assert line == f"not enough memory; {step}"


def test_resuming_with_other_settings_says_what_to_do(cli, told, tmp_path):
    run = shutil.copytree(told.run, tmp_path / "run")
    answer = cli("learn", told.data, "--seed", 7, "--out", run, "--resume")
    refused(answer, "other settings; replace the run with --overwrite, or choose another --out")


def test_too_few_examples_by_the_budget(learn_from, told):
    answer = learn_from(told.data, "--examples-budget", 1)
    refused(answer, "too few examples", "; give more examples, or a larger --examples-budget")


def test_layers_and_folders_in_the_place_of_examples(learn_from, told, tmp_path):
    refused(learn_from(told.truth), "; of a layer, gradine sample makes examples, and so does --or")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.npz")
        refused(learn_from(tmp_path / "pipe.npz"), "not a file; expected a plain file, and no")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_standard_output_on_a_full_disk(told, tmp_path, unbuffered):
    """A file that may not grow stands for the disk."""
    resource = pytest.importorskip("resource")
    command = [sys.executable, "-m", "gradine", "compare", told.truth, told.truth, "--json"]
    with (tmp_path / "out").open("w") as out:
        done = subprocess.run(
            command,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            env=environment() | {"PYTHONUNBUFFERED": unbuffered},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
        )
    said = "gradine: cannot write standard output: File too large; make room, or send it elsewhere"
    assert (done.returncode, done.stderr) == (2, f"{said}\n")


def test_file_systems_that_lack_packages():
    for said, step in [
        ('requires "requests" and "aiohttp" to be installed', "pip install requests aiohttp"),
        ("Install s3fs to access S3", "pip install s3fs"),
    ]:
        line = f"https://host/d.zarr: {said}"
        assert with_next_step(line, ValueError(), "gradine learn") == f"{line}; {step}"


def test_what_is_missing_is_shown_in_an_example(cli):
    assert cli("learn").error_line == (
        "gradine: Missing option '--out'; as in: gradine learn data.npz --out run "
        "(see gradine learn --help)"
    )
    assert "; as in: gradine sample layer.safetensors --ex" in cli("sample").error_line


def test_no_command_prints_the_help(cli):
    for group in ((), ("hard",)):
        answer = cli(*group)
        assert answer.code == 2 and answer.out.strip() == cli(*group, "--help").out.strip()
        assert (
            answer.error_line
            == f"gradine: Missing command; see {' '.join(('gradine', *group))} --help"
        )


def test_a_process_shows_one_line_and_no_traceback(real_cli, told, tmp_path):
    refused(real_cli("learn", tmp_path / "none.npz", "--out", tmp_path / "run"), "none.npz")
    refused(real_cli("learn", told.data, "--out", told.run, "--json"), "earlier run")
    refused(real_cli("learn", told.data), "Missing option '--out'")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_a_pipe_is_not_overwritten(cli, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    plant = ("plant", "--heads", 1, "--dim", 4, "--scale", 3, "--overwrite")
    answer = cli(*plant, "--out", tmp_path / "pipe")
    refused(answer, "pipe: is no plain file; choose another --out")
    assert (tmp_path / "pipe").is_fifo()


def test_inputs_in_the_folder_of_a_run_that_is_replaced(cli, told, tmp_path):
    run = shutil.copytree(told.run, tmp_path / "run")
    shutil.copy(told.data, run / "data.npz")
    (tmp_path / "link.safetensors").symlink_to(run / "layer.safetensors")
    before = sorted(run.rglob("*"))
    layer, link = run / "layer.safetensors", tmp_path / "link.safetensors"
    commands = [
        ("query", "--oracle", layer, "--overwrite"),
        ("query", "--oracle", link, "--overwrite"),
        ("query", "--oracle", told.truth, "--truth", layer, "--resume"),
        ("learn", "--oracle", layer, "--examples", 8000, "--seq-len", 3, "--overwrite"),
        ("learn", told.data, "--truth", layer, "--overwrite"),
        ("learn", told.data, "--truth", layer, "--resume"),
    ]
    for command in commands:
        answer = cli(*command, "--out", run)
        refused(answer, "is read, and lies where the run in", "; choose another --out")
        assert sorted(run.rglob("*")) == before


def test_a_run_beside_its_data_goes_on(cli, told, tmp_path):
    run = shutil.copytree(told.run, tmp_path / "run")
    shutil.copy(told.data, run / "data.npz")
    assert cli("learn", run / "data.npz", "--out", run, "--resume").code == 0
    assert cli("learn", run / "data.npz", "--out", run, "--overwrite").code == 0
    assert (run / "data.npz").exists()
