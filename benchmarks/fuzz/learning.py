"""Examples and checkpoints made wrong: what is called learned must be right on fresh examples."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

import gradine
from benchmarks.fuzz.corpus import LEARN, Corpus
from benchmarks.fuzz.files import Case
from benchmarks.fuzz.mutate import forged, safetensors_bytes
from gradine.atlas.claims import contradicted

__all__ = ["LEARNING"]

FRESH = 1000
SEQ_LEN, DIM = 3, 3

Labels = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def _share(value: float) -> Callable[[np.ndarray, np.random.Generator], np.ndarray]:
    """Which examples are wrong."""
    return lambda X, rng: rng.random(len(X)) < value


def _labels(rng: Random, truth: gradine.AttentionLayer) -> tuple[str, Labels]:
    """What is wrong with the labels, and the labels themselves: a rule, so that it can be asked
    again for fresh examples."""
    other = gradine.plant(2, DIM, 3.0, seed=rng.randrange(100))
    size, wrong = 10.0 ** rng.uniform(-14, 0), _share(10.0 ** rng.uniform(-3, 0))
    mixing = np.random.default_rng(rng.randrange(100)).standard_normal((DIM, DIM))
    rules: dict[str, Labels] = {
        "clean": lambda X, g: truth(X),
        "noise": lambda X, g: truth(X) + size * g.standard_normal(X.shape),
        "signs": lambda X, g: np.where(wrong(X, g)[:, None, None], -1, 1) * truth(X),
        "others": lambda X, g: np.where(wrong(X, g)[:, None, None], other(X), truth(X)),
        "shuffled": lambda X, g: g.permutation(truth(X)),
        "zero": lambda X, g: np.zeros(X.shape),
        "constant": lambda X, g: np.ones(X.shape),
        "network": lambda X, g: np.tanh(X @ mixing),
        "product": lambda X, g: X * X[:, ::-1],
        "by place": lambda X, g: truth(X) * np.arange(1, SEQ_LEN + 1)[:, None],
        "by sign": lambda X, g: np.where(X[:, :1, :1] > 0, truth(X), other(X)),
        "added": lambda X, g: truth(X) + size * np.tanh(X @ mixing),
        "rounded": lambda X, g: np.round(truth(X), rng_digits),
        "clipped": lambda X, g: np.clip(truth(X), -clip, clip),
        "large": lambda X, g: truth(X) * 10.0**power,
        "single": lambda X, g: truth(X).astype(np.float32).astype(np.float64),
    }
    rng_digits, clip, power = rng.randrange(8), rng.uniform(0.05, 2.0), rng.uniform(-13, 13)
    name = rng.choice(list(rules))
    return name, rules[name]


def _inputs(rng: Random) -> Callable[[int, np.random.Generator], np.ndarray]:
    few = rng.choice((2, 5, 20))
    known = np.random.default_rng(rng.randrange(100)).standard_normal((few, SEQ_LEN, DIM))
    kinds: list[Callable[[int, np.random.Generator], np.ndarray]] = [
        lambda n, g: g.choice([-1.0, 1.0], (n, SEQ_LEN, DIM)),
        lambda n, g: g.standard_normal((n, SEQ_LEN, DIM)),
        lambda n, g: known[g.integers(few, size=n)],
        lambda n, g: np.repeat(g.standard_normal((n, 1, DIM)), SEQ_LEN, axis=1),
        lambda n, g: g.standard_normal((n, SEQ_LEN, DIM)) * [1.0, 1.0, 0.0],
        lambda n, g: g.standard_cauchy((n, SEQ_LEN, DIM)),
        lambda n, g: 1e3 * g.standard_normal((n, SEQ_LEN, DIM)),
    ]
    return rng.choice(kinds[:2]) if rng.random() < 0.6 else rng.choice(kinds)


def learn(rng: Random, corpus: Corpus, folder: Path) -> Case:
    """Labels that no layer gives, or that one gives only now and then."""
    truth = gradine.plant(rng.choice((1, 1, 2)), DIM, rng.choice((0.5, 2.0, 6.0)), seed=3)
    inputs, (name, labels) = _inputs(rng), _labels(rng, truth)
    seed = rng.randrange(2**32)
    X, Y = _drawn(inputs, labels, rng.choice((30, 100, 300, 600)), seed)
    np.savez(folder / "data.npz", X=X, Y=Y)
    command = ["learn", str(folder / "data.npz"), "--out", str(folder / "out"), "--no-report"]
    command += ["--method", rng.choice(("exact", "exact", "exact", "auto", "sculpt"))]
    command += ["--heads", rng.choice(("auto", "1", "2", "3"))]

    def judge() -> str | None:
        return _wrong(folder / "out", *_drawn(inputs, labels, FRESH, seed + 1), name)

    return Case(command=command, judge=judge)


def _drawn(inputs: Any, labels: Labels, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    X = inputs(n, generator)
    with np.errstate(all="ignore"):
        return X, labels(X, generator)


def _wrong(out: Path, X: np.ndarray, Y: np.ndarray, name: str) -> str | None:
    """Why what is called learned is not so."""
    certificate = json.loads((out / "result.json").read_text())["certificate"]
    layer = gradine.AttentionLayer.load(out / "layer.safetensors")
    if X.shape[2] != layer.dim:
        return f"{name}: learned a layer of dim {layer.dim}"
    if contradicted(SimpleNamespace(**certificate), np.asarray(layer(X)), Y):  # pyright: ignore
        return f"{name}: fresh examples contradict the certificate"
    return None


def resume(rng: Random, corpus: Corpus, folder: Path) -> Case:
    """A run, or answers, of which one file was spoiled or forged before it goes on."""
    asked = rng.random() < 0.3
    files = dict(corpus.asked if asked else corpus.run)
    kind = "answers/" if asked else "phases/"
    name = rng.choice([name for name in files if name.startswith(kind)])
    spoil = forged if rng.random() < 0.7 else safetensors_bytes
    files[name] = spoil(rng, files[name])
    out = folder / "out"
    for name, content in files.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(content)
    if asked:
        command = ["query", "--oracle", str(corpus.truth), "--no-report"]
    else:
        command = ["learn", str(corpus.data), *LEARN]

    def judge() -> str | None:
        X = gradine.sample_inputs(FRESH, SEQ_LEN, DIM, seed=9)
        return _wrong(out, X, gradine.AttentionLayer.load(corpus.truth)(X), "resumed")

    return Case(command=[*command, "--out", str(out), "--resume"], judge=judge)


LEARNING = {"examples learned from": (12, learn), "resumed run": (12, resume)}
