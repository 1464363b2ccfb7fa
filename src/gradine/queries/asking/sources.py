"""What can answer: a callable, a torch module, a layer, a layer file, a function named by a string.

Each becomes an `Answerer`, a function with what is known of it. That function is all an oracle
gets: behind it the layer cannot be reached.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine.attention_functions import SOFTMAX
from gradine.layer import AttentionLayer
from gradine.named import open_named
from gradine.queries.asking.limits import Anywhere, Limit
from gradine.queries.asking.readout import Rows
from gradine.queries.asking.rounding import FLOATS
from gradine.queries.asking.torch_source import handing_tensors, is_module, module_answers
from gradine.records import fingerprint

__all__ = ["Answerer", "Form", "answerer_of"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Form:
    """How a callable wants its tokens; by default as one float64 numpy array (n, k, d)."""

    #: Whether it takes one sequence (k, d) at a time.
    one_at_a_time: bool = False
    #: Float type of the torch tensors that it takes; None: it takes numpy arrays.
    tensors: str | None = None

    def __post_init__(self) -> None:
        if self.tensors is not None and self.tensors not in FLOATS:
            raise ValueError(
                f"tensors is {self.tensors!r}; expected None or one of {', '.join(FLOATS)}"
            )


@dataclass(frozen=True, eq=False)
class Answerer:
    """A function from tokens to answers, and what is known of it."""

    call: Callable[[Array], Any]
    name: str  #: for messages
    identity: Callable[[], str]  #: tells it from others in a log; may take a while
    dim: int | None = None
    out_dim: int | None = None
    one_at_a_time: bool = False
    rows: Rows = "all"
    limit: Limit = field(default_factory=Anywhere)


def answerer_of(source: Any, form: Form | None = None, name: str | None = None) -> Answerer:
    """What answers for ``source``; ``ValueError`` if it is nothing that can be asked."""
    answerer = _answerer_of(source, form or Form(), name)
    return answerer if name is None else replace(answerer, name=name)


def _answerer_of(source: Any, form: Form, name: str | None) -> Answerer:
    own = getattr(source, "_answerer", None)  # defences and oracles bring their own
    if callable(own):
        source = own()
    if isinstance(source, str | os.PathLike):
        text, source = os.fspath(source), open_named(source)
        if isinstance(source, AttentionLayer):
            source = _of_layer(source, text)
    if isinstance(source, Answerer):
        return _plain(source, form)
    if isinstance(source, AttentionLayer):
        return _plain(_of_layer(source, "layer"), form)
    if is_module(source):
        return _plain(_of_module(source), form)
    if not callable(source) or isinstance(source, type):
        kind = f"the class {source.__name__}" if isinstance(source, type) else type(source).__name__
        raise ValueError(
            f"oracle is {kind}; expected a callable, a torch module, an AttentionLayer, "
            "a layer file or module:function"
        )
    return _of_callable(source, form, name)


def _plain(answerer: Answerer, form: Form) -> Answerer:
    if form != Form():
        raise ValueError(
            f"{answerer.name}: one_at_a_time and tensors are for callables; expected neither"
        )
    return answerer


def _of_callable(source: Callable[..., Any], form: Form, given: str | None) -> Answerer:
    own = source if hasattr(source, "__qualname__") else type(source)
    name = given or f"{own.__module__}.{own.__qualname__}"
    call = source if form.tensors is None else handing_tensors(source, form.tensors)
    return Answerer(
        call,
        name,
        # What a function does cannot be seen: its name has to tell it from others.
        identity=lambda: f"callable {name} {form.tensors}",
        one_at_a_time=form.one_at_a_time,
    )


def _of_layer(layer: AttentionLayer, name: str) -> Answerer:
    if layer.function is not SOFTMAX:  # better to say so than to ask in vain
        raise ValueError(
            f"{name}: has attention {layer.function.name!r}; expected 'softmax', which is all that "
            "learning by queries is for"
        )

    def identity() -> str:
        return fingerprint(layer.theta, layer.w, layer.constant)

    # A function of its own: the method of the layer would have the layer as an attribute.
    return Answerer(lambda X: layer(X), name, identity, layer.dim, layer.out_dim)


def _of_module(module: Any) -> Answerer:
    call, identity, dim = module_answers(module)
    return Answerer(call, type(module).__name__, identity, dim, dim)
