"""The six phases, end to end: planted layers are recovered, and what is not learned is said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gradine
from gradine import AttentionLayer, LearnConfig, compare, plant, sample_inputs
from gradine.examples import ArrayExamples, make_split
from gradine.progress import Listener
from gradine.records import RecordError
from gradine.sculpt import SculptConfig
from gradine.status import Status


def learn(X, Y, **options):
    return gradine.learn(X, Y, **{"method": "sculpt", **options})


def learn_examples(examples, **options):
    return gradine.learn_examples(examples, **{"method": "sculpt", **options})


def examples_of(layer, n, k, kind="boolean", seed=5):
    X = sample_inputs(n, k, layer.dim, kind=kind, seed=seed)
    return X, layer(X)


@pytest.fixture(scope="module")
def small():
    """One head at dim 6: the quickest instance that goes through every phase."""
    layer = plant(1, 6, 3.0, seed=1)
    return layer, *examples_of(layer, 8000, 3)


@pytest.mark.parametrize(
    ("layer", "n", "k", "kind"),
    [
        (plant(2, 8, 3.0, seed=0), 30_000, 3, "boolean"),
        (plant(2, 8, 3.0, seed=0), 30_000, 3, "gaussian"),
        (plant(2, 8, 3.0, seed=0, out_dim=5), 30_000, 3, "boolean"),
        (plant(2, 8, 3.0, seed=0, out_dim=12), 30_000, 2, "boolean"),
        (plant(2, 8, 3.0, seed=0, constant=True), 30_000, 3, "boolean"),
        (plant(2, 8, 3.0, seed=2, constant=True), 30_000, 3, "gaussian"),
        (plant(1, 8, 3.0, seed=0, constant=True), 15_000, 3, "boolean"),
        (plant(2, 10, 4.0, seed=0, rank=3), 40_000, 3, "boolean"),
    ],
    ids=["plain", "gaussian", "narrow", "wide", "biased", "biased-gaussian", "biased-one", "rank"],
)
def test_planted_layer_is_recovered(layer, n, k, kind):
    fit = learn(*examples_of(layer, n, k, kind))
    assert fit.status is Status.LEARNED and fit.layer is not None
    match = compare(fit.layer, layer, seq_len=k, kind=kind)
    assert match.theta_error.max() < 1e-8 and match.w_error.max() < 1e-8
    assert match.missing == match.extra == 0
    assert fit.layer.constant == layer.constant
    # The theorem's own answer is close, and apart from the polished one.
    assert fit.theorem is not None
    assert 1e-8 < compare(fit.theorem, layer, seq_len=k, kind=kind).function_error < 0.1
    assert fit.certificate is not None and fit.certificate.eps_at(0.05) < 1e-8


def test_golden_run():
    """The second row of the benchmark table, whole: figures of each phase are as they should."""
    layer = plant(2, 10, 4.0, seed=0)
    X, Y = examples_of(layer, 40_000, 3)
    fit = learn(X, Y, seed=1)
    assert list(fit.phases)[:3] == ["crude_sum", "sculpt", "proxy"]
    assert list(fit.phases)[-3:] == ["span", "search", "polish"]
    total = layer.w.sum(axis=0)

    def error(estimate):
        return np.linalg.norm(estimate - total) / np.linalg.norm(total)

    crude, proxy = fit.phases["crude_sum"], fit.phases["proxy"]
    assert 0.1 < error(crude.paper) < 0.4
    assert error(proxy.refined_sum) < error(crude.paper) / 20
    first, again = fit.phases["sculpt"], fit.phases["sculpt_again_1"]
    assert np.median(again.sigma) < np.median(first.sigma) / 3
    assert fit.phases["span"].heads == 2 and fit.phases["span"].chord_agreement > 0.95
    assert compare(fit.theorem, layer, seq_len=3).function_error < 0.03
    assert compare(fit.layer, layer, seq_len=3).theta_error.max() < 1e-12
    assert fit.examples_used == 40_000 and fit.heads == 2


def test_constant_column_in_the_data_is_recognised():
    layer = plant(1, 6, 3.0, seed=1, constant=True)
    X, Y = examples_of(layer, 12_000, 3)
    fit = learn(np.concatenate([X, np.ones((12_000, 3, 1))], axis=-1), Y)
    assert fit.layer is not None and fit.layer.constant and fit.layer.width == 7
    assert compare(fit.layer, layer).theta_error.max() < 1e-8


def test_single_precision_data(small):
    layer, X, Y = small
    fit = learn(X.astype(np.float32), Y.astype(np.float32))
    assert fit.learned
    assert compare(fit.layer, layer).theta_error.max() < 1e-5


def test_same_seed_same_answer(small):
    _, X, Y = small
    first, second = learn(X, Y, seed=3), learn(X, Y, seed=3)
    assert first.layer.theta.tobytes() == second.layer.theta.tobytes()
    assert first.certificate == second.certificate
    assert learn(X, Y, seed=4).theorem.theta.tobytes() != first.theorem.theta.tobytes()


def degenerate():
    two = plant(2, 8, 4.0, seed=0)
    T, W = two.theta, two.w
    return {
        "equal theta": (AttentionLayer(np.stack([T[0], T[0]]), W), 2, Status.FEWER_HEADS),
        "zero W": (AttentionLayer(T, np.stack([W[0], 0 * W[0]])), 2, Status.FEWER_HEADS),
        "sum zero": (AttentionLayer(T, np.stack([W[0], -W[0]])), 2, Status.SUM_NEAR_ZERO),
        "all zero": (AttentionLayer(T, 0 * W), "auto", Status.SUM_NEAR_ZERO),
        "flat": (AttentionLayer(0.01 * T, W), 2, Status.TOO_FLAT),
        "uniform": (AttentionLayer(0 * T, W), "auto", Status.TOO_FLAT),
        "sharp": (AttentionLayer(1e4 * plant(2, 10, 4.0, seed=0).theta, plant(2, 10).w), 2,
                  Status.TOO_SHARP),
        "one asked": (two, 1, Status.MORE_HEADS),
        "three asked": (two, 3, Status.FEWER_HEADS),
        "few outputs": (plant(2, 8, 4.0, seed=0, out_dim=2), 2, Status.TOO_MANY_TOKENS),
    }  # fmt: skip


@pytest.mark.parametrize("name", degenerate())
def test_degenerate_layer_ends_in_a_status_that_says_why(name):
    layer, heads, status = degenerate()[name]
    fit = learn(*examples_of(layer, 20_000, 3), heads=heads)
    assert fit.status is status
    assert fit.layer is None and fit.certificate is None and not fit.learned
    assert status.phase in fit.reason and status.message in fit.reason
    assert fit.to_dict()["help"]


def test_equal_heads_are_learned_as_one_when_the_number_is_free():
    layer, _, _ = degenerate()["equal theta"]
    fit = learn(*examples_of(layer, 20_000, 3))
    assert fit.learned and fit.heads == 1
    assert compare(fit.layer, layer).function_error < 1e-10


def test_labels_of_another_kind_are_never_certified(small):
    _, X, _ = small
    rng = np.random.default_rng(0)
    for Y in (rng.standard_normal(X.shape), np.tanh(X @ rng.standard_normal((6, 6))) + X**2):
        fit = learn(X, Y, config=LearnConfig(constant=False))
        assert not fit.learned and fit.certificate is None and fit.layer is None


def test_noisy_labels_are_not_certified_beyond_the_noise(small):
    _, X, Y = small
    noisy = Y + 0.05 * np.random.default_rng(0).standard_normal(Y.shape)
    fit = learn(X, noisy)
    assert not fit.learned and fit.certificate is None
    if fit.status is Status.NOT_VERIFIED:
        assert 0.005 < fit.held_out_error < 0.5


def test_held_out_examples_take_no_part_in_fitting(small):
    """Ruin the labels kept for the certificate: the answer stays, the verdict does not."""
    _, X, Y = small
    clean = learn(X, Y, seed=0)
    held = make_split(len(X), seed=0).certify
    ruined = Y.copy()
    ruined[held] = ruined[held][::-1]
    fit = learn(X, ruined, seed=0)
    assert fit.status is Status.NOT_VERIFIED and fit.certificate is None
    np.testing.assert_array_equal(fit.candidate.theta, clean.layer.theta)


def test_without_polish_the_theorem_alone_is_judged(small):
    layer, X, Y = small
    fit = learn(X, Y, config=LearnConfig(sculpt=SculptConfig(polish=False)))
    assert fit.learned and "polish" not in fit.phases
    np.testing.assert_array_equal(fit.layer.theta, fit.theorem.theta)
    assert 1e-12 < compare(fit.layer, layer).function_error < 0.01


class Recorder(Listener):
    def __init__(self, stop_after=None):
        self.ran, self.recalled, self.seen, self.stop_after = [], [], 0, stop_after

    def examples_seen(self, seen):
        self.seen = seen

    def phase_ended(self, name, figures, recalled):
        (self.recalled if recalled else self.ran).append(name)
        if name == self.stop_after:
            raise KeyboardInterrupt


@pytest.mark.parametrize("stop_after", ["crude_sum", "proxy", "span", "search"])
def test_stopped_run_continues_to_the_same_answer(small, tmp_path, stop_after):
    _, X, Y = small
    examples = ArrayExamples(X, Y)
    whole = learn_examples(examples, seed=2)
    with pytest.raises(KeyboardInterrupt):
        learn_examples(examples, seed=2, records=tmp_path, listener=Recorder(stop_after))
    heard = Recorder()
    fit = learn_examples(examples, seed=2, records=tmp_path, resume=True, listener=heard)
    assert fit.layer.theta.tobytes() == whole.layer.theta.tobytes()
    assert fit.layer.w.tobytes() == whole.layer.w.tobytes()
    assert fit.certificate == whole.certificate
    assert heard.recalled[-1] == stop_after and stop_after not in heard.ran
    assert "polish" in heard.ran


@pytest.mark.parametrize("change", ["data", "seed", "heads", "config"])
def test_records_of_another_run_are_refused(small, tmp_path, change):
    _, X, Y = small
    learn_examples(ArrayExamples(X, Y), seed=2, records=tmp_path)
    request = {"heads": "auto", "seed": 2, "config": LearnConfig()}
    if change == "data":
        Y = 2 * Y
    else:
        request |= {"seed": {"seed": 3}, "heads": {"heads": 1},
                    "config": {"config": LearnConfig(confidence=0.9)}}[change]  # fmt: skip
    with pytest.raises(RecordError, match="other data or other settings"):
        learn_examples(ArrayExamples(X, Y), records=tmp_path, resume=True, **request)


def test_listener_hears_every_phase(small):
    _, X, Y = small
    heard = Recorder()
    fit = learn(X, Y, listener=heard)
    assert heard.ran == ["survey", *fit.phases]
    assert heard.seen == len(X)


def test_blocks_of_any_size_lead_to_the_same_layer(small):
    layer, X, Y = small
    for size in (997, 8000):
        fit = learn(X, Y, config=LearnConfig(block_size=size))
        assert compare(fit.layer, layer).theta_error.max() < 1e-12


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"heads": 0}, "heads is 0; expected between 1 and 6"),
        ({"heads": 7}, "heads is 7; expected between 1 and 6"),
        ({"heads": 2.5}, "heads is 2.5"),
        ({"heads": True}, "heads is True"),
        ({"heads": "many"}, "heads is 'many'"),
        ({"method": "magic"}, "method is 'magic'"),
        ({"seed": -1}, "seed is -1"),
        ({"X": np.full((8000, 3, 6), np.nan)}, "X has a NaN"),
        (
            {"X": np.where(np.random.default_rng(0).random((8000, 3, 6)) < 0.9, 1.0, -1.0)},
            "neither",
        ),
        ({"X": np.zeros((8000, 3, 6))}, "tokens are zero"),
        ({"X": np.random.default_rng(0).uniform(-1, 1, (8000, 3, 6))}, "neither"),
        ({"Y": np.zeros((7999, 3, 6))}, "the same number of examples"),
        ({"Y": np.full((8000, 3, 6), 1e60)}, "outputs have size"),
        ({"n": 12}, "at least"),
    ],
)
def test_requests_that_make_no_sense_are_refused(small, change, complaint):
    _, X, Y = small
    change = dict(change)
    n = change.pop("n", len(X))
    X, Y = change.pop("X", X)[:n], change.pop("Y", Y)[:n]
    with pytest.raises(ValueError, match=complaint):
        learn(X, Y, **change)


def test_solver_that_stops_is_an_answer(small, monkeypatch):
    from gradine.solvers.convex import SolverError

    def stops(*_):
        raise SolverError("the convex solver stopped with MAX_ITER")

    monkeypatch.setattr("gradine.sculpt.certify.elastic_slack", stops)
    fit = learn(small[1], small[2])
    assert fit.status is Status.NO_BODY and "MAX_ITER" in fit.reason


@pytest.mark.parametrize(
    ("heads", "dim", "k", "out_dim"), [(1, 1, 2, 4), (1, 2, 2, 5), (1, 2, 3, 6), (2, 4, 6, 20)]
)
def test_tiny_dimensions_end_in_a_status(heads, dim, k, out_dim):
    layer = plant(heads, dim, 3.0, seed=1, out_dim=out_dim)
    fit = learn(*examples_of(layer, 3000, k, "gaussian"))
    assert fit.learned == (fit.certificate is not None)
    if k > dim:
        assert fit.status in (Status.TOO_MANY_TOKENS, Status.SUM_NEAR_ZERO)


def test_too_few_held_out_examples_certify_nothing():
    layer = plant(1, 6, 3.0, seed=1)
    fit = learn(*examples_of(layer, 274, 3, seed=2))
    assert fit.status is Status.TOO_FEW_HELD_OUT and fit.phases == {}
    assert fit.certificate is None and fit.layer is None
    assert "takes 165" in fit.reason and "n = 274 is too few: 275 do" in fit.reason
    few = LearnConfig(certify_examples=100)
    fit = learn(*examples_of(layer, 2000, 3, seed=2), config=few)
    assert fit.status is Status.TOO_FEW_HELD_OUT and "certify_examples is 100" in fit.reason


def test_a_few_hundred_examples_reach_a_certificate():
    layer = plant(1, 6, 3.0, seed=1)
    fit = learn(*examples_of(layer, 400, 3, seed=2))
    assert fit.status is Status.LEARNED and fit.certificate.examples == 165
    assert compare(fit.layer, layer).theta_error.max() < 1e-8


def test_seconds_of_a_resumed_run_include_what_was_recalled(small, tmp_path):
    _, X, Y = small
    whole = learn_examples(ArrayExamples(X, Y), records=tmp_path)
    again = learn_examples(ArrayExamples(X, Y), records=tmp_path, resume=True)
    spent = sum(result.seconds for result in again.phases.values())
    assert again.seconds > spent and again.phases["polish"].seconds == (
        whole.phases["polish"].seconds
    )


def test_constant_column_against_the_request_is_refused(small):
    _, X, Y = small
    X = np.concatenate([X, np.ones((8000, 3, 1))], axis=-1)
    with pytest.raises(ValueError, match="constant=False"):
        learn(X, Y, config=LearnConfig(constant=False))


def test_result_is_json(small, tmp_path):
    from gradine.files import write_json

    _, X, Y = small
    fit = learn(X, Y)
    write_json(tmp_path / "result.json", fit.to_dict())
    assert set(fit.to_dict()) >= {"status", "heads", "certificate", "seconds", "examples_used"}
    assert fit.to_dict()["phases"]["span"]["heads"] == 1
    assert replace(fit).learned and gradine.Fit is type(fit)
