"""Tasks that the tests of the exact learner share."""

from __future__ import annotations

import math

import numpy as np

from gradine import sample_inputs
from gradine.exact.config import ExactConfig
from gradine.exact.heads import FitTask, unknowns


def task_of(layer, ratio, k=8, noise=0.0, fresh=100, seed=0, config=None, rank=None):
    bound = unknowns(layer.n_heads, layer.dim, layer.dim, layer.out_dim, rank) / (k * layer.out_dim)
    n = math.ceil(ratio * bound)
    X = sample_inputs(n + fresh, k, layer.dim, seed=seed + 100)
    Y = layer(X)
    Y = Y + noise * Y.std() * np.random.default_rng(seed).standard_normal(Y.shape)
    return FitTask(X[:n], Y[:n], X[n:], Y[n:], layer.dim, config or ExactConfig(), seed)
