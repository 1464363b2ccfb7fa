"""What the owner of a layer can do to its answers, so that it can be measured what it helps.

Each of these is a source for `as_oracle`, made of another source; they may be put around each
other. The source itself stays hidden, as behind an oracle.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine.checks import whole_number
from gradine.queries.asking.errors import MisuseError
from gradine.queries.asking.readout import as_numbers
from gradine.queries.asking.rounding import FloatName, rounded_to
from gradine.queries.asking.sources import Answerer, answerer_of

__all__ = ["Clipped", "Noisy", "Rounded"]

Array = NDArray[np.float64]


class _Defence:
    """A source whose answers are changed; ``setting`` tells it from others of its kind."""

    __slots__ = ("_change", "_inner", "_setting")

    def __init__(self, source: Any, change: Callable[[Array, Array], Array], setting: str) -> None:
        self._inner = answerer_of(source)
        self._change = change
        self._setting = setting
        if self._inner.one_at_a_time:
            raise MisuseError(
                f"{self._inner.name}: takes one sequence; expected a source for batches"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner.name}, {self._setting})"

    def __call__(self, X: Any) -> Array:
        """The changed answers to (n, k, d) tokens."""
        tokens = np.array(X, dtype=np.float64)
        asked = tokens.copy()  # sources may change what they are handed
        return self._change(tokens, as_numbers(self._inner.call(asked), self._inner.name))

    def _answerer(self) -> Answerer:
        inner = self._inner
        return replace(
            inner,
            call=self.__call__,
            name=repr(self),
            identity=lambda: f"{type(self).__name__} {self._setting} {inner.identity()}",
        )


class Rounded(_Defence):
    """Answers rounded to some decimals, or to a short float type.

    >>> Rounded(lambda X: X / 3.0, decimals=2)([[[1.0, 2.0]]]).tolist()
    [[[0.33, 0.67]]]
    """

    __slots__ = ()

    def __init__(
        self, source: Any, decimals: int | None = None, dtype: FloatName | None = None
    ) -> None:
        if (decimals is None) == (dtype is None):
            raise ValueError(
                f"decimals is {decimals} and dtype is {dtype}; expected exactly one of them"
            )
        if dtype is not None:
            kind = dtype
            rounded_to(np.zeros(1), kind)  # refuses what is no float type before it is asked
            super().__init__(source, lambda X, Y: rounded_to(Y, kind), f"dtype={dtype}")
        else:
            digits = whole_number("decimals", decimals, 0)
            super().__init__(source, lambda X, Y: np.round(Y, digits), f"decimals={digits}")


class Clipped(_Defence):
    """Answers with every coordinate between -largest and largest.

    >>> Clipped(lambda X: X, 1.0)([[[0.5, -2.0]]]).tolist()
    [[[0.5, -1.0]]]
    """

    __slots__ = ()

    def __init__(self, source: Any, largest: float) -> None:
        _check_size("largest", largest)
        super().__init__(source, lambda X, Y: np.clip(Y, -largest, largest), f"largest={largest}")


class Noisy(_Defence):
    """Answers with Gaussian noise of standard deviation ``sigma``.

    By default every answer has noise of its own, and asking again and again averages it away.
    With ``same_again`` the noise depends on the sequence and the seed alone, and that is no help.

    >>> veiled = Noisy(lambda X: X, sigma=0.1, same_again=True)
    >>> one, other = veiled([[[1.0, 2.0]]]), veiled([[[1.0, 2.0]]])
    >>> bool(np.array_equal(one, other)), bool(np.abs(one - [1.0, 2.0]).max() > 0)
    (True, True)
    """

    __slots__ = ()

    def __init__(self, source: Any, sigma: float, seed: int = 0, same_again: bool = False) -> None:
        _check_size("sigma", sigma)
        seed = whole_number("seed", seed, 0)
        stream = np.random.default_rng(seed)

        def add_noise(X: Array, Y: Array) -> Array:
            if not same_again:
                return Y + sigma * stream.standard_normal(Y.shape)
            noise = [_own_stream(seed, x).standard_normal(Y.shape[1:]) for x in X]
            return Y + sigma * np.stack(noise)

        setting = f"sigma={sigma}, seed={seed}" + (", same_again=True" if same_again else "")
        super().__init__(source, add_noise, setting)


def _own_stream(seed: int, x: Array) -> np.random.Generator:
    """The random numbers of one sequence."""
    digest = hashlib.sha256(np.ascontiguousarray(x).tobytes()).digest()
    return np.random.default_rng([seed, int.from_bytes(digest[:16], "little")])


def _check_size(name: str, value: float) -> None:
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name} is {value}; expected a positive finite number")
