"""What can be asked: callables, layers, files, functions by name."""

from __future__ import annotations

import functools
import sys

import numpy as np
import pytest

from gradine import AttentionLayer
from gradine.queries import OracleConfig, Rounded, as_oracle


def test_a_layer_and_its_file_answer_alike(biased_layer, questions, tmp_path):
    path = tmp_path / "layer.safetensors"
    biased_layer.save(path)
    expected = biased_layer(questions)
    for source in (biased_layer, path, str(path), Rounded(path, decimals=15)):
        oracle = as_oracle(source)
        assert (oracle.dim, oracle.out_dim) == (5, 4)
        np.testing.assert_allclose(oracle.ask(questions), expected, rtol=0, atol=1e-15)
    assert str(path) in repr(as_oracle(path))


def test_files_that_are_none(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no\.safetensors: no such file"):
        as_oracle(tmp_path / "no.safetensors")
    (tmp_path / "notes.txt").write_text("words")
    with pytest.raises(ValueError, match=r"notes\.txt: not a gradine layer file"):
        as_oracle(str(tmp_path / "notes.txt"))
    for text in ("layer", "a b:c", "module:", ":function", "C:\\layer", tmp_path / "a:b"):
        with pytest.raises(ValueError, match=r"expected a layer file \(\.safetensors\) or module:"):
            as_oracle(text, dim=3)


def test_callables_of_every_sort(layer, questions):
    class Service:
        def __call__(self, X):
            return layer(X)

        def answer(self, X):
            return layer(X).tolist()

    def scaled(X, factor):
        return factor * layer(X)

    for source in (Service(), Service().answer, functools.partial(scaled, factor=1.0), layer):
        np.testing.assert_array_equal(as_oracle(source, dim=5).ask(questions), layer(questions))


@pytest.mark.parametrize("source", [3, None, np.ones(3), dict, AttentionLayer])
def test_what_cannot_be_asked(source):
    with pytest.raises(ValueError, match=r"oracle is .*; expected a callable, a torch module"):
        as_oracle(source, dim=3)


def test_dim_is_needed_where_the_source_does_not_tell(layer):
    with pytest.raises(ValueError, match="dim is not given; expected the coordinates of a token"):
        as_oracle(lambda X: X)
    with pytest.raises(ValueError, match="dim is 0; expected a whole number of at least 1"):
        as_oracle(lambda X: X, dim=0)
    with pytest.raises(ValueError, match="layer: dim is 4; expected 5"):
        as_oracle(layer, dim=4)


@pytest.mark.parametrize("options", [{}, {"rows": "last"}, {"rows": "last", "output": 2}])
def test_one_sequence_at_a_time(layer, questions, options):
    seen = []

    def source(x):
        seen.append(x.shape)
        return layer(x)

    config = OracleConfig(one_at_a_time=True)
    oracle = as_oracle(source, dim=5, config=config, **options)
    expected = as_oracle(layer, **options).ask(questions)
    np.testing.assert_allclose(oracle.ask(questions), expected, rtol=0, atol=1e-14)
    assert seen == [(3, 5)] * 10 and oracle.queries_used == 10


def test_one_sequence_at_a_time_and_nothing_but_a_number(layer, questions):
    config = OracleConfig(one_at_a_time=True, name="box")
    oracle = as_oracle(lambda x: float(layer(x)[-1, 0]), dim=5, rows="last", config=config)
    Y = oracle.ask(questions)
    np.testing.assert_allclose(Y[:, 0, 0], layer(questions)[:, -1, 0], rtol=0, atol=1e-14)
    with pytest.raises(ValueError, match=r"^box: answer has shape \(\); expected \(3, d_out\)$"):
        as_oracle(lambda x: 1.0, dim=5, config=config).ask(questions)
    message = r"^box: answer has shape \(1, 3, 4\); expected \(3, d_out\), \(d_out\) or a number$"
    with pytest.raises(ValueError, match=message):
        as_oracle(lambda x: layer(x)[None], dim=5, rows="last", config=config).ask(questions)


def test_options_for_callables_are_for_callables(layer):
    for config in (OracleConfig(one_at_a_time=True), OracleConfig(tensors="float32")):
        with pytest.raises(ValueError, match="one_at_a_time and tensors are for callables"):
            as_oracle(layer, config=config)


def write_module(folder, name, text):
    (folder / f"{name}.py").write_text(text)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory; modules that are imported from it are forgotten again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_function_by_its_name(here, questions):
    write_module(here, "neighbour_q", "factor = 2.0")
    write_module(
        here,
        "service_q",
        "def answer(X):\n    from neighbour_q import factor\n    return factor * X\n"
        "class Box:\n    answer = staticmethod(answer)\n"
        "import gradine\nlayer = gradine.plant(heads=1, dim=5)\n",
    )
    np.testing.assert_array_equal(
        as_oracle("service_q:answer", dim=5).ask(questions), 2 * questions
    )
    np.testing.assert_array_equal(
        as_oracle("service_q:Box.answer", 5).ask(questions), 2 * questions
    )
    assert as_oracle("service_q:layer").dim == 5


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module_q:f", "no module no_such_module_q in the working directory, and none"),
        ("broken_q:f", r"importing broken_q failed \(ZeroDivisionError: division by zero\)"),
        ("needs_q:f", r"importing needs_q failed \(ModuleNotFoundError: No module named 'absent"),
        ("plain_q:g", "plain_q has no g"),
        ("plain_q:f.g", r"plain_q has no f\.g"),
        ("plain_q:Kind", "oracle is the class Kind; expected a callable"),
        ("plain_q:path", "is 'layer.safetensors'; expected something that can be called"),
    ],
)
def test_functions_that_are_not_there(here, name, message):
    write_module(here, "broken_q", "1 / 0")
    write_module(here, "needs_q", "import absent_q")
    write_module(
        here, "plain_q", "path = 'layer.safetensors'\ndef f(X): return X\nclass Kind: pass\n"
    )
    with pytest.raises(ValueError, match=message) as refusal:
        as_oracle(name, dim=3)
    assert "\n" not in str(refusal.value)
