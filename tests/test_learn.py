"""The front door: the exact learner first, the six phases where it loses its way, both verified."""

from __future__ import annotations

import numpy as np
import pytest

from gradine import (
    AttentionLayer,
    LearnConfig,
    compare,
    learn,
    learn_examples,
    plant,
    sample_inputs,
)
from gradine.exact.config import ExactConfig
from gradine.examples import ArrayExamples
from gradine.progress import Listener
from gradine.status import Status


def examples_of(layer, n=4000, k=4, kind="boolean", seed=5, noise=0.0):
    X = sample_inputs(n, k, layer.dim, kind=kind, seed=seed)
    Y = layer(X)
    return X, Y + noise * Y.std() * np.random.default_rng(seed).standard_normal(Y.shape)


@pytest.mark.parametrize(
    ("layer", "n", "k", "kind"),
    [
        (plant(3, 8, 3.0, seed=0), 6000, 4, "boolean"),
        (plant(3, 8, 3.0, seed=0), 6000, 4, "gaussian"),
        (plant(2, 8, 3.0, seed=0, out_dim=5), 4000, 3, "boolean"),
        (plant(2, 8, 3.0, seed=0, out_dim=2), 4000, 3, "boolean"),
        (plant(2, 8, 2.0, seed=0, out_dim=12), 4000, 2, "boolean"),
        (plant(2, 8, 3.0, seed=0, constant=True), 4000, 3, "boolean"),
        (plant(2, 8, 3.0, seed=2, constant=True), 4000, 3, "gaussian"),
        (plant(2, 10, 4.0, seed=0, rank=3), 4000, 3, "boolean"),
        (plant(2, 8, 3.0, seed=0), 900, 10, "boolean"),
    ],
    ids=["plain", "gaussian", "narrow", "thin", "two", "biased", "biased-gaussian", "rank", "long"],
)
def test_planted_layer_is_recovered_exactly(layer, n, k, kind):
    fit = learn(*examples_of(layer, n, k, kind))
    assert fit.status is Status.LEARNED and fit.method == "exact" and fit.layer is not None
    match = compare(fit.layer, layer, seq_len=k, kind=kind)
    assert match.theta_error.max() < 1e-8 and match.w_error.max() < 1e-8
    assert match.missing == match.extra == 0
    assert fit.certificate.eps_at(0.05) < 1e-8
    assert max(fit.certificate.bars.theta) < 1e-8


@pytest.mark.parametrize("given", [None, "data.npz", np.ones((4, 3, 2))])
def test_learning_from_what_are_no_examples_is_refused(given):
    with pytest.raises(ValueError, match=r"^examples is .*; expected what gradine\.open_examples"):
        learn_examples(given)


def test_inputs_of_any_other_kind_are_learned_without_the_moments():
    layer = plant(2, 6, 2.0, seed=0)
    X = np.random.default_rng(0).uniform(-1.0, 2.0, (3000, 4, 6))
    fit = learn(X, layer(X))
    assert fit.learned and not fit.phases["spectrum"].applies
    assert "neither" in fit.phases["spectrum"].reason
    assert compare(fit.layer, layer).theta_error.max() < 1e-8


def test_what_sculpt_cannot_do():
    """Sums that vanish, flat attention and few outputs are no conditions of this learner."""
    T, W = plant(2, 8, 3.0, seed=0).theta, plant(2, 8, 3.0, seed=0).w
    for layer in (
        AttentionLayer(T, np.stack([W[0], -W[0]])),
        AttentionLayer(0.05 * T, W),
    ):
        fit = learn(*examples_of(layer), heads=2)
        assert fit.learned and compare(fit.layer, layer).theta_error.max() < 1e-6


def test_noise_is_measured_and_the_heads_get_bars():
    layer = plant(2, 8, 2.0, seed=0)
    fit = learn(*examples_of(layer, 6000, noise=0.1))
    assert fit.status is Status.LEARNED_UP_TO_NOISE and fit.learned
    bars = fit.certificate.bars
    assert bars.noise == pytest.approx(0.1, rel=0.05)
    errors = compare(fit.layer, layer).theta_error
    assert errors.max() < 3 * max(bars.theta) < 0.1
    assert "refine" in fit.phases and fit.phases["refine"].examples > 3000


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_too_few_heads_are_said_and_the_best_fit_is_kept(noise):
    layer = plant(3, 6, 3.0, seed=0)
    fit = learn(*examples_of(layer, noise=noise), heads=2, method="exact")
    assert fit.status is Status.NOT_REALIZABLE and "2 heads" in fit.reason
    assert fit.layer is None and fit.certificate is None
    assert fit.candidate.n_heads == 2 and 0.05 < fit.held_out_error < 1.0


def test_too_many_heads_are_said_under_noise_too():
    truth = plant(2, 6, 2.0, seed=1)
    X = sample_inputs(4000, 4, 6, seed=2)
    noise = 0.05 * np.random.default_rng(0).standard_normal(truth(X).shape)
    fit = learn(X, truth(X) + noise, heads=3, method="exact")
    assert fit.status.code == "learned_up_to_noise" and fit.heads == 2
    assert "2 of 3 heads suffice" in fit.detail
    assert compare(fit.layer, truth).theta_error.max() < 0.05


def test_too_many_heads_are_said_and_not_returned():
    layer = plant(2, 6, 3.0, seed=0)
    fit = learn(*examples_of(layer), heads=3)
    assert fit.learned and fit.heads == 2 and "2 of 3 heads suffice" in fit.reason
    assert compare(fit.layer, layer).extra == 0


@pytest.mark.parametrize("kind", ["noise", "network", "square", "shuffled"])
def test_labels_of_another_kind_are_never_certified(kind):
    layer, rng = plant(1, 6, 3.0, seed=1), np.random.default_rng(0)
    X, Y = examples_of(layer)
    Y = {
        "noise": lambda: rng.standard_normal(Y.shape),
        "network": lambda: np.tanh(X @ rng.standard_normal((6, 6)) * 2.0),
        "square": lambda: (X @ rng.standard_normal((6, 6))) ** 2,
        "shuffled": lambda: Y[rng.permutation(len(Y))],
    }[kind]()
    fit = learn(X, Y)
    assert not fit.learned and fit.certificate is None and fit.layer is None


@pytest.mark.parametrize("heads", ["auto", 2])
def test_equal_and_invisible_heads(heads):
    two = plant(2, 6, 3.0, seed=0)
    for layer in (
        AttentionLayer(two.theta[[0, 0]], two.w),
        AttentionLayer(two.theta, two.w * np.array([1.0, 0.0])[:, None, None]),
    ):
        fit = learn(*examples_of(layer), heads=heads)
        assert fit.learned and fit.heads == 1
        assert compare(fit.layer, layer).theta_error.max() < 1e-8


def test_single_precision_data():
    layer = plant(2, 6, 3.0, seed=1)
    X, Y = examples_of(layer)
    fit = learn(X.astype(np.float32), Y.astype(np.float32))
    assert fit.status is Status.LEARNED
    assert compare(fit.layer, layer).theta_error.max() < 1e-5


def test_low_rank_is_used_where_examples_are_too_few_for_full_heads():
    layer = plant(4, 32, 2.0, rank=4, seed=0)
    X, Y = examples_of(layer, 263, 8, seed=6)
    few = LearnConfig(held_out_share=0.75, certify_examples=180, validation_examples=50)
    fit = learn(X, Y, heads=4, config=few)  # 33 examples; full heads take 34 to mean anything
    assert fit.phases["fit_4"].rank == 4 and fit.learned
    assert compare(fit.layer, layer).theta_error.max() < 1e-8


def nearly_equal_heads(difference):
    two = plant(2, 8, 4.0, seed=0)
    theta = np.stack([two.theta[0], two.theta[0] + difference * two.theta[1]])
    return AttentionLayer(theta, two.w)


def test_bars_are_given_where_heads_differ_a_little():
    layer = nearly_equal_heads(1e-2)
    fit = learn(*examples_of(layer, 4000, 3), heads=2, method="exact")
    bars, match = fit.certificate.bars, compare(fit.layer, layer)
    assert fit.learned and fit.heads == 2 and 0.0 < max(bars.theta) < 1e-10
    assert match.theta_error.max() < 1e-10 and match.w_error.max() < 1e-8


@pytest.mark.parametrize(
    "config",
    [ExactConfig(), ExactConfig(exact_residual=1e-4, steps=12, dense_steps=1)],
    ids=["patient", "hasty"],
)
def test_bars_are_not_given_where_a_fit_is_not_finished(config):
    """Heads that hardly differ reproduce the outputs and are wrong: a small bar would be a lie."""
    layer = nearly_equal_heads(1e-3)
    asked = LearnConfig(exact=config)
    fit = learn(*examples_of(layer, 4000, 3), heads=2, method="exact", config=asked)
    match = compare(fit.layer, layer)
    assert match.function_error < 1e-3 and match.w_error.max() > 0.1
    assert min(fit.certificate.bars.theta) == min(fit.certificate.bars.w) == np.inf
    assert fit.status is Status.LEARNED_FUNCTION and "heads hardly differ" in fit.detail


class Recorder(Listener):
    def __init__(self, stop_after=None):
        self.ran, self.recalled, self.stop_after = [], [], stop_after

    def phase_ended(self, name, figures, recalled):
        (self.recalled if recalled else self.ran).append(name)
        if name == self.stop_after:
            raise KeyboardInterrupt


def test_a_listener_hears_how_far_a_fit_has_come():
    layer, heard = plant(2, 6, 3.0, seed=1), []

    class Ear(Listener):
        def fit_went_on(self, residual, theta):
            heard.append((residual, theta()))

    fit = learn(*examples_of(layer), heads=2, method="exact", listener=Ear())
    assert fit.status is Status.LEARNED
    assert heard[0][0] > 0.1 and heard[-1][0] < 1e-12
    apart = np.abs(heard[-1][1][:, None] - layer.theta).max(axis=(2, 3)).min(axis=0)
    assert apart.max() < 1e-10


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_run_that_is_stopped_twice_continues_to_the_same_answer(tmp_path, noise):
    examples = ArrayExamples(*examples_of(plant(2, 6, 3.0, seed=1), 2000, noise=noise))
    whole = learn_examples(examples, seed=2)
    for done, stop_after in ([], "spectrum"), (["spectrum"], "fit_2"):
        heard = Recorder(stop_after)
        with pytest.raises(KeyboardInterrupt):
            learn_examples(examples, seed=2, records=tmp_path, resume=True, listener=heard)
        assert heard.recalled == done and heard.ran[-1] == stop_after
    heard = Recorder()
    fit = learn_examples(examples, seed=2, records=tmp_path, resume=True, listener=heard)
    assert fit.layer.theta.tobytes() == whole.layer.theta.tobytes()
    assert fit.certificate == whole.certificate and fit.status is whole.status
    assert {"spectrum", "fit_2"} <= set(heard.recalled) and "identify" in heard.ran


def test_auto_turns_to_the_six_phases_where_exact_loses_its_way(monkeypatch):
    from gradine.status import NotLearned

    layer = plant(1, 6, 3.0, seed=1)
    X, Y = examples_of(layer, 8000, 3)
    monkeypatch.setattr(
        "gradine.exact.pipeline._objection",
        lambda *_: NotLearned(Status.NOT_REALIZABLE, "pretended"),
    )
    lost = LearnConfig(exact=ExactConfig(exact_residual=0.0))
    assert learn(X, Y, heads=1, method="exact", config=lost).status is Status.NOT_REALIZABLE
    fit = learn(X, Y, heads=1, config=lost)
    assert fit.learned and fit.method == "sculpt"
    assert {"fit_1", "crude_sum", "polish"} <= set(fit.phases)


def test_error_curve_shows_how_many_examples_determine_the_heads():
    layer = plant(2, 8, 2.0, seed=0)
    config = LearnConfig(exact=ExactConfig(curve_points=5))
    curve = learn(*examples_of(layer), heads=2, config=config).phases["curve"]
    assert (np.diff(curve.examples) > 0).all() and curve.errors[-1] < 1e-8 < curve.errors[0]
    assert (curve.errors[curve.ratio < 1.0] > 1e-3).all()  # fewer equations than unknowns


def test_error_curve_of_heads_of_low_rank():
    layer = plant(2, 8, 2.0, rank=2, seed=0)
    config = LearnConfig(exact=ExactConfig(curve_points=4, rank=2))
    curve = learn(*examples_of(layer), heads=2, method="exact", config=config).phases["curve"]
    assert curve.errors[-1] < 1e-4 < curve.errors[0]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"method": "magic"}, "method is 'magic'; expected 'auto', 'exact', 'sculpt'"),
        ({"config": LearnConfig(exact=ExactConfig(rank=9))}, "rank is 9; expected between 1 and 6"),
        ({"config": LearnConfig(held_out_share=0.9)}, "none is left to fit"),
        ({"config": ExactConfig()}, "config is of type ExactConfig; expected LearnConfig"),
        ({"seed": 1.5}, "seed is 1.5; expected a whole number"),
        ({"seed": -1}, "seed is -1; expected a whole number"),
        ({"heads": 6}, "too few examples for the unknowns"),
    ],
)
def test_requests_that_make_no_sense_are_refused(change, complaint):
    X, Y = examples_of(plant(1, 6, 3.0, seed=1), 6)
    with pytest.raises(ValueError, match=complaint):
        learn(X, Y, **change)


@pytest.mark.parametrize(
    ("heads", "dim", "k", "out_dim"), [(1, 1, 2, 4), (1, 2, 2, 5), (1, 2, 3, 6), (2, 4, 6, 20)]
)
def test_tiny_dimensions_are_learned(heads, dim, k, out_dim):
    layer = plant(heads, dim, 3.0, seed=1, out_dim=out_dim)
    fit = learn(*examples_of(layer, 1500, k, "gaussian"))
    assert fit.status is Status.LEARNED and fit.heads == heads
    match = compare(fit.layer, layer, seq_len=k, kind="gaussian")
    assert match.theta_error.max() < 1e-8 and match.w_error.max() < 1e-8


def test_outputs_that_are_zero():
    X, _ = examples_of(plant(1, 6, 3.0, seed=1), 2000)
    fit = learn(X, 0.0 * X)
    assert fit.status is Status.NOTHING_TO_SEE and not fit.learned


@pytest.mark.parametrize(("scale", "size"), [(1e-12, 1), (1e-170, 17), (1e-300, 30), (1e-318, 3)])
def test_outputs_too_small_to_be_squared_are_not_called_zero(scale, size):
    X, Y = examples_of(plant(1, 6, 3.0, seed=1), 2000)
    with pytest.raises(
        ValueError, match=rf"outputs have size .*e-{size}.*; expected between 1e-10"
    ):
        learn(X, scale * Y)


@pytest.mark.parametrize(("dim", "k", "seed"), [(8, 32, 1), (3, 40, 2)])
def test_long_sequences_have_no_phantom_heads(dim, k, seed):
    """A second head of nothing makes these fits exact where one head has found no way."""
    layer = plant(1, dim, 2.0, seed=seed)
    X = sample_inputs(2000, seq_len=k, dim=dim, seed=3)
    fit = learn(X, layer(X))
    assert fit.status is Status.LEARNED and fit.heads == 1 and fit.detail == ""
    assert max(fit.certificate.bars.theta) < 1e-10
    assert compare(fit.layer, layer).theta_error.max() < 1e-10


@pytest.mark.parametrize("out_dim", [1, 2])
def test_noisy_labels_of_few_outputs(out_dim):
    layer = plant(2, 8, 3.0, seed=0, out_dim=out_dim)
    X = sample_inputs(6000, seq_len=4, dim=8, seed=9)
    Y = layer(X)
    Y = Y + 0.1 * np.sqrt(np.mean(Y**2)) * np.random.default_rng(0).standard_normal(Y.shape)
    fit = learn(X, Y, heads=2, method="exact")
    assert fit.status is Status.LEARNED_UP_TO_NOISE
    errors = compare(fit.layer, layer)
    bars = np.array(fit.certificate.bars.theta)[errors.order]
    assert (errors.theta_error < 4.0 * bars).all() and bars.max() < 0.05


def test_more_heads_than_coordinates_are_not_blamed_on_the_examples():
    layer = plant(5, 3, 3.0, seed=0)
    X = sample_inputs(3000, seq_len=5, dim=3, seed=1, kind="gaussian")
    fit = learn(X, layer(X), method="exact")
    assert fit.status is Status.NOT_REALIZABLE
    assert "3 heads, the most that are tried at this dimension" in fit.detail


def test_a_rank_that_is_too_small_is_named():
    layer = plant(1, 8, 3.0, seed=0)
    X = sample_inputs(2000, seq_len=4, dim=8, seed=1)
    config = LearnConfig(exact=ExactConfig(rank=2))
    fit = learn(X, layer(X), heads=1, method="exact", config=config)
    assert fit.status is Status.NOT_REALIZABLE and "1 head of rank 2" in fit.detail


@pytest.mark.parametrize(
    "settings",
    [
        {"rank": 2.5},
        {"rank": "2"},
        {"rank": 0},
        {"examples_per_bound": 0.0},
        {"examples_per_bound": float("nan")},
        {"curve_points": -2},
        {"memory_share": 0.0},
        {"bar_samples": 0},
    ],
)
def test_settings_that_make_no_sense_are_named(settings):
    ((name, value),) = settings.items()
    with pytest.raises(ValueError, match=f"^{name} is {value!r}; expected"):
        ExactConfig(**settings)


def test_gaussian_tokens_of_any_covariance_have_moments():
    layer = plant(3, 6, 2.0, seed=1)
    draw = np.random.default_rng(2)
    X = sample_inputs(12_000, seq_len=4, dim=6, seed=3, kind="gaussian")
    X = X @ (np.eye(6) + 0.2 * draw.standard_normal((6, 6)))
    fit = learn(X, layer(X), method="exact")
    assert fit.status is Status.LEARNED and fit.heads == 3
    assert fit.phases["spectrum"].applies and fit.phases["spectrum"].heads >= 3
    other = learn(X**3, layer(X**3), method="exact")
    assert "neither uniform on +-1 nor standard Gaussian" in other.phases["spectrum"].reason
