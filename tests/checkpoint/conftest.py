"""Small models of the BERT family, written as their own library would write them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

BERT = ("self.query", "self.key", "self.value", "output.dense")
DISTILBERT = ("q_lin", "k_lin", "v_lin", "out_lin")
MPNET = ("attn.q", "attn.k", "attn.v", "attn.o")
DIM, HEADS, LAYERS = 12, 3, 2


@dataclass
class Model:
    """The tensors and the config of a model in a folder; change them, then write."""

    folder: Path
    prefix: str = ""
    stack: str = "encoder.layer"
    maps: tuple[str, ...] = BERT
    biased: bool = True
    tensors: dict[str, np.ndarray] = field(default_factory=dict)
    config: dict | None = None

    def __post_init__(self) -> None:
        rng = np.random.default_rng(5)

        def add(name, *shape):
            self.tensors[name] = (0.4 * rng.normal(size=shape)).astype(np.float32)

        add(f"{self.prefix}embeddings.word_embeddings.weight", 7, DIM)
        for layer in range(LAYERS):
            for name in self.maps:
                add(self.name(layer, f"{name}.weight"), DIM, DIM)
                if self.biased:
                    add(self.name(layer, f"{name}.bias"), DIM)
            add(self.name(layer, "output.LayerNorm.weight"), DIM)
            add(f"{self.prefix}{self.stack}.{layer}.output.dense.weight", DIM, 4 * DIM)
        self.tensors[f"{self.prefix}embeddings.position_ids"] = np.arange(9)
        if self.config is None:
            self.config = {"model_type": "bert", "num_attention_heads": HEADS, "hidden_size": DIM}

    def name(self, layer: int, rest: str) -> str:
        return f"{self.prefix}{self.stack}.{layer}.attention.{rest}"

    @property
    def path(self) -> Path:
        return self.folder / "model.safetensors"

    def write(self) -> Path:
        save_file(self.tensors, self.path, {"format": "pt"})
        if self.config:
            (self.folder / "config.json").write_text(json.dumps(self.config))
        return self.path

    def write_shards(self) -> Path:
        """Every other tensor in another file, and an index of all."""
        weight_map = {}
        for number in (0, 1):
            names = sorted(self.tensors)[number::2]
            shard = f"model-{number + 1:05d}-of-00002.safetensors"
            save_file({name: self.tensors[name] for name in names}, self.folder / shard)
            weight_map |= dict.fromkeys(names, shard)
        index = self.folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
        (self.folder / "config.json").write_text(json.dumps(self.config))
        return index

    def outputs(self, layer: int, X: np.ndarray) -> np.ndarray:
        """What the attention of a layer makes of one sequence, step by step as the library does."""

        def linear(x, name):
            y = x @ self.tensors[self.name(layer, f"{name}.weight")].astype(float).T
            return y + self.tensors[self.name(layer, f"{name}.bias")] if self.biased else y

        query, key, value = (
            linear(X, name).reshape(len(X), HEADS, -1).swapaxes(0, 1) for name in self.maps[:3]
        )
        scores = query @ key.swapaxes(1, 2) / np.sqrt(DIM / HEADS)
        weights = np.exp(scores)
        weights /= weights.sum(axis=-1, keepdims=True)
        context = (weights @ value).swapaxes(0, 1).reshape(len(X), -1)
        return linear(context, self.maps[3])


@pytest.fixture
def model(tmp_path) -> Model:
    return Model(tmp_path)


@pytest.fixture
def model_of(tmp_path):
    """A model of another family, or with another prefix."""
    families = {
        "BERT": {},
        "DistilBERT": {"stack": "transformer.layer", "maps": DISTILBERT},
        "MPNet": {"maps": MPNET},
    }

    def build(family="BERT", **options) -> Model:
        return Model(tmp_path, **families[family], **options)

    return build
