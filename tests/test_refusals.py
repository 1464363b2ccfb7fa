"""What is refused and what is broken, told apart: by who raised it, also in another process."""

from __future__ import annotations

import numpy as np
import pytest

from gradine import refusals
from gradine.checks import whole_number
from gradine.engine import open_engine
from gradine.examples import BadBlock, BlockError
from gradine.refusals import is_refusal, refuses_too

OURS = """
import json
import numpy as np

def refuses():
    raise ValueError("heads is 0; expected at least 1")

def adds_what_does_not_fit():
    return np.ones(2) + np.ones(3)

def inverts_what_has_no_inverse():
    return np.linalg.inv(np.zeros((2, 2)))

def raises_again():
    try:
        return int("two")
    except ValueError:
        raise

def says_what_it_means():
    try:
        json.loads("[")
    except ValueError as error:
        raise ValueError(f"a.json: not JSON ({error})") from error

def cleans_up():
    try:
        refuses()
    finally:
        np.ones(1)

def looks_up():
    raise KeyError("nothing")
"""


def raised(name: str, module: str = "gradine.planted") -> Exception:
    """What a function of `OURS` raises in a module of that name."""
    space = {"__name__": module}
    exec(OURS, space)
    with pytest.raises(Exception) as caught:
        space[name]()
    return caught.value


@pytest.mark.parametrize("name", ["refuses", "says_what_it_means", "cleans_up"])
def test_what_we_raise_is_a_refusal(name):
    assert is_refusal(raised(name))


@pytest.mark.parametrize(
    "name",
    ["adds_what_does_not_fit", "inverts_what_has_no_inverse", "raises_again", "looks_up"],
)
def test_what_others_raise_is_none(name):
    assert not is_refusal(raised(name))


def test_nobody_else_refuses_for_us_but_who_is_added(monkeypatch):
    monkeypatch.setattr(refusals, "_packages", {"gradine"})
    assert not is_refusal(raised("refuses", "gradinette.own"))
    refuses_too("gradinette.plugin")
    assert is_refusal(raised("refuses", "gradinette.own"))


def test_errors_of_our_own_classes_are_refusals_wherever_they_come_from():
    assert is_refusal(BlockError("data.npz", BadBlock(0, 2, "Y has a NaN")))
    assert not is_refusal(ValueError("nobody raised it"))


def test_it_is_known_of_other_processes():
    with open_engine("pool", 1) as engine:
        for work, task, refused in [(whole_number, ("n", 0, 1), True), (np.ones, (-1,), False)]:
            with pytest.raises(ValueError) as caught:
                list(engine.run(work, [task]))
            assert is_refusal(caught.value) is refused
