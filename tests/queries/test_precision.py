"""How exact answers are: found from the answers, for every kind of rounding, by few questions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gradine import AttentionLayer, plant
from gradine.queries import (
    Ball,
    Box,
    Noisy,
    Rounded,
    as_oracle,
    precision_of,
    probe_precision,
)
from gradine.queries.asking.rounding import EPS, rounded_to
from gradine.status import NotLearned, Status

SIZES = [(1, 4, 1.0), (4, 16, 6.0), (8, 64, 3.0)]
SCALAR = {"rows": "last", "output": 0}


@pytest.fixture(params=SIZES, ids=lambda size: f"d{size[1]}")
def teacher(request):
    heads, dim, scale = request.param
    return plant(heads=heads, dim=dim, scale=scale, seed=5)


def printed(layer, digits):
    """Answers as a service prints them."""
    return lambda X: np.vectorize(lambda y: float(f"{y:.{digits}g}"))(layer(X))


@pytest.mark.parametrize("options", [{}, SCALAR], ids=["vector", "scalar"])
@pytest.mark.parametrize("seed", range(3))
def test_double_precision(teacher, options, seed):
    oracle = as_oracle(teacher, **options)
    found = probe_precision(oracle, seed=seed)
    assert (found.kind, found.deterministic) == ("float64", True)
    assert 2.0**-54 < found.relative < 1e-14 and found.absolute == 0.0
    assert found.queries == oracle.queries_used <= 17


@pytest.mark.parametrize("options", [{}, SCALAR], ids=["vector", "scalar"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_short_floats(teacher, dtype, options):
    found = probe_precision(as_oracle(Rounded(teacher, dtype=dtype), **options))
    assert (found.kind, found.deterministic) == (dtype, True)
    assert 0.2 * EPS[dtype] < found.relative < EPS[dtype] and found.absolute == 0.0
    assert found.queries <= 17


@pytest.mark.parametrize("options", [{}, SCALAR], ids=["vector", "scalar"])
@pytest.mark.parametrize("decimals", [1, 3, 6, 10])
def test_decimals(teacher, decimals, options):
    found = probe_precision(as_oracle(Rounded(teacher, decimals=decimals), **options))
    assert (found.kind, found.step) == ("decimals", 10.0**-decimals)
    assert found.absolute == pytest.approx(found.step / math.sqrt(12.0)) and found.relative == 0.0
    assert found.queries <= 8


@pytest.mark.parametrize("digits", [3, 6])
def test_significant_digits(teacher, digits):
    found = probe_precision(as_oracle(printed(teacher, digits), dim=teacher.dim))
    assert found.kind == "digits"
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (200, 3, teacher.dim))
    error = printed(teacher, digits)(X) - teacher(X)
    size = float(np.sqrt(np.mean(teacher(X) ** 2)))
    assert 0.5 < found.noise(size) / error.std() < 2.0


@pytest.mark.parametrize("sigma", [1e-2, 1e-6, 1e-12])
def test_noise(teacher, sigma):
    found = probe_precision(as_oracle(Noisy(teacher, sigma)))
    assert (found.kind, found.deterministic) == ("noisy", False)
    assert 0.5 < found.absolute / sigma < 2.0
    assert found.noise(100.0) == found.absolute  # additive: no larger where answers are


def test_noise_that_is_rounded_afterwards(teacher):
    drowned = probe_precision(as_oracle(Rounded(Noisy(teacher, 1e-2), decimals=4)))
    assert drowned.kind == "noisy" and 0.005 < drowned.absolute < 0.02
    hidden = probe_precision(as_oracle(Rounded(Noisy(teacher, 1e-9), decimals=3)))
    assert (hidden.kind, hidden.step) == ("decimals", 1e-3)


def test_noise_that_stays_is_seen_along_the_line(teacher):
    found = probe_precision(as_oracle(Noisy(teacher, 1e-5, same_again=True)))
    assert (found.kind, found.deterministic) == ("coarse", True)
    size = float(
        np.sqrt(
            np.mean(teacher(np.random.default_rng(0).uniform(-0.5, 0.5, (50, 3, teacher.dim))) ** 2)
        )
    )
    assert 0.3 < found.noise(size) / 1e-5 < 3.0


@pytest.mark.parametrize("step", [1 / 77, 1 / 58823])
def test_a_grid_of_an_odd_step_is_coarse(teacher, step):
    """The shortest line stands still there: longer ones are tried."""
    found = probe_precision(as_oracle(lambda X: step * np.rint(teacher(X) / step), teacher.dim))
    assert (found.kind, found.deterministic) == ("coarse", True)
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (50, 3, teacher.dim))
    size = float(np.sqrt(np.mean(teacher(X) ** 2)))
    assert 0.3 < found.noise(size) / (step / math.sqrt(12.0)) < 3.0
    assert found.queries <= 40


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16"])
def test_torch_arithmetic(name):
    """The noise found is that of answers for tokens that the module reads as they are."""
    torch = pytest.importorskip("torch")
    teacher = plant(heads=2, dim=16, rank=8, scale=2.0, seed=5)
    module = teacher.to_torch(dtype=getattr(torch, name))
    exact = AttentionLayer.from_torch(module)
    oracle = as_oracle(module)
    found = probe_precision(oracle)
    assert (found.kind, found.deterministic) == (name, True)
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (100, 3, 16))
    X = found.representable(X)
    Y = exact(X)
    error = oracle.ask(X) - Y
    assert 0.2 < found.noise(float(np.sqrt(np.mean(Y**2)))) / error.std() < 5.0


def test_single_precision_behind_double_is_coarse(teacher):
    torch = pytest.importorskip("torch")

    def source(X):
        return teacher(torch.as_tensor(X, dtype=torch.float32)).double() / 3.0

    found = probe_precision(as_oracle(source, teacher.dim))
    assert found.kind == "coarse" and 1e-8 < found.relative < 1e-6


@pytest.mark.parametrize("limit", [Box(0.0, 0.01), Box(-0.3, 5.0), Box(3.0, 3.1), Ball(0.2)])
def test_probes_stay_within_the_limit(teacher, limit):
    oracle = as_oracle(Rounded(teacher, dtype="float32"), limit=limit)
    assert probe_precision(oracle).kind == "float32"
    assert probe_precision(as_oracle(teacher, limit=limit)).kind == "float64"


def test_layers_of_short_numbers_are_no_short_floats():
    """Averages of tokens: exact arithmetic on round numbers must not look like rounding."""
    mean = AttentionLayer(np.zeros((1, 6, 6)), np.eye(6)[None])
    assert probe_precision(as_oracle(mean)).kind == "float64"
    copying = AttentionLayer(1e4 * np.eye(6)[None], np.eye(6)[None])  # each token looks at one
    assert probe_precision(as_oracle(copying)).kind == "float64"


def test_outputs_that_do_not_move_do_not_matter(teacher):
    def source(X):
        Y = teacher(X)
        Y[:, :, ::2] = 1.0 / 3.0
        return Y

    assert probe_precision(as_oracle(source, teacher.dim)).kind == "float64"


def test_nothing_to_see():
    with pytest.raises(NotLearned) as stopped:
        probe_precision(as_oracle(lambda X: 0.0 * X, dim=3))
    assert stopped.value.status is Status.NOTHING_TO_SEE


def test_from_answers_alone(teacher, rng):
    Y = teacher(rng.standard_normal((5, 3, teacher.dim)))
    assert precision_of(Y).kind == "float64" and precision_of(Y).queries == 0
    assert precision_of(rounded_to(Y, "float16")).kind == "float16"
    assert precision_of(np.round(Y, 4)).step == 1e-4
    # A service that rounds in single precision: the float32 numbers nearest to decimals.
    assert precision_of(rounded_to(np.round(Y, 4), "float32")).step == 1e-4
    assert precision_of(np.round(100.0 * Y)).step == 1.0
    with pytest.raises(ValueError, match="Y has numbers that are not finite"):
        precision_of(np.array([np.nan, 1.0]))


def test_representable_tokens(rng):
    X = rng.standard_normal((3, 2, 4))
    kinds = {"float64": "float64", "float16": "float16", "decimals": "float32", "noisy": "float32"}
    for kind, dtype in kinds.items():
        found = precision_of(np.array([1.0 / 3.0]))
        tokens = type(found)(kind, 0.0, 0.0, 0.0, True, 0).representable(X)
        np.testing.assert_array_equal(tokens, rounded_to(X, dtype))
