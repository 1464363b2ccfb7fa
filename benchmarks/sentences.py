"""Tokens of real text as a layer of MiniLM meets them: the hidden states of the layers before it.

The text is the reference of the Python language, which comes with every Python. It is cut into
pieces of k word pieces; a small greedy tokenizer over the model's own vocabulary does (the model's
library is not installed).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.minilm import minilm_layer, model_folder
from gradine.checkpoint.weights import find_weights

__all__ = ["hidden_states", "pieces"]

Array = NDArray[np.float64]

EPSILON = 1e-12  # of the model's layer norm
BLOCK = 512  # sequences at a time


def pieces(text: str, vocabulary: dict[str, int]) -> Iterator[int]:
    """Word pieces, the longest that fits first; what has none is left out."""
    for word in re.findall(r"\w+|[^\w\s]", text.lower()):
        at, found = 0, []
        while at < len(word):
            mark = "##" if at else ""
            ends = (e for e in range(len(word), at, -1) if mark + word[at:e] in vocabulary)
            end = next(ends, None)
            if end is None:
                break
            found.append(vocabulary[mark + word[at:end]])
            at = end
        else:
            yield from found


def hidden_states(layer: int, count: int, seq_len: int) -> Array:
    """(count, seq_len, 384): pieces of text as the attention of ``layer`` sees them."""
    from pydoc_data.topics import topics

    folder = model_folder()
    if folder is None:
        raise FileNotFoundError("the model is not installed; it comes with the extra bench")
    lines = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    vocabulary = {piece: number for number, piece in enumerate(lines)}
    text = "\n".join(topics[name] for name in sorted(topics))
    numbers = list(dict.fromkeys(_windows(list(pieces(text, vocabulary)), seq_len)))
    if len(numbers) < count:
        raise ValueError(f"count is {count}; the text has {len(numbers)} different pieces")
    chosen = np.random.default_rng(0).permutation(len(numbers))[:count]
    ids = np.array(numbers)[chosen]
    return np.concatenate([_states(layer, ids[at : at + BLOCK]) for at in range(0, count, BLOCK)])


def _windows(numbers: list[int], seq_len: int) -> Iterator[tuple[int, ...]]:
    """Pieces that overlap by half: the same word is met with different neighbours."""
    for at in range(0, len(numbers) - seq_len + 1, max(seq_len // 2, 1)):
        yield tuple(numbers[at : at + seq_len])


@cache
def _tensor(name: str) -> Array:
    """A tensor of the model, read once."""
    weights = find_weights(model_folder() or "")
    weights.check(name)
    return weights.read(name)


def _states(layer: int, ids: NDArray[np.int64]) -> Array:
    """The model up to this layer, with dropout off and no padding."""
    from scipy.special import erf

    def norm(x: Array, name: str) -> Array:
        x = x - x.mean(axis=-1, keepdims=True)
        x /= np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + EPSILON)
        return x * _tensor(f"{name}.weight") + _tensor(f"{name}.bias")

    def dense(x: Array, name: str) -> Array:
        return x @ _tensor(f"{name}.weight").T + _tensor(f"{name}.bias")

    x = _tensor("embeddings.word_embeddings.weight")[ids]
    x = x + _tensor("embeddings.position_embeddings.weight")[: ids.shape[1]]
    x = norm(x + _tensor("embeddings.token_type_embeddings.weight")[0], "embeddings.LayerNorm")
    for i in range(layer):
        prefix = f"encoder.layer.{i}"
        attended = minilm_layer(i)(np.concatenate([x, np.ones((*x.shape[:2], 1))], axis=2))
        x = norm(x + attended, f"{prefix}.attention.output.LayerNorm")
        inner = dense(x, f"{prefix}.intermediate.dense")
        inner = 0.5 * inner * (1.0 + erf(inner / math.sqrt(2.0)))
        x = norm(x + dense(inner, f"{prefix}.output.dense"), f"{prefix}.output.LayerNorm")
    return x
