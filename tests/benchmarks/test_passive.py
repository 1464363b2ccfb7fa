"""The benchmark of wide layers, on a layer that is not wide; and how it reads text."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gradine
from benchmarks import passive, sentences
from benchmarks.minilm import model_folder

HEADS, RANK, DIM, SEQ_LEN, EXAMPLES, FRESH = 2, 2, 8, 4, 900, 50


@pytest.fixture
def small(monkeypatch):
    """A planted layer in the place of MiniLM's; counts how often examples were drawn."""
    pytest.importorskip("torch")
    drawn = []

    def examples(layer, text):
        drawn.append((layer, text))
        truth = gradine.plant(HEADS, DIM, 2.0, rank=RANK, seed=layer)
        X = gradine.sample_inputs(EXAMPLES + FRESH, SEQ_LEN, DIM, kind="gaussian", seed=layer)
        return truth, X, truth(X)

    monkeypatch.setattr(passive, "examples", examples)
    sizes = {"HEADS": HEADS, "RANK": RANK, "SEQ_LEN": SEQ_LEN, "EXAMPLES": EXAMPLES}
    for name, value in {**sizes, "FRESH": FRESH}.items():
        monkeypatch.setattr(passive, name, value)
    return drawn


def test_ours_and_the_students_are_measured_once(small, tmp_path, capsys):
    out = tmp_path / "passive.md"
    arguments = ["--layers", "1", "--minutes", "0.02", "--out", str(out)]
    passive.main(arguments)
    assert len(small) == 3  # ours, Adam and L-BFGS
    (record,) = json.loads(out.with_suffix(".json").read_text())
    assert record["layer"] == 1 and record["ours"]["error"] < 1e-6
    for name in ("Adam", "L-BFGS"):
        assert 0.0 < record[name]["error"] < 2.0 and record[name]["seconds"] < 10.0
        assert record[name]["steps"] > 1
    assert "| gaussian | 1 |" in out.read_text() and "2 of 2" in out.read_text()
    passive.main(arguments)
    assert len(small) == 3
    arguments[3] = "0.01"
    passive.main(arguments)  # those that trained for longer still stand
    assert len(small) == 3
    arguments[3] = "0.03"
    passive.main([*arguments, "--peers", "Adam"])
    assert len(small) == 4


def test_layers_that_do_not_exist_are_refused(tmp_path):
    with pytest.raises(SystemExit):
        passive.main(["--layers", "6", "--out", str(tmp_path / "passive.md")])


def test_students_that_do_not_exist_are_refused(tmp_path):
    with pytest.raises(SystemExit):
        passive.main(["--peers", "Muon", "--out", str(tmp_path / "passive.md")])


def test_words_are_cut_into_the_longest_pieces():
    vocabulary = {"un": 0, "##do": 1, "##able": 2, "undo": 3, ".": 4}
    assert list(sentences.pieces("Undoable. undone un.", vocabulary)) == [3, 2, 4, 0, 4]


@pytest.mark.skipif(model_folder() is None, reason="the model is not installed")
def test_hidden_states_are_those_of_the_model():
    X = sentences.hidden_states(1, 3, 5)
    assert X.shape == (3, 5, 384) and np.isfinite(X).all()
    # A layer norm came last: undone, every token has mean 0 and variance 1.
    name = "encoder.layer.0.output.LayerNorm"
    bare = (X - sentences._tensor(f"{name}.bias")) / sentences._tensor(f"{name}.weight")
    assert np.abs(bare.mean(axis=2)).max() < 1e-9
    assert np.abs(bare.var(axis=2) - 1.0).max() < 1e-9
    assert not np.allclose(X, sentences.hidden_states(0, 3, 5))
