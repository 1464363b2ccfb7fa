"""The peers train, and do so fairly."""

from __future__ import annotations

import numpy as np
import pytest

import gradine
from benchmarks.exact.instances import Instance
from benchmarks.exact.rivals import RIVALS, Rivals, run_rivals

torch = pytest.importorskip("torch")

from benchmarks.exact.expand import merge  # noqa: E402
from benchmarks.train import TrainConfig, theta_error_to, train  # noqa: E402
from gradine.students.model import Shape, forward, layer_of, random_start  # noqa: E402

TINY = Instance(1, 3, 4, 2.0)


def data_of(instance, ratio, seed=0):
    truth, X = instance.truth(seed), instance.inputs(instance.examples_at(ratio), seed)
    return truth, (X, truth(X))


@pytest.mark.parametrize("rank", [None, 2])
def test_a_student_is_the_layer_it_says(rank):
    start = random_start(Shape(3, 5, 4, rank), 0.5, torch.Generator().manual_seed(0))
    X = torch.randn(6, 3, 5, dtype=torch.float64)
    Y = forward(X, X.transpose(1, 2).contiguous(), start)
    np.testing.assert_allclose(Y.numpy(), layer_of(start)(X.numpy()), atol=1e-12)
    assert np.std(layer_of(start).theta) == pytest.approx(0.5, rel=0.4)


@pytest.mark.parametrize("optimizer", ["adam", "lbfgs"])
@pytest.mark.parametrize("single_until", [0.0, 1e-4])
def test_students_find_a_small_layer(optimizer, single_until):
    truth, data = data_of(TINY, 8)
    start = random_start(Shape(1, 4, 4), 0.01, torch.Generator().manual_seed(0))
    config = TrainConfig(single_until=single_until)
    run = train(optimizer, data, start, 30.0, error_of=theta_error_to(truth), config=config)
    assert run.solved and run.error <= 1e-6 and run.seconds < 30.0


def test_a_student_out_of_time_stops():
    truth, data = data_of(TINY, 8)
    start = random_start(Shape(1, 4, 4), 0.01, torch.Generator().manual_seed(0))
    run = train("lbfgs", data, start, 0.0, error_of=theta_error_to(truth))
    assert not run.solved and run.evaluations == 1 and run.error > 1e-6


@pytest.mark.parametrize("rank", [None, 1])
def test_merging_finds_copies(rank):
    instance = Instance(2, 3, 4, 2.0, rank)
    truth, data = data_of(instance, 12)
    noise = 1e-6 * np.random.default_rng(0).standard_normal((4, 4, 4))
    theta = np.concatenate([truth.theta, truth.theta]) + noise
    copies = [torch.from_numpy(a) for a in (theta, np.concatenate([truth.w, truth.w]) / 2)]
    merged = layer_of(merge(data, copies, Shape(2, 4, 4, rank)))
    assert gradine.compare(merged, truth).theta_error.max() < 1e-5
    assert gradine.compare(merged, truth).w_error.max() < 1e-4


@pytest.mark.parametrize("rank", [None, 1])
def test_all_peers_are_measured(rank):
    truth, (X, Y) = data_of(Instance(1, 3, 4, 2.0, rank), 8)
    config = Rivals(rates=(1e-2, 3e-2), starts=2)
    found = run_rivals(X, Y, truth, rank, 1.0, 0, config)
    assert found["rate"] in config.rates and found["allowed"] == 10.0
    for name in RIVALS:
        assert found[name]["solved"], name
        assert 0 < found[name]["seconds"] <= found[name]["total"]
    again = run_rivals(X, Y, truth, rank, 1.0, 0, Rivals(starts=1, expand=False), rate=1e-2)
    assert again["rate"] == 1e-2 and "expand" not in again


def test_no_time_no_solution():
    truth, (X, Y) = data_of(TINY, 8)
    found = run_rivals(X, Y, truth, None, 0.0, 0, Rivals())
    assert not any(found[name]["solved"] for name in RIVALS)
    assert all(found[name]["seconds"] is None for name in RIVALS)
