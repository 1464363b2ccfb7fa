"""Phase results on disk: round trip, and refusal of what is damaged or foreign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from gradine.records import RecordError, check_record, fingerprint, load_record, save_record


@dataclass(frozen=True, eq=False)
class Example:
    values: np.ndarray
    nothing: np.ndarray
    count: int
    error: float
    note: str


@pytest.fixture
def record():
    values = np.random.default_rng(0).standard_normal((4, 3)).T  # not contiguous
    return Example(values, np.zeros((0, 3, 2)), 7, 0.1 + 0.2, "a note, é")


def test_round_trip_is_exact(tmp_path, record):
    save_record(tmp_path / "r.safetensors", record, "run")
    back = load_record(tmp_path / "r.safetensors", Example, "run")
    assert back.values.tobytes() == np.ascontiguousarray(record.values).tobytes()
    assert back.nothing.shape == (0, 3, 2)
    assert (back.count, back.error, back.note) == (7, 0.1 + 0.2, "a note, é")


class Sums(NamedTuple):
    total: np.ndarray
    count: int


@pytest.mark.parametrize(
    "state",
    [
        Sums(np.arange(3.0), 7),
        [np.array(2.0), np.eye(2)],
        np.arange(4, dtype=np.uint64),
        0.1 + 0.2,
    ],
)
def test_other_states_come_back_as_they_were(tmp_path, state):
    path = tmp_path / "r.safetensors"
    save_record(path, state, "run", {"blocks": "3"})
    back = load_record(path, type(state), "run")
    assert type(back) is type(state) and check_record(path, "run")["blocks"] == "3"
    np.testing.assert_equal(back, state)
    with pytest.raises(RecordError):
        load_record(path, Example, "run")


@pytest.mark.parametrize("number", [np.bool(True), np.float64(0.1), np.int64(7)])
def test_a_number_of_numpy_keeps_its_type(tmp_path, number):
    save_record(tmp_path / "r.safetensors", [number], "run")
    (back,) = load_record(tmp_path / "r.safetensors", list, "run")
    assert type(back) is type(number) and back == number


def test_record_of_another_run_is_refused(tmp_path, record):
    save_record(tmp_path / "r.safetensors", record, "run")
    with pytest.raises(RecordError, match="other data or other settings"):
        load_record(tmp_path / "r.safetensors", Example, "another run")


def test_record_of_another_kind_is_refused(tmp_path, record):
    @dataclass
    class Other:
        values: np.ndarray

    save_record(tmp_path / "r.safetensors", record, "run")
    with pytest.raises(RecordError, match="not a record of Other"):
        load_record(tmp_path / "r.safetensors", Other, "run")


@pytest.mark.parametrize("keep", [0, 7, 60, 200, -1])
def test_truncated_record_is_refused(tmp_path, record, keep):
    path = tmp_path / "r.safetensors"
    save_record(path, record, "run")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(RecordError, match=r"r\.safetensors"):
        load_record(path, Example, "run")


def test_fingerprint_depends_on_every_part():
    base = fingerprint(np.arange(3.0), {"seed": 0})
    assert base == fingerprint(np.arange(3.0), {"seed": 0})
    others = [
        fingerprint(np.arange(3), {"seed": 0}),
        fingerprint(np.arange(3.0).reshape(3, 1), {"seed": 0}),
        fingerprint(np.arange(3.0) + 1e-16 + 1e-15, {"seed": 0}),
        fingerprint(np.arange(3.0), {"seed": 1}),
    ]
    assert base not in others
