"""The attention of one layer of a BERT-family model, read without the model's own library.

What is read is what self-attention and its output map compute of the tokens that go in, before
the residual and the LayerNorm. What the model does beyond that with its logits is named.
"""

from __future__ import annotations

import operator
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradine.checkpoint.names import Stack, choose_stack, find_stacks
from gradine.checkpoint.weights import Weights, find_weights
from gradine.factors import Factors
from gradine.files import read_json
from gradine.projections import Linear, Projections, factors_of

__all__ = ["CheckpointLayer", "read_checkpoint"]

CONFIG = "config.json"
ROLES = ("query", "key", "value", "output")
#: Models whose attention is known to be that of this module, by `model_type` of config.json.
KNOWN = {
    "bert",
    "camembert",
    "distilbert",
    "electra",
    "ernie",
    "layoutlm",
    "mpnet",
    "roberta",
    "xlm-roberta",
    "xlm-roberta-xl",
}
#: What config.json may say that matters here, and under which names.
CONFIG_NAMES: dict[str, tuple[str, ...]] = {
    "heads": ("num_attention_heads", "n_heads"),
    "dim": ("hidden_size", "dim"),
    "positions": ("position_embedding_type",),
    "decoder": ("is_decoder",),
    "kind": ("model_type",),
}
#: Names within an attention that are no part of its maps.
NORMS = re.compile(r".*\.(LayerNorm|ln|self_attn_layer_norm)\.\w+")
#: What adds to the logits by position: it is left out, and said.
POSITIONS = re.compile(r"(.*\.)?(distance_embedding|rel(ative)?_\w*bias|embed_positions)(\..*)?")


@dataclass(frozen=True, eq=False)
class CheckpointLayer:
    """One layer of a model, and where it comes from."""

    projections: Projections
    heads: int
    family: str
    name: str  #: what the names of its tensors begin with
    layers: int  #: how many the model has
    left_out: tuple[str, ...]  #: what the model does with its logits and this layer does not
    files: tuple[Path, ...]  #: of the model

    @property
    def constant(self) -> bool:
        """Whether the layer has biases, so that it needs the constant coordinate."""
        return self.projections.biased

    def factors(self) -> Factors:
        return factors_of(self.projections, self.heads)


def read_checkpoint(
    path: str | os.PathLike[str],
    layer: int,
    *,
    heads: int | None = None,
    prefix: str | None = None,
) -> CheckpointLayer:
    """Read the attention of one layer; only its own tensors are read.

    ``path`` is a safetensors file, the index of a sharded one, or the folder of a model. The
    number of heads is in config.json beside the file, or given. Misuse, and a file that is not
    what it should be, is a ``ValueError`` naming the argument, or the file and the tensor.
    """
    layer = _whole("layer", layer)
    heads = None if heads is None else _whole("heads", heads)
    weights = find_weights(path)
    try:
        stack = choose_stack(find_stacks(weights.files), prefix)
        _check_layer(layer, stack)
    except ValueError as error:
        raise ValueError(f"{weights.path}: {error}") from None
    start = stack.attention(layer)
    maps = {role: start + getattr(stack.family, role) for role in ROLES}
    biased = any(f"{name}.bias" in weights.files for name in maps.values())
    dim = _check_maps(weights, maps, biased)
    config = _read_config(weights.path.parent / CONFIG)
    count = _number_of_heads(weights.path, config, heads, dim)
    left_out = [*_check_rest(weights, stack, start, maps), *_beyond(config)]
    return CheckpointLayer(
        projections=Projections(**{role: _read(weights, maps[role], biased) for role in ROLES}),
        heads=count,
        family=stack.family.name,
        name=start.removesuffix("."),
        layers=len(stack.layers),
        left_out=tuple(left_out),
        files=tuple(sorted({weights.path, *weights.files.values()})),
    )


def _whole(name: str, value: int) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name} is {value!r}; expected a whole number") from None


def _check_layer(layer: int, stack: Stack) -> None:
    if layer in stack.layers:
        return
    last = len(stack.layers) - 1
    whole = stack.layers == tuple(range(last + 1))
    expected = f"0 to {last}" if whole else f"one of {', '.join(map(str, stack.layers))}"
    count = "1 layer" if last == 0 else f"{last + 1} layers"
    raise ValueError(f"layer is {layer}; expected {expected}: the model has {count}")


def _check_maps(weights: Weights, maps: dict[str, str], biased: bool) -> int:
    """The d of four maps from d to d coordinates, by the headers of their tensors."""
    query = f"{maps['query']}.weight"
    shape = weights.check(query)
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
        file = weights.files[query]
        raise ValueError(f"{file}: {query} has shape {shape}; expected a square matrix")
    for name in maps.values():
        weights.check(f"{name}.weight", shape)
        if biased:  # all of them, or none
            weights.check(f"{name}.bias", shape[:1])
    return shape[0]


def _check_rest(weights: Weights, stack: Stack, start: str, maps: dict[str, str]) -> list[str]:
    """What else the names tell of this attention: positions are left out, all else is refused."""
    own = {f"{name}.{kind}" for name in maps.values() for kind in ("weight", "bias")}
    left_out = []
    for name in weights.files:
        shared = name.startswith(stack.prefix) and not name.startswith(stack.start)
        if POSITIONS.fullmatch(name) and (shared or name.startswith(start)):
            left_out.append(f"positions, which the model adds to its logits ({name})")
        elif name.startswith(start) and name not in own and not NORMS.fullmatch(name):
            expected = f"expected {', '.join(ROLES)} and a LayerNorm only"
            raise ValueError(f"{weights.path}: has {name} in its attention; {expected}")
    return left_out


def _read(weights: Weights, name: str, biased: bool) -> Linear:
    bias = weights.read(f"{name}.bias") if biased else None
    return Linear(weights.read(f"{name}.weight"), bias)


def _read_config(path: Path) -> dict[str, Any]:
    """What config.json says that matters here, checked; empty if there is none."""
    if not path.is_file():
        return {}
    config = read_json(path)
    found = {key: _first(config, names) for key, names in CONFIG_NAMES.items()}
    for key in ("heads", "dim"):
        number = found[key]
        if number is not None and (type(number) is not int or number < 1):
            names = " or ".join(CONFIG_NAMES[key])
            raise ValueError(f"{path}: {names} is {number!r}; expected a positive integer")
    return found


def _first(config: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((config[name] for name in names if name in config), None)


def _number_of_heads(path: Path, config: dict[str, Any], heads: int | None, dim: int) -> int:
    if config.get("dim") not in (None, dim):
        there = path.parent / CONFIG
        raise ValueError(f"{there}: is of a model of {config['dim']} coordinates; expected {dim}")
    known = config.get("heads")
    if heads is None:
        heads = known
    elif known not in (None, heads):
        raise ValueError(f"heads is {heads}; expected {known}, as {path.parent / CONFIG} has it")
    if heads is None:
        raise ValueError(
            f"{path}: does not say how many heads there are, "
            f"and neither does a {CONFIG} beside it; give heads"
        )
    if heads < 1 or dim % heads:
        where = f"{path.parent / CONFIG}: " if heads == known else ""
        raise ValueError(f"{where}heads is {heads}; expected a divisor of {dim}")
    return heads


def _beyond(config: dict[str, Any]) -> list[str]:
    """What config.json says of the attention that its maps do not show."""
    found = []
    if config.get("positions") not in (None, "absolute"):
        found.append(f"positions of type {config['positions']!r}, by {CONFIG}")
    if config.get("decoder"):
        found.append(f"the mask of a decoder, by {CONFIG}")
    if config.get("kind") not in (None, *KNOWN):
        found.append(
            f"whatever a model of type {config['kind']!r}, by {CONFIG}, does with its logits"
        )
    return found
