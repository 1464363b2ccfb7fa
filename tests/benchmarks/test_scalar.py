"""The comparison of learners of one visible number runs, and its opponent is what it says."""

from __future__ import annotations

import pytest

import gradine
from benchmarks import scalar
from benchmarks.poles import learn_by_poles
from benchmarks.store import Store
from gradine.queries import as_oracle
from gradine.queries.scalar.pairs import published_count


@pytest.mark.parametrize("heads", [1, 2])
def test_poles_find_few_heads_with_the_published_number_of_queries(heads):
    layer = gradine.plant(heads, 4, scale=2.0, seed=1)
    longest = []

    def source(X):
        longest.append(X.shape[1])
        return layer(X)

    oracle = as_oracle(source, 4, rows="last", output=2)
    found = learn_by_poles(oracle, heads, seed=0)
    truth = gradine.AttentionLayer(layer.theta, layer.w[:, :, [2]])
    assert gradine.compare(found, truth).theta_error.max() < 1e-6
    assert oracle.queries_used == published_count(heads, 4)
    assert max(longest) == 2 * heads + 1


def test_a_row_is_measured_once(tmp_path, capsys):
    store = Store(tmp_path / "scalar.jsonl", scalar.MEASURED_BY)
    line = scalar.run_row(5, 6, range(1), store)
    assert len(line) == len(scalar.HEADER)
    assert line[5:7] == ["1 of 1", "1 of 1"] and line[10] == "0 of 1"
    assert float(line[3]) < 1.0 < float(line[4])
    assert scalar.run_row(5, 6, range(1), Store(store.path, scalar.MEASURED_BY)) == line
    assert "None." in scalar.page([line], store.build, [])


def test_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(scalar, "SCRATCH", tmp_path)
    assert scalar.main(["--seeds", "1", "--dims", "6", "--heads", "2"]) == 0
    assert (tmp_path / "scalar.md").read_text() == capsys.readouterr().out[:-1]
