"""Settings are checked when they are made, all in one way."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, is_dataclass

import numpy as np
import pytest

from gradine import ExactConfig, LearnConfig, OracleConfig, QueryConfig, SculptConfig, learn
from gradine.atlas import MapConfig
from gradine.exact.deflate import DeflateConfig
from gradine.exact.finish import FinishConfig
from gradine.exact.mixing import MixConfig
from gradine.exact.moments import MomentConfig
from gradine.features.design import RidgeConfig
from gradine.query import learn_by_queries
from gradine.settings import Settings
from gradine.students.config import StudentConfig

ALL = [
    DeflateConfig, ExactConfig, FinishConfig, LearnConfig, MapConfig, MixConfig, MomentConfig,
    OracleConfig, QueryConfig, RidgeConfig, SculptConfig, StudentConfig,
]  # fmt: skip
FIELDS = [(kind, field.name) for kind in ALL for field in fields(kind)]


@pytest.mark.parametrize(("kind", "name"), FIELDS, ids=lambda part: getattr(part, "__name__", part))
def test_no_field_takes_what_it_is_not(kind, name):
    value = getattr(kind(), name)
    wrong = [object(), float("nan"), {}, []]
    if not isinstance(value, str) and name not in ("tensors", "name"):
        wrong.append("x")
    if not is_dataclass(value) and not isinstance(value, bool) and name != "constant":
        wrong.append(True)
    for given in wrong:
        with pytest.raises(ValueError, match=rf"^{name} is .*; expected .*"):
            kind(**{name: given})
    assert getattr(kind(**{name: value}), name) == value


@pytest.mark.parametrize(
    ("kind", "name", "value", "expected"),
    [
        (SculptConfig, "first_leg", -1, "a whole number of at least 1"),
        (SculptConfig, "screened_share", -3, "a number above 0, at most 1"),
        (LearnConfig, "confidence", "x", "a number between 0 and 1"),
        (LearnConfig, "confidence", 1.5, "a number between 0 and 1"),
        (LearnConfig, "exact", {"rank": 2}, "ExactConfig"),
        (LearnConfig, "certify_examples", 0, "a whole number of at least 1"),
        (LearnConfig, "memory", 0, "a whole number of at least 1, or None"),
        (LearnConfig, "time_budget", 0.0, "a finite number above 0, or None"),
        (LearnConfig, "bad_blocks", "keep", "'stop' or 'skip'"),
        (ExactConfig, "examples_per_bound", 0.5, "at least 1, as fewer examples"),
        (ExactConfig, "low_rank_levels", (1.0, -1.0), "a tuple, each a finite number above 0"),
        (DeflateConfig, "probe_rounds", (5, 8, 9), "a tuple of 2, each a whole number"),
        (QueryConfig, "verify_queries", 1.5, "a whole number of at least 1"),
    ],
)
def test_a_refusal_says_what_came_and_what_was_expected(kind, name, value, expected):
    with pytest.raises(ValueError) as refused:
        kind(**{name: value})
    assert str(refused.value).startswith(f"{name} is {value!r}; expected {expected}")


def test_numbers_of_numpy_are_kept_as_plain_ones():
    config = ExactConfig(rank=np.int64(3), plenty=np.float32(2), low_rank_levels=[1, 0.5])  # pyright: ignore[reportArgumentType]
    assert json.dumps([asdict(config)[name] for name in ("rank", "plenty", "low_rank_levels")]) == (
        "[3, 2.0, [1.0, 0.5]]"
    )


def test_a_number_without_a_rule_is_a_mistake_of_who_wrote_it():
    @dataclass(frozen=True)
    class Careless(Settings):
        steps: int = 3

    with pytest.raises(TypeError, match="expected one that says which numbers are meant"):
        Careless()


def test_an_empty_dict_is_no_config():
    X = np.ones((10, 2, 3))
    with pytest.raises(ValueError, match="config is of type dict; expected LearnConfig"):
        learn(X, X, config={})  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="config is of type dict; expected QueryConfig"):
        learn_by_queries(lambda X: X, dim=3, rank=1, config={})  # pyright: ignore[reportArgumentType]
