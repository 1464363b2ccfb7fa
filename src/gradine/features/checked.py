"""What the regressors are given, checked: sequences, targets, and settings, by their names."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array

from gradine import kernels

__all__ = [
    "check_choice",
    "check_flag",
    "check_number",
    "distinct",
    "generator_of",
    "is_cv",
    "sequences",
    "targets_of",
]

Array = NDArray[np.float64]


def generator_of(random_state: Any) -> np.random.Generator:
    """What scikit-learn takes for a random state, or a generator of numpy's."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


def sequences(X: Any, name: str) -> Array:
    """(n, N + 1, d) numbers, checked."""
    if hasattr(X, "detach"):
        X = kernels.to_numpy(X.double())
    X = check_array(
        X, dtype="float64", allow_nd=True, ensure_2d=False, estimator=name, input_name="X"
    )
    if X.ndim != 3:
        raise ValueError(
            f"X has shape {X.shape}; expected (n, tokens, coordinates) with the query first. "
            "Flat rows go through FlatTokens"
        )
    if 0 in X.shape:
        raise ValueError(f"X has shape {X.shape}; expected at least one number in each axis")
    return X


def targets_of(y: Any, n: int) -> tuple[Array, bool]:
    """(n, t) targets, and whether they came as (n,)."""
    if y is None:
        raise ValueError(f"y is None; expected ({n},) or ({n}, t) targets, a row for each of X")
    if hasattr(y, "detach"):
        y = kernels.to_numpy(y.double())
    y = check_array(y, dtype="float64", ensure_2d=False, input_name="y")
    if y.ndim not in (1, 2) or len(y) != n:
        raise ValueError(f"y has shape {y.shape}; expected ({n},) or ({n}, t), a row for each of X")
    return y.reshape(n, -1), y.ndim == 1


def distinct(X: Array, y: Array) -> tuple[Array, Array, Array | None]:
    """Equal examples, as of a bootstrap, as one with the mean of their targets; and their counts.

    The fit is the same. Cross validation is not: it must leave out all that are equal at once.
    """
    places: dict[bytes, int] = {}
    groups = np.array([places.setdefault(row.tobytes(), len(places)) for row in X])
    if len(places) == len(X):
        return X, y, None
    _, first, counts = np.unique(groups, return_index=True, return_counts=True)
    sums = np.zeros((len(counts), y.shape[1]))
    np.add.at(sums, groups, y)
    return X[first], sums / counts[:, None], counts.astype(np.float64)


def check_number(name: str, value: Any, least: float, other: str = "") -> None:
    """A real number that is finite and large enough; ``other`` is what else may stand there."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not least <= float(value) < np.inf:
        expected = f"{other}a finite number of at least {least:g}"
        raise ValueError(f"{name} is {value!r}; expected {expected}")


def check_flag(name: str, value: Any) -> None:
    """True or False, of Python or numpy."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} is {value!r}; expected True or False")


def is_cv(alpha: Any) -> bool:
    """Whether cross validation chooses alpha."""
    return isinstance(alpha, str) and alpha == "cv"


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """One of a few words."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}; expected {' or '.join(map(repr, choices))}")
