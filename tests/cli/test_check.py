"""`gradine check`, of layers and of examples, and `gradine hard dial`."""

from __future__ import annotations

import numpy as np
import pytest

import gradine
from gradine.hard import dial
from gradine.theory.rules import RULES


@pytest.fixture
def broken(tmp_path):
    path = tmp_path / "broken.safetensors"
    dial("zero_sum", 1.0).save(path)
    return path


def test_a_layer_as_json(cli, broken):
    answer = cli("check", broken, "--seq-len", 3, "--json")
    assert answer.code == 0 and answer.err == ""
    found = answer.json
    assert not found["holds"] and found["exact_holds"]
    assert "sum_size" in found["failing"] and found["exact_failing"] == []
    assert [entry["name"] for entry in found["conditions"]] == list(RULES)
    entry = next(entry for entry in found["conditions"] if entry["name"] == "sum_size")
    assert entry["value"] < entry["threshold"] and not entry["holds"]
    assert entry["reference"] == "CL25" and entry["phase"] == "phase 1, crude sum"


def test_a_layer_as_a_table(cli, broken):
    answer = cli("check", broken, "--seq-len", 3, "--examples", 1000)
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0].split()[:3] == ["condition", "value", "needed"]
    assert [line.split()[0] for line in lines[1 : len(RULES) + 1]] == list(RULES)
    assert any(line.startswith("sum_size, sculpt: ") and "phase 1" in line for line in lines)
    assert lines[-1].endswith("exact: all hold")


def test_each_learner_is_told_its_own_threshold(cli, tmp_path):
    path = tmp_path / "crowd.safetensors"
    dial("many_heads", 1.0).save(path)
    lines = cli("check", path, "--seq-len", 3).out.splitlines()
    told = {line.split(":")[0]: line for line in lines if line.startswith("heads, ")}
    assert list(told) == ["heads, sculpt", "heads, exact"]
    assert "at most 0.35 is needed" in told["heads, sculpt"]
    assert "at most 0.75 is needed" in told["heads, exact"]
    assert "(phase 6, search) [CL25]" in told["heads, sculpt"]
    assert "phase" not in told["heads, exact"] and "CL25" not in told["heads, exact"]


def test_a_store_by_its_address(cli, tmp_path):
    zarr = pytest.importorskip("zarr")
    tokens = gradine.sample_inputs(2000, 3, 4)
    group = zarr.open_group(str(tmp_path / "data.zarr"), mode="w")
    for label, array in (("X", tokens), ("Y", gradine.plant(1, 4, 2.0)(tokens))):
        group.create_array(label, data=array)
    answer = cli("check", f"file://{tmp_path}/data.zarr", "--json")
    assert answer.code == 0 and "2000 examples" in answer.json["subject"]


def test_a_head_without_attention_has_no_norm(cli, tmp_path):
    path = tmp_path / "zero.safetensors"
    gradine.AttentionLayer(np.zeros((1, 4, 4)), np.eye(4)[None]).save(path)
    lines = cli("check", path, "--seq-len", 2).out.splitlines()
    assert lines[1].split()[:2] == ["logits_not_flat", "0"]


def test_the_options_reach_the_check(cli, broken):
    asked = ("check", broken, "--seq-len", 3, "--json")
    plain = cli(*asked).json["conditions"][-1]
    more = cli(*asked, "--examples", 80_000).json["conditions"][-1]
    other = cli(*asked, "--inputs", "gaussian").json["conditions"][-1]
    seeded = cli(*asked, "--seed", 3).json["conditions"][-1]
    assert more["threshold"] == pytest.approx(plain["threshold"] / 2)
    assert plain["value"] == more["value"] != other["value"]
    assert seeded["value"] not in (plain["value"], other["value"])


def test_examples(cli, told, arrays, tmp_path):
    answer = cli("check", told.data, "--json")
    assert answer.code == 0
    found = {entry["name"]: entry for entry in answer.json["conditions"]}
    assert found["tokens"]["value"] == pytest.approx(3 / 6)
    assert answer.json["subject"] == "8000 examples of 3 tokens"
    np.save(tmp_path / "X.npy", arrays["X"])
    np.save(tmp_path / "Y.npy", arrays["Y"])
    assert cli("check", tmp_path, "--json").json["conditions"] == answer.json["conditions"]
    assert cli("check", told.data).out.splitlines()[-1].startswith("conditions of 8000 examples")


def test_bad_input_ends_in_one_line(cli, told, broken, tmp_path):
    nonsense = tmp_path / "nonsense.safetensors"
    nonsense.write_bytes(b"nonsense")
    for arguments, message in (
        ((broken,), "--seq-len is missing"),
        ((broken, "--seq-len", 1), "seq_len is 1; expected"),
        ((broken, "--seq-len", 3, "--examples", 0), "examples is 0; expected"),
        ((nonsense, "--seq-len", 3), "nonsense.safetensors"),
        ((tmp_path / "no.safetensors", "--seq-len", 3), "no.safetensors"),
        ((tmp_path / "no.npz",), "no.npz: no such file"),
        ((tmp_path,), "holds no examples; expected X.npy and Y.npy"),
        ((told.data, "--seq-len", 3), "--seq-len is 3; "),
        ((told.data, "--examples", 30), "--examples is 30; "),
        ((told.data, "--inputs", "gaussian"), "--inputs is gaussian; "),
        ((told.data, "--inputs", "boolean"), "--inputs is boolean; "),
    ):
        for more in ((), ("--json",)):
            answer = cli("check", *arguments, *more)
            assert answer.code == 2 and answer.out == ""
            assert message in answer.error_line


def test_values_that_are_not_finite_are_refused(cli, arrays, tmp_path):
    arrays["Y"][5, 0, 0] = np.nan
    np.savez(tmp_path / "data.npz", **arrays)
    answer = cli("check", tmp_path / "data.npz")
    assert answer.code == 2 and "Y has a NaN or infinite value in example 5" in answer.error_line


def test_a_dial_is_written(cli, tmp_path):
    out = tmp_path / "layer.safetensors"
    answer = cli("hard", "dial", "sharp", "--turn", 0.5, "--seed", 3, "--out", out)
    assert answer.code == 0 and answer.out.startswith("sharp at 0.5 (logits grow")
    assert np.array_equal(gradine.AttentionLayer.load(out).theta, dial("sharp", 0.5, seed=3).theta)


def test_dials_that_are_refused(cli, tmp_path):
    out = tmp_path / "layer.safetensors"
    for arguments, message in (
        (("nonsense", "--turn", 0.5), "nonsense"),
        (("flat", "--turn", 2), "turn is 2.0; expected a number from 0 to 1"),
        (("zero_sum", "--turn", 1, "--heads", 1), "heads is 1; expected"),
        (("flat",), "--turn"),
    ):
        answer = cli("hard", "dial", *arguments, "--out", out)
        assert answer.code == 2 and message in answer.error_line
    assert not out.exists()
