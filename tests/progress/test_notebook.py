"""Progress below the cell of a notebook, and who gets it."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

import gradine
from gradine.progress import Listener, NotebookDisplay, chosen_listener
from gradine.progress import notebook as shown_by


class Handle:
    """A display with a name, as IPython gives it."""

    def __init__(self) -> None:
        self.bundles: list[dict[str, str]] = []

    def update(self, bundle: dict[str, str], raw: bool) -> None:
        assert raw
        self.bundles.append(bundle)


@pytest.fixture
def ipython(monkeypatch):
    """IPython as a kernel has it: a shell with a kernel, and displays that can be updated."""
    handle, shell = Handle(), SimpleNamespace(kernel=object())

    def display(bundle, raw, display_id):
        assert display_id is True and not handle.bundles  # once: from then on it is updated
        handle.update(bundle, raw)
        return handle

    modules = {name: ModuleType(name) for name in ("ipykernel", "IPython", "IPython.core")}
    modules["IPython.core.getipython"] = ModuleType("IPython.core.getipython")
    modules["IPython.core.getipython"].get_ipython = lambda: shell
    modules["IPython.display"] = ModuleType("IPython.display")
    modules["IPython.display"].display = display
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(shown_by, "REDRAW", 0.0)
    return SimpleNamespace(shell=shell, bundles=handle.bundles)


def test_a_kernel_gets_the_display_and_nobody_else(ipython, monkeypatch):
    assert isinstance(chosen_listener(None), NotebookDisplay)
    given = Listener()
    assert chosen_listener(given) is given
    del ipython.shell.kernel  # IPython on a terminal
    assert type(chosen_listener(None)) is Listener
    monkeypatch.delitem(sys.modules, "ipykernel")
    assert type(chosen_listener(None)) is Listener


def test_phases_are_drawn_in_place(ipython):
    display = NotebookDisplay()
    display.phase_started("sculpt", 1000)
    assert "<progress style" in ipython.bundles[-1]["text/html"]  # nowhere yet
    display.hits_kept(7)
    display.examples_seen(200)
    shown = ipython.bundles[-1]["text/html"]
    assert 'value="200" max="1000"' in shown and "200 of 1,000 examples, 7 kept" in shown
    display.phase_ended("sculpt", {"rows": 5}, False)
    shown = ipython.bundles[-1]
    assert shown["text/plain"].startswith("sculpt           rows 5  (0")
    assert "<progress" not in shown["text/html"]
    display.phase_started("fit_2", 0)
    display.fit_went_on(3.2e-5, list)
    assert "residual 3.2e-05" in ipython.bundles[-1]["text/html"]
    assert "rows 5" in ipython.bundles[-1]["text/html"]  # what was there stays


def test_what_a_phase_says_is_escaped(ipython):
    display = NotebookDisplay()
    display.phase_started("<b>", 0)
    assert "&lt;b&gt;" in ipython.bundles[-1]["text/html"]
    display.phase_ended("spectrum", {"reason": "<script>"}, False)
    assert "<script" not in ipython.bundles[-1]["text/html"]


def test_blocks_that_come_fast_are_not_all_drawn(ipython, monkeypatch):
    monkeypatch.setattr(shown_by, "REDRAW", 1000.0)
    display = NotebookDisplay()
    display._drawn = float("-inf")
    display.phase_started("survey", 100)
    for seen in range(100):
        display.examples_seen(seen)
    assert len(ipython.bundles) == 1
    display.phase_ended("survey", {"inputs": "boolean"}, False)
    assert len(ipython.bundles) == 2 and "boolean" in ipython.bundles[-1]["text/plain"]


def test_learners_choose_it_and_a_listener_turns_it_off(ipython):
    truth = gradine.plant(heads=1, dim=4, scale=2.0, seed=1)
    X = gradine.sample_inputs(600, seq_len=3, dim=4, seed=2)
    gradine.learn(X, truth(X), heads=1, listener=Listener())
    assert ipython.bundles == []
    gradine.learn(X, truth(X), heads=1)
    assert "fit_1" in ipython.bundles[-1]["text/plain"]
    ipython.bundles.clear()
    gradine.learn_by_queries(truth, heads=1)
    assert "verify" in ipython.bundles[-1]["text/plain"]
