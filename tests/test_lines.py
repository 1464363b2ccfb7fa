"""Records line by line: whole ones are read, torn ones are passed over."""

from __future__ import annotations

import pytest

from gradine.files import OutputError
from gradine.lines import JsonLines


def test_what_is_written_is_read(tmp_path):
    lines = JsonLines(tmp_path / "a.jsonl")
    assert lines.read() == []
    assert lines.append({"key": (1, "x")}) == {"key": [1, "x"]}
    lines.append({"key": [2]})
    assert JsonLines(tmp_path / "a.jsonl").read() == [{"key": [1, "x"]}, {"key": [2]}]


@pytest.mark.parametrize("torn", [b'{"key": [3', b"\xff\xfe", b"[1, 2]", b"3"])
def test_a_torn_line_is_passed_over_and_written_after(tmp_path, torn):
    lines = JsonLines(tmp_path / "a.jsonl")
    lines.append({"seed": 0})
    with lines.path.open("ab") as file:
        file.write(torn)
    assert lines.read() == [{"seed": 0}]
    lines.append({"seed": 1})
    assert lines.read() == [{"seed": 0}, {"seed": 1}]


def test_where_it_cannot_be_written_the_file_is_named(tmp_path):
    with pytest.raises(OutputError, match=r"cannot write .*missing"):
        JsonLines(tmp_path / "missing" / "a.jsonl").append({})
