"""The benchmark of scale: a tiny version of each part, so that it cannot rot."""

from __future__ import annotations

import json

import pytest

import gradine
from benchmarks.scale import __main__ as scale
from benchmarks.scale import capacity, faults, many, rates
from gradine.engine import Engine, reduce_blocks
from gradine.examples import ArrayExamples


@pytest.fixture
def planted(monkeypatch):
    """In memory instead of generated."""

    def examples(n):
        X = gradine.sample_inputs(n, scale.SEQ_LEN, scale.DIM, seed=1)
        return ArrayExamples(X, scale.truth()(X))

    monkeypatch.setattr(scale, "generated", examples)
    return examples


def test_rates(planted, monkeypatch):
    monkeypatch.setattr(rates, "SIZE", 100)
    kernel = rates.screening(scale.truth())
    core = rates.core_rate(planted(1000), kernel, 500)
    assert 0 < core["rows_a_second_with_reading"] < core["rows_a_second"]
    assert 0 < core["share_of_product_rate"] < 1
    walls = rates.speedups(planted(1000), kernel, 250, kinds=["serial"], numbers=[1])
    assert set(walls) == {"serial_1"} and walls["serial_1"] > 0


@pytest.mark.slow
def test_a_run_that_is_killed():
    found = [faults.inject(kind, 1, 6_000, 1_000, 0.5) for kind in (None, "run")]
    told = faults.summary(found)
    assert told["faults"] == told["identical"] == 1 and found[1]["runs"] == 2
    assert told["blocks"] % 6 == 0 and 0 <= told["blocks_twice"] <= told["in_flight"]


@pytest.mark.parametrize(("fault", "reads"), [(-1, 3), (10, 4)])
def test_reads_of_a_pass_are_written_down(tmp_path, fault, reads):
    X = gradine.sample_inputs(25, 2, 3)
    watched = faults.Watched(ArrayExamples(X, X), tmp_path, 10, fault)
    watched.block(3, 25)  # not a block of a pass
    found = reduce_blocks(watched, lambda X, Y, start: len(X), int.__add__, block_size=10)
    assert found == 25 and len((tmp_path / "log").read_text().splitlines()) == reads


def test_answers_that_differ_are_counted():
    calm = {"fault": None, "answer": "a", "reads": 30}
    others = [{"fault": "run", "answer": answer, "reads": 32} for answer in "ab"]
    told = faults.summary([calm, *others])
    assert told["faults"] == 2 and told["identical"] == 1
    assert told["blocks_twice"] == 4 and told["most_blocks_twice"] == 2


def test_many(planted, monkeypatch):
    monkeypatch.setattr(many, "PAUSE", 0.05)
    found = many.screened(planted(20_000), scale.truth(), Engine())
    assert found["examples"] == 20_000 and len(found["slack"]) >= 2
    assert found["slack"][-1] < found["slack"][0]
    assert max(found["peak_bytes"].values()) > 2**20
    text = scale.page({"many": {"runs": [found]}})
    assert "| 20,000 |" in text


def test_growth():
    assert many.growth([100] * 10 + [105] * 10) == pytest.approx(0.05)


def test_the_page_of_capacity(tmp_path, capsys):
    assert scale.main(["capacity", "--quick", "--out", str(tmp_path)]) == 0
    stored = json.loads((tmp_path / "scale.json").read_text())
    assert stored["capacity"]["pass_seconds"]["8"]["sculpt"]["main"] > 0
    assert (tmp_path / "scale.md").read_text() == capsys.readouterr().out[:-1]
    checks = stored["capacity"]["checks"]
    assert [check["workers"] for check in checks] == [1, 2] and checks[0]["passes"]["sculpt"] >= 1
    (main,) = stored["capacity"]["main"]
    assert main["error"] < 0.1 and {"sculpt", "search"} <= set(main["alone"])


def test_passes_shrink_with_workers_until_merging_is_the_limit():
    each = {"worker": 2e-6, "main": 1e-8}
    seconds = dict.fromkeys([capacity.MAKING, *capacity.PASSES], each)
    main = {"passes": dict(capacity.PASSES), "alone": {"sculpt": 2.0, "search": 3.0}}
    # A piece is all there is: nothing that is fetched is far from anything else.
    fetched = len(capacity.FETCHED) * 1e6
    ones = capacity.predicted_seconds(seconds, main, 1e6, 1, 0.1, piece=10**6)
    assert ones["alone"] == 5.0 and ones["passes"] == pytest.approx(12.0 + 2e-6 * fetched, rel=1e-3)
    two = capacity.predicted_seconds(seconds, main, 1e6, 2, 0.1, piece=10**6)
    assert two["passes"] == pytest.approx(ones["passes"] / 1.8)
    many = capacity.predicted_seconds(seconds, main, 1e9, 10**6, 0.0)
    assert many["passes"] == pytest.approx(6 * 1e9 * 1e-8, rel=0.01)


def test_the_main_process_is_extrapolated_phase_by_phase():
    parts = [
        {"heads": 3, "dim": d, "alone": {"sculpt": 1e-9 * d**6.0, "search": 1.0 * d}}
        for d in (16, 32)
    ]
    far = capacity.alone_at(64, parts, parts[1])
    assert far["powers"] == pytest.approx({"sculpt": 6.0, "search": 1.0})
    assert far["alone"] == pytest.approx({"sculpt": 1e-9 * 64**6, "search": 64.0})
