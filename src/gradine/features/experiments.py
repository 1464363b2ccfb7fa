"""Test errors of random-feature attention and of the network beside it, against examples [FGBM23].

For one seed and one model, all targets and all numbers of examples share one matrix of inner
products of features, K: the first n examples are its leading block. Each block is centered, so that
there is an intercept, and

    (K + alpha I) c = y

is solved for every target at once and for alphas a decade apart (`gradine.features.alphas`). Inner
products are in single precision, which is enough for errors of a thousandth of a target's variance.

The bridge is a target of another kind: one output coordinate of a planted softmax layer, for the
first token of a sequence. Beside random features it is learned by `gradine.learn`, from as many
sequences and all their outputs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gradine.features.alphas import BLOCK_BYTES, best_alphas
from gradine.features.design import inner_products
from gradine.features.kernel import kernel
from gradine.features.maps import SPREAD, AttentionMap, FeatureMap, Mean, NeuronMap
from gradine.features.targets import Target, correlation, gamma_mixture, on_sphere, powers
from gradine.inputs import plant
from gradine.layer import AttentionLayer
from gradine.learn import learn

__all__ = [
    "BRIDGE",
    "FIGURES",
    "FULL",
    "MODELS",
    "QUICK",
    "Curve",
    "Part",
    "Setting",
    "Unit",
    "measure",
    "targets",
    "units_of",
]

Array = NDArray[np.floating]
Part = Literal["targets", "bridge"]

LIMIT_OPERATIONS = 500  # for a number of the kernel of infinitely many heads, roughly


@dataclass(frozen=True)
class Setting:
    """Sizes of the experiments."""

    dim: int = 16
    n_keys: int = 16
    n_heads: int | None = 1000  #: None: infinitely many, for one key
    n_neurons: int = 17_000
    sizes: tuple[int, ...] = tuple(2**power for power in range(5, 15))
    seeds: int = 5
    choosing: int = 1000  #: examples that alpha is chosen on
    testing: int = 4000  #: examples that errors are measured on
    bridge_most: int = 2**12  #: examples of the bridge, where learning is done long before
    scale: float = SPREAD  #: standard deviation of the entries of random matrices
    #: That the best is chosen of, over the mean of the diagonal of K; one factor serves three.
    alphas: tuple[float, ...] = tuple(10.0**power for power in range(-4, 3))

    def sizes_of(self, part: Part) -> tuple[int, ...]:
        """Numbers of examples that errors are measured for."""
        return tuple(n for n in self.sizes if part == "targets" or n <= self.bridge_most)


FULL = Setting()
QUICK = Setting(
    n_heads=100,
    n_neurons=1700,
    sizes=tuple(2**power for power in range(5, 11)),
    seeds=3,
    choosing=500,
    testing=1000,
)

Make = Callable[[int, int], Target]  #: from the dimension and a seed

POWERS = (1, 2, 3, 4)
CORRELATIONS = (1, 2, 3)
GAMMAS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
#: Targets by figure, and by name in it.
FAMILIES: dict[str, dict[str, Make]] = {
    "powers": {f"p={p}": lambda dim, seed, p=p: powers(p, dim, seed) for p in POWERS},
    "correlation": {
        f"p={p}": lambda dim, seed, p=p: correlation(p, dim, seed) for p in CORRELATIONS
    },
    "gamma": {f"gamma={g:g}": lambda dim, seed, g=g: gamma_mixture(g, dim, seed) for g in GAMMAS},
}

FIGURES = (*FAMILIES, "bridge")
#: What is measured, by the examples that it shares.
MODELS: dict[Part, tuple[str, ...]] = {
    "targets": ("RFA", "BRFA", "RFMLP"),
    "bridge": ("RFA", "BRFA", "softmax RFA", "RFMLP", "learn"),
}
BRIDGE = "bridge/output"  # the name of its only target
BRIDGE_HEADS, BRIDGE_SCALE = 2, 3.0


def units_of(figures: Sequence[str], setting: Setting) -> list[tuple[Part, str, int]]:
    """Part, model and seed of everything that some figures take, seed by seed."""
    parts: list[Part] = []
    if set(figures) & set(FAMILIES):
        parts.append("targets")
    if "bridge" in figures:
        parts.append("bridge")
    seeds = range(setting.seeds)
    return [(part, model, seed) for seed in seeds for part in parts for model in MODELS[part]]


def targets(figures: Sequence[str], dim: int, seed: int) -> dict[str, Target]:
    """The targets of some figures, by ``figure/name``."""
    return {
        f"{figure}/{name}": make(dim, seed)
        for figure in figures
        if figure in FAMILIES
        for name, make in FAMILIES[figure].items()
    }


@dataclass(frozen=True)
class Curve:
    """Errors of one model on one target, by the number of examples."""

    errors: list[float]  #: mean squared test error over the target's variance
    alphas: list[float]  #: that were chosen, over the mean of the diagonal of K


@dataclass(frozen=True)
class Unit:
    """What one model came to with one seed."""

    part: Part
    model: str
    seed: int
    curves: dict[str, Curve]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Unit:
        curves = {name: Curve(**curve) for name, curve in value["curves"].items()}
        return cls(value["part"], value["model"], value["seed"], curves, value["seconds"])


def measure(
    part: Part,
    model: str,
    seed: int,
    setting: Setting,
    figures: Sequence[str],
    progress: Callable[[float], None] | None = None,
) -> Unit:
    """Curves of one model; examples are the same for every model of a part and a seed."""
    began = time.perf_counter()
    setting = replace(setting, sizes=setting.sizes_of(part))
    rows = max(setting.sizes) + setting.choosing + setting.testing
    if part == "targets":
        wanted = targets(figures, setting.dim, seed)
        X = on_sphere(rows, setting.n_keys, setting.dim, seed)
        curves = _curves(model, seed, setting, X, {k: f(X) for k, f in wanted.items()}, progress)
    else:
        layer = plant(BRIDGE_HEADS, setting.dim, BRIDGE_SCALE, seed=seed)
        rng = np.random.default_rng([seed, 1])  # others than those of the layer
        Z = rng.standard_normal((rows, setting.n_keys, setting.dim))
        if model == "learn":
            curves = {BRIDGE: _learned(layer, Z, setting, seed, progress)}
        else:
            # The first token attends to itself, too. Random heads are meant for unit tokens.
            X = np.concatenate([Z[:, :1], Z], axis=1) / math.sqrt(setting.dim)
            outputs = {BRIDGE: np.asarray(layer(Z))[:, 0, 0]}
            curves = _curves(model, seed, setting, X, outputs, progress)
    return Unit(part, model, seed, curves, time.perf_counter() - began)


def _learned(
    layer: AttentionLayer,
    Z: Array,
    setting: Setting,
    seed: int,
    progress: Callable[[float], None] | None,
) -> Curve:
    """The error of the layer that is learned, in the same coordinate; 1 if there is none."""
    fresh = Z[-setting.testing :]
    truth, curve = np.asarray(layer(fresh))[:, 0, 0], Curve([], [])
    for i, n in enumerate(setting.sizes):
        found = learn(Z[:n], layer(Z[:n]), seed=seed).candidate
        error = 1.0
        if found is not None:
            error = float(np.mean((np.asarray(found(fresh))[:, 0, 0] - truth) ** 2) / truth.var())
        curve.errors.append(error)
        curve.alphas.append(0.0)
        if progress is not None:
            progress((i + 1) / len(setting.sizes))
    return curve


def _curves(
    model: str,
    seed: int,
    setting: Setting,
    X: Array,
    outputs: dict[str, Array],
    progress: Callable[[float], None] | None,
) -> dict[str, Curve]:
    most, Y = max(setting.sizes), np.stack(list(outputs.values()), axis=1)
    X = X.astype(np.float32)
    if setting.n_heads is None and model in _MEANS:
        work = _Work(progress, LIMIT_OPERATIONS, setting)
        K, beside = _limit_products(_MEANS[model], setting, X, most, work)
    else:
        features = _draw(model, setting, X.shape[1], np.random.default_rng([seed, _NUMBERS[model]]))
        work = _Work(progress, features.n_features, setting)
        K, beside = inner_products(
            features, X, most, BLOCK_BYTES, on_part=lambda share: work.done(work.products * share)
        )
    curves = {name: Curve([], []) for name in outputs}
    for n in setting.sizes:
        alphas, errors = best_alphas(
            K[:n, :n], beside[:, :n], Y[:n], Y[most:], setting.alphas, setting.choosing
        )
        for curve, error, alpha in zip(curves.values(), errors, alphas, strict=True):
            curve.errors.append(float(error))
            curve.alphas.append(float(alpha))
        work.done(n**3)
    return curves


_NUMBERS = {"RFA": 0, "BRFA": 1, "RFMLP": 2, "softmax RFA": 3}  # of the random numbers
_MEANS: dict[str, Mean] = {"RFA": "zero", "BRFA": "identity"}  # models whose kernel is known


def _draw(model: str, setting: Setting, tokens: int, rng: np.random.Generator) -> FeatureMap:
    """The random features of a model."""
    if model == "RFMLP":
        return NeuronMap.draw(setting.n_neurons, tokens * setting.dim, rng, setting.scale)
    if setting.n_heads is None:
        raise ValueError(f"n_heads is None; {model} has a finite number of them")
    mean = _MEANS.get(model, "zero")
    activation = "softmax" if model == "softmax RFA" else "relu"
    return AttentionMap.draw(setting.n_heads, setting.dim, mean, activation, rng, setting.scale)


class _Work:
    """Tells which share of the work is done, by rough counts of operations."""

    def __init__(
        self, progress: Callable[[float], None] | None, features: int, setting: Setting
    ) -> None:
        most = max(setting.sizes)
        rows = most + 2 * (setting.choosing + setting.testing)
        self.products = most * rows * features
        self.total = self.products + sum(n**3 for n in setting.sizes)
        self.so_far, self.progress = 0.0, progress

    def done(self, operations: float) -> None:
        self.so_far += operations
        if self.progress is not None:
            self.progress(min(self.so_far / self.total, 1.0))


def _limit_products(
    mean: Mean, setting: Setting, X: Array, most: int, work: _Work
) -> tuple[Array, Array]:
    """Inner products for infinitely many heads and one key, as `inner_products` has them."""
    if X.shape[1] != 2:
        raise ValueError(f"n_heads is None and n_keys {X.shape[1] - 1}; expected one key")
    products = np.empty((len(X), most), np.float32)
    step = max(1, BLOCK_BYTES // (16 * most))
    for start in range(0, len(X), step):
        part = slice(start, start + step)
        products[part] = kernel(X[part], X[:most], mean, setting.scale)
        work.done(work.products * min(step, len(X) - start) / len(X))
    return products[:most], products[most:]
