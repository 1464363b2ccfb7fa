"""Random-feature attention for tables: rows of numbers as sequences of tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from gradine.checks import whole_number
from gradine.features.checked import check_flag
from gradine.features.estimators import RandomFeatureAttention

__all__ = ["FlatTokens"]

Array = NDArray[np.float64]


class FlatTokens(RegressorMixin, BaseEstimator):
    """A regressor of sequences for flat rows: each row is tokens of ``token_dim`` numbers.

    With it, pipelines, grid search and cross validation take random-feature attention as any other
    regressor of tables. The first token is the query; a row that is one token is its own key. Heads
    do not see the order of keys, and columns of a table are not interchangeable: ``positions``
    appends to each token which one it is, as a unit vector.

    >>> import numpy as np
    >>> from gradine import FlatTokens, RandomFeatureAttention
    >>> rows = np.random.default_rng(0).standard_normal((100, 12))
    >>> model = FlatTokens(RandomFeatureAttention(n_heads=20, random_state=0), token_dim=4)
    >>> model.fit(rows, rows[:, 4]).predict(rows).shape
    (100,)
    """

    estimator_: Any

    def __init__(self, estimator: Any = None, token_dim: int = 1, positions: bool = True) -> None:
        self.estimator = estimator
        self.token_dim = token_dim
        self.positions = positions

    def fit(self, X: Any, y: Any) -> FlatTokens:
        """Fit the estimator to rows (n, L), L a multiple of ``token_dim``."""
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        whole_number("token_dim", self.token_dim, 1)
        check_flag("positions", self.positions)
        if X.shape[1] % self.token_dim:
            raise ValueError(
                f"X has rows of {X.shape[1]} numbers; expected a multiple of "
                f"token_dim = {self.token_dim}"
            )
        # A table has one answer: with no estimator given, the heads are always the same.
        default = RandomFeatureAttention(random_state=0)
        estimator = default if self.estimator is None else self.estimator
        copy: Any = clone(estimator)
        self.estimator_ = copy.fit(self._tokens(X), y)
        return self

    def predict(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self.estimator_.predict(self._tokens(X))

    def _tokens(self, X: Array) -> Array:
        tokens = X.reshape(len(X), -1, self.token_dim)
        if self.positions:
            n, count, _ = tokens.shape
            where = np.broadcast_to(np.eye(count), (n, count, count))
            tokens = np.concatenate([tokens, where], axis=2)
        return tokens if tokens.shape[1] > 1 else np.repeat(tokens, 2, axis=1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
