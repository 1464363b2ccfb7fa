"""What fuzzing and reading found: each file that once got past its reader, and what stops it."""

from __future__ import annotations

import copy
import errno
import io
import json
import logging
import os
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import gradine
from gradine.atlas.store import TRIALS, TrialStore
from gradine.cli import main, plant
from gradine.cli.run import read_shown
from gradine.examples import open_examples
from gradine.files import OutputError, read_json, write_text
from gradine.lines import JsonLines
from gradine.lock import LOCK, only_run
from gradine.records import RecordError, load_record, save_record
from gradine.runs import output_folder

X = np.ones((6, 3, 2))


def npy(array) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_json_that_is_nested_too_deep_or_has_too_many_digits(tmp_path):
    path = tmp_path / "result.json"
    for text, said in [("[" * 100_000, "nested too deep"), ('{"a": ' + "1" * 5000 + "}", "digits")]:
        path.write_text(text)
        with pytest.raises(ValueError, match=rf"result.json: not JSON \(.*{said}"):
            read_json(path)
        (tmp_path / TRIALS).write_text(text + '\n{"a": 1}\n')
        assert JsonLines(tmp_path / TRIALS).read() == [{"a": 1}]


def test_pipes_and_devices_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "a.npz")
    (tmp_path / "b.npz").symlink_to("/dev/zero")
    for name in ("a.npz", "b.npz"):
        for read in (open_examples, lambda path: read_shown(path, None), read_json):
            with pytest.raises(ValueError, match=f"{name}: not a file"):
                read(tmp_path / name)
    np.save(tmp_path / "X.npy", X)
    (tmp_path / "Y.npy").symlink_to("/dev/zero")
    with pytest.raises(ValueError, match=r"Y\.npy: not a file"):
        open_examples(tmp_path)


def test_an_example_larger_than_memory_by_its_header(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**3)}
    )
    (tmp_path / "tokens.npy").write_bytes(header.getvalue() + b"\0" * 80)
    with pytest.raises(ValueError, match="is truncated: 80 bytes"):
        read_shown(tmp_path / "tokens.npy", None)


def test_a_record_with_a_lost_bit_or_with_other_types(tmp_path):
    from gradine.exact.results import Curve

    path, ones = tmp_path / "r.safetensors", np.ones(3)
    save_record(path, Curve(ones, ones, ones, 1.0), "run")
    assert load_record(path, Curve, "run").seconds == 1.0
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(RecordError, match="damaged"):
        load_record(path, Curve, "run")
    save_record(path, Curve(ones, ones, ones, "soon"), "run")  # pyright: ignore
    with pytest.raises(RecordError, match="does not hold the fields of Curve"):
        load_record(path, Curve, "run")


def test_a_length_that_is_true(tmp_path):
    """It is a whole number to the parser of the header, and none to who makes the array."""
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (6, 3, True), }".ljust(117) + "\n"
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
    path = tmp_path / "data.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", content + bytes(6 * 3 * 8))
        archive.writestr("Y.npy", npy(X))
    with pytest.raises(
        ValueError, match=r"data\.npz: X has shape .*True.*; expected whole numbers"
    ):
        open_examples(path)


def test_a_record_whose_parts_do_not_fit(tmp_path):
    fit = gradine.learn(*_examples(), heads=1, method="exact").phases["fit_1"]
    object.__setattr__(fit, "theta", np.repeat(fit.theta, 2, axis=0))
    save_record(tmp_path / "record", fit, "run")
    with pytest.raises(RecordError, match="does not hold the fields of HeadFit"):
        load_record(tmp_path / "record", type(fit), "run")


@pytest.mark.parametrize("field", ["heads", "rank"])
def test_a_record_of_less_than_nothing(tmp_path, field):
    fit = gradine.learn(*_examples(), heads=1, method="exact").phases["fit_1"]
    object.__setattr__(fit, field, -3)
    save_record(tmp_path / "record", fit, "run")
    with pytest.raises(RecordError, match="does not hold the fields of HeadFit"):
        load_record(tmp_path / "record", type(fit), "run")


def test_bars_that_are_not_one_a_head(tmp_path):
    identified = gradine.learn(*_examples(), heads=1, method="exact").phases["identify"]
    for bars in (np.zeros(0), np.zeros(2), np.zeros((1, 1))):
        forged = copy.copy(identified)
        object.__setattr__(forged, "w_bars", bars)
        save_record(tmp_path / "record", forged, "run")
        with pytest.raises(RecordError, match="does not hold the fields of Identified"):
            load_record(tmp_path / "record", type(identified), "run")


def test_a_file_in_the_place_of_a_run_folder(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("mine", "link"):
        with (
            pytest.raises(OutputError, match=f"cannot write .*{name}: is no folder"),
            output_folder(tmp_path / name),
        ):
            pass
    assert sorted(os.listdir(tmp_path)) == ["link", "mine"]


def test_a_folder_in_the_place_of_a_file_is_not_written_beside(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    for name in ("run", "link"):
        with pytest.raises(OutputError, match=f"cannot write .*{name}: is a folder"):
            write_text(tmp_path / name, "mine")
    assert (tmp_path / "link").is_symlink()


def _examples():
    tokens = gradine.sample_inputs(400, 3, 4)
    return tokens, gradine.plant(heads=1, dim=4, scale=2.0)(tokens)


@pytest.mark.parametrize("unit", [0.0, 1e-310, 1e-170, 1e160])
def test_numbers_that_are_too_large_or_too_small(unit, tmp_path, capsys):
    """Their squares are not numbers, or zero: once a matrix that was not positive."""
    tokens, labels = _examples()
    with pytest.raises(ValueError, match=r"^arrays: .*expected"):
        gradine.learn(unit * tokens, labels)
    np.savez(tmp_path / "data.npz", X=unit * tokens, Y=labels)
    assert main(["learn", str(tmp_path / "data.npz"), "--out", str(tmp_path / "run")]) == 2
    assert "data.npz: " in capsys.readouterr().err


def test_a_signalling_nan_is_named_and_no_warning(tmp_path, recwarn):
    labels = np.ones((6, 3, 2), dtype=np.float32)
    labels.view(np.uint32)[2, 1, 0] = 0x7F800001
    np.save(tmp_path / "X.npy", X)
    (tmp_path / "Y.npy").write_bytes(npy(labels))
    np.savez_compressed(tmp_path / "data.npz", X=X, Y=labels)
    for source in (tmp_path, tmp_path / "data.npz"):
        with pytest.raises(ValueError, match=r"Y\[2, 1, 0\]|not finite|NaN"):
            gradine.learn_examples(open_examples(source))
    assert not list(recwarn)


def test_what_else_lies_in_a_store_is_no_warning(tmp_path, recwarn):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(tmp_path / "data.zarr"), mode="w", zarr_format=2)
    group.create_array("X", data=X)
    (tmp_path / "data.zarr" / "notes").mkdir()
    (tmp_path / "data.zarr" / "notes" / "a.txt").write_text("?")
    with pytest.raises(ValueError, match="Y holds X; expected arrays X and Y"):
        open_examples(tmp_path / "data.zarr")
    assert not list(recwarn)


def test_a_trial_of_other_types_is_done_again(tmp_path):
    JsonLines(tmp_path / TRIALS).append({"key": "a", "trial": {"learner": 3}})
    assert TrialStore(tmp_path, resume=True).get("a") is None


def test_links_are_not_written_through(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    run = tmp_path / "run"
    run.mkdir()
    (run / LOCK).symlink_to(precious)
    with pytest.raises(OSError) as refused, only_run(run):
        pass
    assert refused.value.errno == errno.ELOOP
    (run / TRIALS).symlink_to(precious)
    with pytest.raises(OSError, match="cannot write"):
        JsonLines(run / TRIALS).append({})
    (run / LOCK).unlink()
    (run / "phases").symlink_to(tmp_path)
    with pytest.raises(ValueError, match="phases: is a link"), output_folder(run):
        pass
    assert precious.read_text() == "mine"


def test_a_name_as_long_as_names_may_be(tmp_path):
    write_text(tmp_path / ("x" * 240 + ".json"), "{}")
    assert [len(path.name) for path in tmp_path.iterdir()] == [245]


def test_nothing_is_replaced_unasked(tmp_path, capsys):
    out = tmp_path / "layer.safetensors"
    out.write_text("mine")
    line = f"plant --heads 1 --dim 3 --scale 1 --out {out}".split()
    assert main(line) == 2 and out.read_text() == "mine"
    assert "layer.safetensors: exists already" in capsys.readouterr().err
    assert main([*line, "--overwrite"]) == 0
    np.savez(tmp_path / "data.npz", X=X)
    sample = f"sample {out} --examples 4 --seq-len 2 --out {tmp_path / 'data.npz'}".split()
    assert main(sample) == 2 and main([*sample, "--overwrite"]) == 0


def test_a_defect_is_one_line_and_its_own_code(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(plant.inputs, "plant", lambda *_, **__: {}["nothing"])
    line = f"plant --heads 1 --dim 3 --scale 1 --out {tmp_path / 'a'}".split()
    assert main(line) == 1
    assert capsys.readouterr().err.startswith("gradine: a defect of gradine: KeyError: 'nothing'")
    monkeypatch.setattr(plant.inputs, "plant", lambda *_, **__: np.ones(2) + np.ones(3))
    assert main(line) == 1
    assert "a defect of gradine: ValueError: operands" in capsys.readouterr().err
    monkeypatch.setenv("GRADINE_TRACEBACK", "1")
    with pytest.raises(ValueError, match="operands"):
        main(line)


FULL = """
import resource, sys
from gradine.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("room", [0, 100])
def test_a_disk_that_is_full(tmp_path, room):
    assert resource.RLIMIT_FSIZE
    # Nor is there room for what coverage would note of this process.
    kept = {name: text for name, text in os.environ.items() if not name.startswith("COVERAGE")}
    environment = kept | {"PYTHONPATH": str(Path(gradine.__file__).parent.parent)}
    line = ["plant", "--heads", "1", "--dim", "9", "--scale", "1", "--out", "layer.safetensors"]
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(room), *line],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("gradine: cannot write layer.safetensors: ")
    assert done.stderr.count("\n") == 1 and not list(tmp_path.iterdir())


def test_clocks_that_jump(monkeypatch, tmp_path):
    """Nothing is ordered, and no duration taken, by the time of day."""
    sources = Path(gradine.__file__).parent.rglob("*.py")
    told = [path.name for path in sources if "time.time()" in path.read_text()]
    assert told == []
    jumps = iter(range(10**6, 0, -1000))
    monkeypatch.setattr("time.time", lambda: next(jumps))
    layer = gradine.plant(1, 3, 2.0, seed=1)
    tokens = gradine.sample_inputs(300, 3, 3, seed=2)
    np.savez(tmp_path / "data.npz", X=tokens, Y=layer(tokens))
    line = ["learn", str(tmp_path / "data.npz"), "--out", str(tmp_path / "run"), "--no-report"]
    assert main([*line, "--method", "exact", "--heads", "1"]) == 0
    assert 0.0 <= json.loads((tmp_path / "run" / "result.json").read_text())["seconds"] < 1000.0


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command line as a shell runs it, in a folder."""
    environment = os.environ | {"PYTHONPATH": str(Path(gradine.__file__).parent.parent)}
    line = line.replace("gradine ", f"{sys.executable} -m gradine ", 1)
    return subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, cwd=folder, env=environment
    )


def test_streams_that_are_closed(tmp_path):
    done = shell("gradine --version <&- >&- 2>&-", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = shell("gradine plant --heads 1 --dim 3 --scale 1 --out a.safetensors >&-", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert gradine.AttentionLayer.load(tmp_path / "a.safetensors").dim == 3


def test_numbers_that_overflow(tmp_path):
    """One line, no warnings of numpy, and no file of NaN."""
    layer = gradine.plant(heads=1, dim=3, scale=1.0)  # none is planted at such a scale
    gradine.AttentionLayer(1e308 * layer.theta, layer.w).save(tmp_path / "a.safetensors")
    (tmp_path / "b.safetensors").write_bytes((tmp_path / "a.safetensors").read_bytes())
    sample = "gradine sample a.safetensors --examples 9 --seq-len 3 --inputs gaussian --out d.npz"
    for line in (sample, "gradine compare a.safetensors b.safetensors"):
        done = shell(line, tmp_path)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
        assert "; expected finite" in done.stderr
    assert not (tmp_path / "d.npz").exists()


def test_empty_names_and_sizes_beyond_memory(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", X=X, Y=X)
    plant_line = ["plant", "--heads", "1", "--scale", "1"]
    for line, said in [
        (["learn", "data.npz", "--out", ""], "'--out': is empty"),
        (["learn", "", "--out", "run"], "is empty; expected a value"),
        (["compare", "", "a"], "is empty; expected a value"),
        ([*plant_line, "--dim", "3", "--out", ""], "'--out': is empty"),
        ([*plant_line, "--dim", "3", "--out", "."], "cannot write .: is a folder"),
        ([*plant_line, "--dim", "9" * 23, "--out", "a"], f"dim is {'9' * 23}; expected"),
    ]:
        assert main(line) == 2
        told = capsys.readouterr().err
        assert said in told and told.count("\n") == 1, told
    assert os.listdir() == ["data.npz"]


def test_a_link_that_leads_nowhere_is_not_replaced_unasked(tmp_path, capsys):
    out = tmp_path / "layer.safetensors"
    out.symlink_to(tmp_path / "nowhere")
    assert main(f"plant --heads 1 --dim 3 --scale 1 --out {out}".split()) == 2
    assert "exists already" in capsys.readouterr().err and out.is_symlink()


def test_errors_of_tasks_that_nobody_waits_for_are_not_shown(capfd):
    """A damaged zarr store leaves some; Python logs them whenever it clears them away."""
    assert main(["--version"]) == 0
    logging.getLogger("asyncio").error("Task exception was never retrieved")
    assert "never retrieved" not in capfd.readouterr().err
