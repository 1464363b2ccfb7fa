"""Writing files: whole or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from safetensors import safe_open

from gradine.files import (
    OutputError,
    atomic_folder,
    atomic_write,
    check_new,
    write_bytes,
    write_json,
    write_text,
)


def test_failure_keeps_the_old_file_and_leaves_nothing_behind(tmp_path):
    path = tmp_path / "kept.txt"
    write_text(path, "old")
    with pytest.raises(RuntimeError, match="halfway"), atomic_write(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError("halfway")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["kept.txt"]


def test_target_is_untouched_until_the_body_is_done(tmp_path):
    path = tmp_path / "data.npz"
    with atomic_write(path) as temporary:
        assert temporary.suffix == ".npz"
        np.savez(temporary, X=np.arange(3))
        assert not path.exists()
    assert np.load(path)["X"].tolist() == [0, 1, 2]
    assert os.listdir(tmp_path) == ["data.npz"]


def test_permissions_follow_the_umask(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    write_bytes(tmp_path / "ours", b"")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_errors_of_the_system_name_the_target(tmp_path):
    missing = tmp_path / "no" / "where.txt"
    with pytest.raises(OutputError, match=r"cannot write .*where\.txt: No such file"):
        write_text(missing, "x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match=r"cannot write .*folder: "):
        write_text(tmp_path / "folder", "x")
    assert os.listdir(tmp_path) == ["folder"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_a_pipe_is_not_replaced_even_if_asked(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(OutputError, match=rf"cannot write .*{name}: is no plain file"):
            write_text(tmp_path / name, "x")
        with pytest.raises(OutputError, match=rf"cannot write .*{name}: is no plain file"):
            check_new(tmp_path / name, overwrite=True)
    assert (tmp_path / "pipe").is_fifo() and sorted(os.listdir(tmp_path)) == ["link", "pipe"]


def test_full_disk_is_an_output_error_but_a_bad_input_is_not(tmp_path):
    with (
        pytest.raises(OutputError, match=r"cannot write .*out: No space"),
        atomic_write(tmp_path / "out"),
    ):
        raise OSError(28, "No space left on device")
    with pytest.raises(FileNotFoundError) as caught, atomic_write(tmp_path / "out"):
        (tmp_path / "input").read_text()
    assert not isinstance(caught.value, OutputError)
    assert os.listdir(tmp_path) == []


def test_json_takes_numpy_and_refuses_what_is_not_json(tmp_path):
    path = tmp_path / "result.json"
    write_json(path, {"n": np.int64(3), "ok": np.bool_(True), "e": np.array([1.5, 2.0])})
    assert json.loads(path.read_text()) == {"n": 3, "ok": True, "e": [1.5, 2.0]}
    with pytest.raises(ValueError, match=r"result\.json is not JSON"):
        write_json(path, {"error": float("nan")})
    with pytest.raises(TypeError, match="object cannot be written"):
        write_json(path, object())
    assert json.loads(path.read_text())["n"] == 3


def test_the_same_tensors_give_the_same_bytes(tmp_path):
    """In processes of their own: the library orders metadata by a number that each draws."""
    code = (
        "import sys, numpy as np; from gradine.files import write_tensors; "
        "notes = {str(i): 'é' * i for i in range(8)}; "
        "write_tensors(sys.argv[1], {'a': np.ones((2, 3)), 'b': np.arange(5)}, notes)"
    )
    written = set()
    for number in range(3):
        path = tmp_path / f"{number}.safetensors"
        subprocess.run([sys.executable, "-c", code, str(path)], check=True)
        written.add(path.read_bytes())
    assert len(written) == 1
    with safe_open(str(path), "numpy") as file:
        assert file.metadata() == {str(i): "é" * i for i in range(8)}
        np.testing.assert_array_equal(file.get_tensor("b"), np.arange(5))


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path):
    (tmp_path / "data").mkdir()
    write_text(tmp_path / "data" / "old", "old")
    with pytest.raises(RuntimeError), atomic_folder(tmp_path / "data", replace=True) as folder:
        write_text(folder / "new", "new")
        raise RuntimeError
    assert os.listdir(tmp_path) == ["data"] and os.listdir(tmp_path / "data") == ["old"]
    with atomic_folder(tmp_path / "data", replace=True) as folder:
        write_text(folder / "new", "new")
    assert os.listdir(tmp_path) == ["data"] and os.listdir(tmp_path / "data") == ["new"]
