"""Expand and cluster: an overparameterised student, whose heads are merged to the right number.

After Martinelli et al. (2024): a student with twice the heads finds its way more easily, and many
of its heads end up as copies. Heads with similar Theta are merged, the heaviest m clusters are
kept, W is solved for again, and L-BFGS polishes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.train import ErrorOf, Optimizer, Run, TrainConfig, train
from gradine.students.model import Shape, features, matrices_of, random_start

__all__ = ["expand_and_cluster", "merge"]

Array = NDArray[np.float64]

EXPANSION = 2  # heads of the student over heads asked for
SHARE = 0.5  # of the time allowed, for the large student; the polish gets the rest
ENOUGH = 1e-10  # relative squared loss at which the large student is merged without more ado


def expand_and_cluster(
    data: tuple[Array, Array],
    shape: Shape,
    std: float,
    generator: Any,
    allowed: float,
    *,
    optimizer: Optimizer,
    rate: float,
    error_of: ErrorOf,
    config: TrainConfig,
) -> Run:
    """Train the large student, merge its heads, polish; the clock runs all the way."""
    large = replace(shape, heads=EXPANSION * shape.heads)
    start = random_start(large, std, generator)
    first = train(optimizer, data, start, SHARE * allowed, rate=rate, enough=ENOUGH, config=config)
    if not np.isfinite(first.loss):
        return first
    began = config.clock()
    merged = merge(data, first.parameters, shape)
    spent = first.seconds + config.clock() - began
    double = replace(config, single_until=0.0)
    last = train("lbfgs", data, merged, allowed - spent, error_of=error_of, config=double)
    evaluations = first.evaluations + last.evaluations
    return replace(last, seconds=spent + last.seconds, evaluations=evaluations)


def merge(data: tuple[Array, Array], parameters: list[Any], shape: Shape) -> list[Any]:
    """The best student of ``shape`` that clusters of the heads give, judged by its loss."""
    from scipy.cluster.hierarchy import fcluster, linkage

    theta, w = (matrix.numpy() for matrix in matrices_of(parameters))
    weights = np.linalg.norm(w, axis=(1, 2))
    tree = linkage(theta.reshape(len(theta), -1), "average")
    best: tuple[float, Array, Array] | None = None
    for count in range(shape.heads, len(theta) + 1):
        labels = fcluster(tree, count, "maxclust")
        groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        groups.sort(key=lambda group: -weights[group].sum())
        if len(groups) < shape.heads:
            continue
        centres = np.stack(
            [
                np.average(theta[group], axis=0, weights=weights[group] + 1e-300)
                for group in groups[: shape.heads]
            ]
        )
        loss, solved = _solve(data, centres)
        if best is None or loss < best[0]:
            best = loss, centres, solved
    assert best is not None  # the last count keeps every head apart
    return _parameters(best[1], best[2], shape.rank)


def _solve(data: tuple[Array, Array], theta: Array) -> tuple[float, Array]:
    """The best W for given Theta, and the squared error it leaves."""
    import torch

    X, Y = (torch.from_numpy(np.ascontiguousarray(array)) for array in data)
    given = features(X, X.transpose(1, 2).contiguous(), torch.from_numpy(theta)).numpy()
    outputs = Y.reshape(-1, Y.shape[2]).numpy()
    w = np.linalg.lstsq(given, outputs, rcond=1e-10)[0]
    loss = float(np.sum((given @ w - outputs) ** 2))
    return loss, w.reshape(len(theta), -1, Y.shape[2])


def _parameters(theta: Array, w: Array, rank: int | None) -> list[Any]:
    """As a student has them; with a rank, the factors of the nearest matrices of that rank."""
    import torch

    if rank is None:
        return [torch.from_numpy(np.ascontiguousarray(matrix)) for matrix in (theta, w)]
    (u, v), (a, b) = _factors(theta, rank), _factors(w, rank)
    pieces = (u, v.swapaxes(1, 2), a, b)
    return [torch.from_numpy(np.ascontiguousarray(matrix)) for matrix in pieces]


def _factors(matrices: Array, rank: int) -> tuple[Array, Array]:
    left, sizes, right = np.linalg.svd(matrices, full_matrices=False)
    roots = np.sqrt(sizes[:, :rank])
    return left[:, :, :rank] * roots[:, None], roots[:, :, None] * right[:, :rank]
