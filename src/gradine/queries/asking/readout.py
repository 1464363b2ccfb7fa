"""What of an answer is visible: every row, the row of the last token, or one number of that.

Whatever it is, answers have three axes: (n, k, d_out) for every row, (n, 1, d_out) for the last
one, (n, 1, 1) for one coordinate of it. The papers on queries have the last: a scalar oracle.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from array_api_compat import is_torch_array
from numpy.typing import NDArray

from gradine.queries.asking.errors import MisuseError

__all__ = ["Readout", "Rows", "as_numbers"]

Array = NDArray[np.float64]
Rows = Literal["all", "last"]


@dataclass(frozen=True)
class Readout:
    """Rows that are visible, and the one coordinate of them that is; None: all of them."""

    rows: Rows = "all"
    output: int | None = None

    def __post_init__(self) -> None:
        if self.rows not in ("all", "last"):
            raise ValueError(f"rows is {self.rows!r}; expected 'all' or 'last'")
        if self.output is None:
            return
        try:
            output = operator.index(self.output)
        except TypeError:
            output = -1
        if output < 0:
            raise ValueError(f"output is {self.output!r}; expected None or a coordinate from 0")
        object.__setattr__(self, "output", output)

    def n_rows(self, k: int) -> int:
        """Rows of an answer to k tokens."""
        return k if self.rows == "all" else 1

    def read(self, answer: Any, shape: tuple[int, ...], name: str) -> Array:
        """The visible part of an answer to tokens (n, k, d); `MisuseError` if it has another shape.

        To tokens (k, d) the answer is that to one sequence: it lacks the first axis, and gets it
        here. A source that gives no more than the last row may leave out axes of length one.
        """
        raw = as_numbers(answer, name)
        came, k = raw.shape, shape[-2]
        expected = _expected(shape[:-1], self.rows)
        if len(shape) == 2:
            raw = raw[None]
        n = shape[0] if len(shape) == 3 else 1
        if self.rows == "last" and raw.ndim in (1, 2):  # (n,) and (n, d_out)
            raw = raw.reshape(len(raw), 1, -1) if raw.size else raw
        lengths = (k,) if self.rows == "all" else (k, 1)
        if raw.ndim != 3 or raw.shape[0] != n or raw.shape[1] not in lengths or raw.size == 0:
            raise MisuseError(f"{name}: answer has shape {came}; expected {expected}")
        raw = raw[:, -self.n_rows(k) :]
        if self.output is None:
            return raw
        if self.output >= raw.shape[2]:
            raise MisuseError(
                f"{name}: output is {self.output}; expected less than {raw.shape[2]}, "
                "the coordinates of an answer"
            )
        return raw[:, :, self.output : self.output + 1]


def _expected(lengths: tuple[int, ...], rows: Rows) -> str:
    """The shapes that an answer may have, in words."""
    whole = f"({', '.join(map(str, lengths))}, d_out)"
    if rows == "all":
        return whole
    n = "" if len(lengths) == 1 else f"{lengths[0]}, "
    return f"{whole}, ({n}d_out) or {f'({n[:-1]})' if n else 'a number'}"


def as_numbers(answer: Any, name: str) -> Array:
    """An answer as a float64 array; `MisuseError` if it is none of real numbers."""
    if is_torch_array(answer):
        answer = answer.detach().cpu()
        answer = answer.double().numpy() if answer.is_floating_point() else answer.numpy()
    elif isinstance(answer, tuple):  # several outputs: which of them is meant cannot be known
        raise MisuseError(f"{name}: answer is a tuple of {len(answer)}; expected one array")
    try:
        raw = np.asarray(answer)
    except ValueError as error:
        raise MisuseError(f"{name}: answer is no array ({error})") from error
    if raw.dtype.kind not in "fiu":
        kind = type(answer).__name__ if raw.dtype.kind == "O" else f"of dtype {raw.dtype}"
        raise MisuseError(f"{name}: answer is {kind}; expected an array of real numbers")
    return raw.astype(np.float64)
