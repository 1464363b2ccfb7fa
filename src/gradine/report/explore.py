"""What the script of the page computes with: heads, estimates and example, as JSON inside it.

Heads are sent as float64, or as float32 where they are many numbers; wide ones of low rank by
their factors. Differences of heads are sent as they are shown: computed from rounded heads they
would be rounding.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine.report.again import attention_python
from gradine.report.heads import matrices_of, name_of, shown_pairs
from gradine.report.matrices import MOST_SIDE, condensed, step_of
from gradine.report.steps import estimates_of
from gradine.report.story import HeadPair, Story

__all__ = ["embedded"]

Array = NDArray[np.float64]

MOST_EXACT = 60_000  # numbers up to which heads are float64: half a megabyte of text
MOST_NUMBERS = 4_000_000  # beyond, the page would no longer open at once
LOST = 1e-9  # relative norm that factors of a head may lose: below what float32 does
TOO_LARGE = (
    "The heads are too large to be inside this page: values and attention are computed by the "
    "Python below alone."
)


@dataclass(frozen=True, eq=False)
class _Sent:
    """A matrix whole, or by factors (left right^T)."""

    whole: Array
    factors: tuple[Array, Array] | None

    @property
    def numbers(self) -> int:
        parts = self.factors or (self.whole,)
        return sum(part.size for part in parts)

    def encoded(self, kind: str) -> dict[str, Any]:
        step = {"step": step_of(self.whole.shape)}
        if self.factors is None:
            return _array(self.whole, kind) | step
        left, right = self.factors
        return {"left": _array(left, kind), "right": _array(right, kind)} | step


def embedded(story: Story) -> str:
    """JSON that may stand inside a script element."""
    pairs = shown_pairs(story)
    sent, differences = _heads(story, pairs)
    kept = _kept(sent)
    kind = "f8" if sum(it.numbers for it in kept.values()) <= MOST_EXACT else "f4"
    matrices = {name: it.encoded(kind) for name, it in kept.items()} if kept else {}
    matrices |= {name: _pictured(matrix) for name, matrix in differences.items()}
    for name, shown in estimates_of(story).items():
        matrices |= {f"sum-{label}-{name}": _pictured(matrix) for label, matrix in shown.items()}
    page = {
        "heads": [_head(story, pair) for pair in pairs],
        "matrices": matrices,
        "digits": 16 if kind == "f8" else 7,
        "note": TOO_LARGE if sent and not kept else "",
        "trueHeads": any(name.startswith("theta-true-") for name in kept),
        "words": story.words,
        "example": None if story.example is None else _array(story.example, "f8"),
        "tokens": story.fit.survey.seq_len,
        "inputs": "boolean" if story.fit.survey.boolean else "gaussian",
        "python": attention_python(story),
    } | _layer(story, pairs)
    # "<" could end the script element, wherever it stands.
    return json.dumps(page, separators=(",", ":")).replace("<", "\\u003c")


def _layer(story: Story, pairs: list[HeadPair]) -> dict[str, Any]:
    layer = story.learned
    if layer is None:
        return {}
    return {
        "attention": layer.function.name,
        "constant": layer.constant,
        "width": layer.width,
        "dim": layer.dim,
        "outputs": layer.out_dim,
        "whole": len(pairs) == len(story.pairs),
    }


def _head(story: Story, pair: HeadPair) -> dict[str, Any]:
    """What heads are called and ordered by."""
    learned = matrices_of(story, pair, "theta"), matrices_of(story, pair, "w")
    theta, w = (float(np.linalg.norm(next(iter(shown.values())))) for shown in learned)
    error = None if pair.theta_error is None else max(pair.theta_error, pair.w_error or 0.0)
    return {
        "name": name_of(pair),
        "learned": pair.learned,
        "error": error,
        "theta": theta,
        "w": w,
    }


def _heads(story: Story, pairs: list[HeadPair]) -> tuple[dict[str, _Sent], dict[str, Array]]:
    sent, differences = {}, {}
    for place, pair in enumerate(pairs):
        for symbol in ("theta", "w"):
            for label, matrix in matrices_of(story, pair, symbol).items():
                name = f"{symbol}-{label}-{place}"
                if label == "difference":
                    differences[name] = matrix
                else:
                    sent[name] = _Sent(matrix, _factors(matrix))
    return sent, differences


def _kept(sent: dict[str, _Sent]) -> dict[str, _Sent]:
    """All of it, or the learned heads alone, or nothing: what a page has room for."""
    learned = {name: it for name, it in sent.items() if "-learned-" in name}
    for some in (sent, learned):
        if sum(it.numbers for it in some.values()) <= MOST_NUMBERS:
            return some
    return {}


def _factors(matrix: Array) -> tuple[Array, Array] | None:
    """Factors of a large matrix, where they are fewer numbers than itself."""
    if max(matrix.shape) <= MOST_SIDE:
        return None
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    beyond = np.sqrt(np.cumsum(values[::-1] ** 2)[::-1])  # norm of what each rank would lose
    rank = max(1, int(np.sum(beyond > LOST * beyond[0])))
    if rank * sum(matrix.shape) >= matrix.size:
        return None
    root = np.sqrt(values[:rank])
    return left[:, :rank] * root, right[:rank].T * root


def _pictured(matrix: Array) -> dict[str, Any]:
    """The numbers behind the pixels of a picture."""
    return _array(condensed(matrix), "f4") | {"step": step_of(matrix.shape), "condensed": True}


def _array(values: Array, kind: str) -> dict[str, Any]:
    data = np.ascontiguousarray(values, dtype=f"<{kind}").tobytes()
    return {"shape": list(values.shape), kind: base64.b64encode(data).decode("ascii")}
