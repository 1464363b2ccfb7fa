"""Learners from outside: one file, one registration, and all that the others have."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gradine
from gradine import plugins
from gradine.cli import main
from gradine.learners import LEARNERS, Learner, Request, learners_of, methods, register
from gradine.refusals import is_refusal
from gradine.runs import read_result
from gradine.status import NotLearned, Status

PLUGIN = """
import numpy as np
from gradine.attention_functions import SIGMOID, AttentionFunction
from gradine.attention_functions import register as register_function
from gradine.learners import Learner, register

def flat(request):
    X, Y = request.data.sample(2000, request.seed)
    means = np.broadcast_to(X.mean(axis=1, keepdims=True), X.shape)
    w, *_ = np.linalg.lstsq(means.reshape(-1, X.shape[-1]), Y.reshape(-1, Y.shape[-1]))
    return request.layer(np.zeros((1, X.shape[-1], X.shape[-1])), w[np.newaxis])

def objection(data, seen, heads, config):
    return "heads is 2; the learner toy_flat knows one" if heads == 2 else ""

register(Learner("toy_flat", flat, objection))
register_function(AttentionFunction(
    "toy_softplus",
    weights=lambda z: np.logaddexp(0.0, z) / z.shape[-1],
    slopes=lambda z, weights: SIGMOID(z),
))
"""

PICKY = """
from gradine.learners import Learner, register

def refuse(request):
    raise ValueError("no; expected yes")

register(Learner("toy_picky", refuse))
"""


@pytest.fixture
def installed(tmp_path, monkeypatch) -> Callable[[str, str], None]:
    """Installs a module as a package does it."""

    def install(name: str, source: str) -> None:
        (tmp_path / f"{name}.py").write_text(source)
        about = tmp_path / f"{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[{plugins.GROUP}]\n{name} = {name}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()

    return install


def calm(dim: int = 6) -> gradine.AttentionLayer:
    w = np.random.default_rng(0).standard_normal((1, dim, dim))
    return gradine.AttentionLayer(np.zeros((1, dim, dim)), w)


def examples(layer: gradine.AttentionLayer) -> tuple[np.ndarray, np.ndarray]:
    X = gradine.sample_inputs(1500, seq_len=3, dim=6, seed=1)
    return X, layer(X)


def test_a_learner_of_an_installed_package_learns(installed):
    installed("toy_package", PLUGIN)
    fit = gradine.learn(*examples(calm()), method="toy_flat")
    assert fit.status is Status.LEARNED and fit.method == "toy_flat"
    assert fit.certificate is not None and fit.layer is not None
    assert gradine.compare(fit.layer, calm()).w_error.max() < 1e-12
    # It is judged as all are: what it is not for is not learned.
    sharp = gradine.plant(heads=1, dim=6, scale=3.0, seed=2)
    failed = gradine.learn(*examples(sharp), method="toy_flat")
    assert failed.status is Status.NOT_VERIFIED and failed.layer is None
    with pytest.raises(ValueError, match="heads is 2; the learner toy_flat knows one"):
        gradine.learn(*examples(calm()), heads=2, method="toy_flat")
    assert learners_of("auto") == (LEARNERS["exact"], LEARNERS["sculpt"])


def test_an_attention_function_of_an_installed_package_is_learned(installed, tmp_path):
    installed("toy_package", PLUGIN)
    truth = gradine.plant(heads=2, dim=6, scale=2.0, seed=1, attention="toy_softplus")
    config = gradine.LearnConfig(exact=gradine.ExactConfig(attention="toy_softplus"))
    fit = gradine.learn(*examples(truth), heads=2, config=config)
    assert fit.status is Status.LEARNED and fit.layer is not None
    assert gradine.compare(fit.layer, truth).theta_error.max() < 1e-9
    truth.save(tmp_path / "layer.safetensors")
    assert (
        gradine.AttentionLayer.load(tmp_path / "layer.safetensors").function.name == "toy_softplus"
    )


def test_the_command_line_lists_it_and_runs_it(installed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    # Help is of what is installed when it is shown, not when the command was loaded.
    assert main(["learn", "--help"]) == 0
    assert "auto, exact, sculpt." in " ".join(capsys.readouterr().out.split())
    installed("toy_package", PLUGIN)
    assert main(["learn", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "auto, exact, sculpt, toy_flat." in told
    X, Y = examples(calm())
    np.savez("data.npz", X=X, Y=Y)
    assert main(["learn", "data.npz", "--method", "toy_flat", "--out", "run"]) == 0
    assert read_result(Path("run"))["method"] == "toy_flat"
    assert "toy_flat" in Path("run", "report.html").read_text()


def test_what_a_package_refuses_is_bad_input(installed, tmp_path, monkeypatch, capsys):
    installed("picky_package", PICKY)
    monkeypatch.chdir(tmp_path)
    X, Y = examples(calm())
    np.savez("data.npz", X=X, Y=Y)
    assert main(["learn", "data.npz", "--method", "toy_picky", "--out", "run"]) == 2
    assert "gradine: data.npz: no; expected yes" in capsys.readouterr().err


def test_a_package_that_fails_is_left_out(installed):
    installed("broken_package", "raise RuntimeError('no such luck')")
    with (
        pytest.warns(UserWarning, match="plugin 'broken_package' .* cannot be loaded: no such"),
        pytest.raises(ValueError, match="method is 'guess'; expected 'auto', 'exact'"),
    ):
        gradine.learn(*examples(calm()), method="guess")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plugins.load_plugins()  # it is tried once


def test_a_learner_may_give_up_and_names_are_taken_once():
    def gives_up(request: Request) -> gradine.AttentionLayer:
        raise NotLearned(Status.TOO_NOISY, "it said so")

    register(Learner("toy_quitter", gives_up))
    fit = gradine.learn(*examples(calm()), method="toy_quitter")
    assert fit.status is Status.TOO_NOISY and fit.detail == "it said so"
    assert methods()[-1] == "toy_quitter"
    for taken in ("auto", "exact", "toy_quitter"):
        with pytest.raises(ValueError, match=f"learner {taken!r} is registered already"):
            register(Learner(taken, gives_up))


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "gave back None; expected an AttentionLayer"),
        (3, "gave back 3; expected an AttentionLayer"),
        (calm(5), "gave back AttentionLayer.*; expected one for tokens of 6 coordinates and"),
    ],
)
def test_an_answer_that_is_none_is_the_fault_of_the_learner(answer, told):
    register(Learner("toy_slip", lambda request: answer))
    with pytest.raises(ValueError, match=f"learner 'toy_slip' {told}") as refused:
        gradine.learn(*examples(calm()), method="toy_slip")
    assert is_refusal(refused.value)


@pytest.mark.parametrize(
    ("learner", "told"),
    [
        (Learner("", lambda request: calm()), "learner is named ''; expected letters"),
        (Learner("two words", lambda request: calm()), "learner is named 'two words'; expected"),
        (Learner("toy", 3), "learn of learner 'toy' is 3; expected a function"),  # pyright: ignore[reportArgumentType]
        (calm, "learner is .*; expected Learner"),
    ],
)
def test_what_is_no_learner_is_not_registered(learner, told):
    with pytest.raises(ValueError, match=told):
        register(learner)
