"""A layer that answers: questions are checked, counted, sent in batches, tried again, logged.

A learner gets an `Oracle` and nothing else. It can ask, and see what asking has cost; what answers
lies behind a function and is no part of the public face.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradine.checks import whole_number
from gradine.queries.asking.config import OracleConfig
from gradine.queries.asking.courier import Courier, Usage
from gradine.queries.asking.errors import MisuseError
from gradine.queries.asking.limits import Anywhere, Limit
from gradine.queries.asking.log import AnswerLog
from gradine.queries.asking.readout import Readout, Rows
from gradine.queries.asking.sources import Answerer, answerer_of
from gradine.records import fingerprint

__all__ = ["Oracle", "as_oracle"]

Array = NDArray[np.float64]


class Oracle:
    """Something that maps sequences of tokens to sequences of outputs; made by `as_oracle`.

    >>> import gradine
    >>> oracle = as_oracle(gradine.plant(heads=2, dim=4))
    >>> oracle.ask(np.ones((5, 3, 4))).shape, oracle.queries_used, oracle.rows_used
    ((5, 3, 4), 5, 15)

    >>> boxed = as_oracle(gradine.plant(heads=2, dim=4), limit=gradine.Box(-1.0, 1.0))
    >>> round(boxed.largest_norm(), 6), round(boxed.largest_entry(), 6)
    (1.0, 1.0)
    """

    __slots__ = ("_courier", "_limit", "_source", "dim", "readout")

    dim: int  #: d, the coordinates of a token
    readout: Readout  #: which part of an answer is visible

    def __init__(self, source: Answerer, dim: int, readout: Readout, courier: Courier) -> None:
        self.dim, self.readout = dim, readout
        self._source = source
        self._limit = source.limit
        self._courier = courier

    def __repr__(self) -> str:
        return f"Oracle({self.name!r}, dim={self.dim}, queries_used={self.queries_used})"

    @property
    def name(self) -> str:
        return self._courier.name

    @property
    def options(self) -> str:
        """What is visible and where tokens may lie, as arguments of `as_oracle`; empty: everything,
        anywhere."""
        readout, given = self.readout, []
        if readout.rows != "all":
            given.append(f"rows={readout.rows!r}")
        if readout.output is not None:
            given.append(f"output={readout.output}")
        if not isinstance(self._limit, Anywhere):
            given.append(f"limit=gradine.{self._limit!r}")
        return ", ".join(given)

    @property
    def out_dim(self) -> int | None:
        """Coordinates of an answer; None as long as that is not known."""
        return self._courier.out_dim

    @property
    def usage(self) -> Usage:
        """What asking has cost so far."""
        return self._courier.usage

    @property
    def queries_used(self) -> int:
        """Sequences sent so far; with a log, by the run that is resumed, too."""
        return self.usage.queries_used

    @property
    def rows_used(self) -> int:
        """Rows of all answers so far: one a token, or one a sequence if only the last is seen."""
        return self.usage.rows_used

    @property
    def seconds(self) -> float:
        """Spent in the oracle so far."""
        return self.usage.seconds

    @property
    def max_queries(self) -> int | None:
        """The budget that `queries_used` must not exceed; None: there is none."""
        return self._courier.budget

    @max_queries.setter
    def max_queries(self, value: int | None) -> None:
        self._courier.budget = None if value is None else whole_number("max_queries", value, 0)

    @property
    def queries_left(self) -> int | None:
        """What is left of the budget; None: any number."""
        budget = self.max_queries
        return None if budget is None else max(budget - self.queries_used, 0)

    @property
    def center(self) -> Array:
        """The token with the most room around it: zero, unless a box lies elsewhere."""
        return self._limit.center(self.dim)

    def largest_norm(self, about: ArrayLike | None = None) -> float:
        """The largest s such that about + v may be sent for every v with a norm of s.

        ``about`` is a token, by default `center`. Without a limit this is infinite.
        """
        return self._limit.room(self._token(about))[0]

    def largest_entry(self, about: ArrayLike | None = None) -> float:
        """The same for every v with entries between -s and s."""
        return self._limit.room(self._token(about))[1]

    def ask(self, X: ArrayLike) -> Array:
        """The answers to tokens (n, k, d), as float64: (n, k, d_out).

        If only the last token is visible, they are (n, 1, d_out); if only one coordinate is,
        d_out is 1. Questions that the log holds are not sent. `BudgetSpent` if the others are more
        than is left of the budget, before any of them is sent; `OracleFailed` if the oracle does
        not answer; ``ValueError`` if tokens must not be sent, or answers have another shape.
        """
        return self._courier.answers(self._questions(X))

    __call__ = ask

    def _questions(self, X: ArrayLike) -> Array:
        tokens = np.ascontiguousarray(X, dtype=np.float64)
        if tokens.ndim != 3 or tokens.size == 0 or tokens.shape[2] != self.dim:
            raise MisuseError(f"X has shape {tokens.shape}; expected (n, k, {self.dim})")
        if not np.isfinite(tokens).all():
            raise MisuseError("X has entries that are not finite; expected finite numbers")
        outside = self._limit.outside(tokens)
        if outside.any():
            first = tuple(int(i) for i in np.argwhere(outside)[0])
            raise MisuseError(
                f"X has {int(outside.sum())} tokens outside {self._limit!r}, the first one at "
                f"{first}; expected none, and nothing was sent"
            )
        return tokens

    def _token(self, about: ArrayLike | None) -> Array:
        if about is None:
            return self.center
        token = np.asarray(about, dtype=np.float64)
        if token.shape != (self.dim,):
            raise MisuseError(f"about has shape {token.shape}; expected ({self.dim},)")
        if self._limit.outside(token[None, None]).any():
            raise MisuseError(
                f"about lies outside {self._limit!r}; expected a token that may be sent"
            )
        return token

    def _answerer(self) -> Answerer:
        """This oracle as a source of another one, which then asks by way of it."""
        seen = [self.readout.rows, self.readout.output]
        return replace(
            self._source,
            call=self.ask,
            identity=lambda: fingerprint([self._source.identity(), *seen]),
            dim=self.dim,
            out_dim=self.out_dim,
            one_at_a_time=False,
            rows=self.readout.rows,
        )


def as_oracle(
    source: Any,
    dim: int | None = None,
    *,
    rows: Rows | None = None,
    output: int | None = None,
    limit: Limit | None = None,
    log: AnswerLog | None = None,
    config: OracleConfig | None = None,
    on_answer: Callable[[int], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Oracle:
    """An oracle that asks ``source``, which stays hidden behind it.

    ``source`` is a callable from tokens (n, k, d) to outputs (n, k, d_out), a torch module, an
    `AttentionLayer`, the path of a layer file, "module:function", or a defence such as `Rounded`;
    an oracle comes back as it is. ``dim`` is d, where the source does not tell. With
    ``rows="last"`` only the row of the last token is visible, with ``output`` only that coordinate
    of a row; both together are the scalar oracle of the papers. ``limit`` is a `Box` or a `Ball`
    that no token leaves. Answers go to ``log`` as they arrive, and ``on_answer`` hears of them by
    the number of queries used. ``sleep`` passes the seconds between retries.

    >>> oracle = as_oracle(lambda X: X.mean(axis=1, keepdims=True) + 0 * X, dim=2, rows="last")
    >>> oracle.ask([[[1.0, 0.0], [3.0, 0.0]]])
    array([[[2., 0.]]])
    """
    if isinstance(source, Oracle):
        if any(option is not None for option in (rows, output, limit, log, config, on_answer)):
            raise ValueError("source is an Oracle already; expected options where it was made")
        _dim_of(source.name, dim, source.dim)
        return source
    config = OracleConfig() if config is None else config
    answerer = answerer_of(source, config.form(), config.name)
    if limit is not None:
        answerer = replace(answerer, limit=limit)
    if answerer.rows == "last" and rows == "all":
        raise ValueError("rows is 'all'; expected 'last', as the source shows no other row")
    readout = Readout(rows or answerer.rows, output)
    dim = _dim_of(answerer.name, dim, answerer.dim)
    answerer.limit.check(dim)
    courier = Courier(answerer, readout, config, on_answer, sleep)
    if log is not None:
        log.begin(fingerprint([answerer.identity(), dim, readout.rows, output]))
        courier.log = log
    return Oracle(answerer, dim, readout, courier)


def _dim_of(name: str, given: int | None, known: int | None) -> int:
    if given is None and known is None:
        raise ValueError(f"{name}: dim is not given; expected the coordinates of a token")
    if given is None:
        assert known is not None
        return known
    given = whole_number("dim", given, 1)
    if known is not None and given != known:
        raise ValueError(f"{name}: dim is {given}; expected {known}")
    return given
