"""Numbers and pictures by themselves."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image

from gradine.report import pictures
from gradine.report.draw import number
from gradine.report.matrices import MOST_SIDE, pattern, tile
from gradine.report.story import Estimate


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0"),
        (0.0, "0"),
        (1234567, "1\u202f234\u202f567"),
        (0.12345, "0.123"),
        (0.00012, "1.2·10⁻⁴"),
        (float("inf"), "unknown"),
        (np.float64(2.5e7 + 0.5), "2.5·10⁷"),
    ],
)
def test_number(value, text):
    assert number(value) == text


def pixels(html: str) -> np.ndarray:
    data = html.split("base64,")[1].split('"')[0]
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")).astype(int)


def test_tile_is_blue_below_zero_white_at_zero_and_red_above():
    shown = pixels(tile(np.array([[-2.0, 0.0, 2.0]]), 2.0, "three"))
    assert shown.shape == (1, 3, 3)
    below, zero, above = shown[0]
    assert below[2] > below[0] and above[0] > above[2] and zero.min() > 240


def test_large_matrix_keeps_its_strongest_entry():
    matrix = np.zeros((3 * MOST_SIDE, 5))
    matrix[200, 3] = -1.0
    shown = pixels(tile(matrix, 1.0, "tall"))
    assert shown.shape[0] == MOST_SIDE
    assert shown.min() < 120


def test_pattern_prints_weights_while_they_are_few():
    assert ">0.25<" in pattern(np.full((4, 4), 0.25), "few")
    assert "<img" in pattern(np.full((9, 9), 1 / 9), "many")


def test_pictures_bear_degenerate_figures():
    nothing_left = [Estimate("refined", 0.0, None), Estimate("again", 0.0, 0.0)]
    for svg in (
        pictures.estimates(nothing_left, "distance"),
        pictures.estimates([Estimate("refined", None, 0.1)], "distance"),
        pictures.carving([("once", np.zeros(5)), ("again", np.full(3, 0.2))]),
        pictures.spectrum(np.zeros(3), 3),
        pictures.spectrum(np.ones(1), 0),
        pictures.chords(np.array([0.0])),
        pictures.losses(np.array([0.0]), None),
    ):
        assert svg.startswith("<svg") and "#010203" not in svg
