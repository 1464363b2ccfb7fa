"""Engines of every kind, each started once for all tests."""

from __future__ import annotations

import numpy as np
import pytest

from gradine.engine import open_engine
from gradine.examples import ArrayExamples

KINDS = {"serial": ("serial", 1), "one": ("pool", 1), "two": ("pool", 2), "dask": ("dask", 2)}


@pytest.fixture(scope="session")
def engines():
    """Opened when first asked for."""
    opened = {}

    def get(kind):
        if kind not in opened:
            if kind == "dask":
                pytest.importorskip("distributed")
            opened[kind] = open_engine(*KINDS[kind])
        return opened[kind]

    yield get
    for engine in opened.values():
        engine.close()


@pytest.fixture(params=KINDS)
def engine(engines, request):
    return engines(request.param)


@pytest.fixture(params=[kind for kind in KINDS if kind != "serial"])
def crew(engines, request):
    """Those with workers."""
    return engines(request.param)


@pytest.fixture
def numbered():
    """n examples whose numbers are their own."""

    def make(n, seq_len=2, dim=3):
        X = np.arange(n, dtype=float)[:, None, None] * np.ones((n, seq_len, dim))
        return ArrayExamples(X, -X)

    return make
