"""What is told of a run: errors against the truth, and refusal of what does not belong to it."""

from __future__ import annotations

import numpy as np
import pytest

import gradine
from gradine.report import report_html
from gradine.report.story import tell


def test_estimates_are_measured_against_the_truth(pair):
    story = tell(pair.fit, pair.truth, None, None)
    errors = {item.name: item.distance for item in story.estimates}
    truth = pair.truth.w.sum(axis=0)[:8]
    crude = pair.fit.phases["crude_sum"].paper[:8]
    expected = np.linalg.norm(crude - truth) / np.linalg.norm(truth)
    assert errors["crude, all tokens (paper)"] == pytest.approx(expected)
    assert errors["refined"] < errors["crude, own token left out"]
    assert errors["polished"] < 1e-9


def test_truth_or_example_of_another_shape(cancelled, single):
    other = gradine.plant(heads=1, dim=5)
    with pytest.raises(ValueError, match="truth has dim 5"):
        report_html(cancelled.fit, truth=other)
    with pytest.raises(ValueError, match="learned has"):
        report_html(single.fit, truth=other)
    with pytest.raises(ValueError, match=r"example has shape \(3, 5\)"):
        report_html(single.fit, example=np.ones((3, 5)))
    with pytest.raises(ValueError, match="example has NaN"):
        report_html(single.fit, example=np.full((3, 6), np.nan))
