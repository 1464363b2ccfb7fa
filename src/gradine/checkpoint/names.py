"""How BERT and its family name the maps of an attention layer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["FAMILIES", "Family", "Stack", "choose_stack", "find_stacks"]


@dataclass(frozen=True)
class Family:
    """Names of one family: `{prefix}{stack}.{layer}.attention.{query}.weight`, and so on."""

    name: str
    stack: str
    query: str
    key: str
    value: str
    output: str


FAMILIES = (
    # RoBERTa, ELECTRA, CamemBERT, XLM-R, MiniLM and others follow BERT to the letter.
    Family("BERT", "encoder.layer", "self.query", "self.key", "self.value", "output.dense"),
    Family("DistilBERT", "transformer.layer", "q_lin", "k_lin", "v_lin", "out_lin"),
    Family("MPNet", "encoder.layer", "attn.q", "attn.k", "attn.v", "attn.o"),
)


@dataclass(frozen=True)
class Stack:
    """Layers of one family under one prefix, such as `bert.`, `0.auto_model.` or nothing."""

    family: Family
    prefix: str
    layers: tuple[int, ...]  #: in ascending order

    @property
    def start(self) -> str:
        """What the names of all layers begin with."""
        return f"{self.prefix}{self.family.stack}."

    def attention(self, layer: int) -> str:
        """What the names of a layer's attention begin with."""
        return f"{self.start}{layer}.attention."


def find_stacks(names: Iterable[str]) -> list[Stack]:
    """Every stack of layers that the names of a model's tensors show.

    >>> names = [f"bert.encoder.layer.{layer}.attention.self.query.weight" for layer in (1, 0)]
    >>> [(stack.family.name, stack.prefix, stack.layers) for stack in find_stacks(names)]
    [('BERT', 'bert.', (0, 1))]
    """
    patterns = [(family, _pattern(family)) for family in FAMILIES]
    found: dict[tuple[Family, str], list[int]] = {}
    for name in names:
        for family, pattern in patterns:
            if match := pattern.fullmatch(name):
                found.setdefault((family, match["prefix"]), []).append(int(match["layer"]))
    stacks = [Stack(*where, tuple(sorted(layers))) for where, layers in found.items()]
    return sorted(stacks, key=lambda stack: (stack.prefix, stack.family.name))


def choose_stack(stacks: list[Stack], prefix: str | None) -> Stack:
    """The one stack there is, or the one with this prefix; ``ValueError`` if that is unclear."""
    if not stacks:
        query = f"{FAMILIES[0].stack}.0.attention.{FAMILIES[0].query}.weight"
        families = " or ".join(family.name for family in FAMILIES)
        raise ValueError(f"has no attention layer named as in {families}, such as {query}")
    if prefix is not None:
        wanted = prefix.removesuffix(".")
        chosen = [stack for stack in stacks if stack.prefix.removesuffix(".") == wanted]
    else:
        chosen = stacks
    if len(chosen) != 1:
        given = "" if prefix is None else f"prefix is {prefix!r}; "
        there = ", ".join(repr(stack.prefix) for stack in stacks)
        raise ValueError(f"{given}expected one of {there}: choose the encoder by its prefix")
    return chosen[0]


def _pattern(family: Family) -> re.Pattern[str]:
    stack, query = re.escape(family.stack), re.escape(family.query)
    number = r"(?P<layer>0|[1-9][0-9]{0,5})"
    return re.compile(rf"(?P<prefix>(?:.*\.)?){stack}\.{number}\.attention\.{query}\.weight")
