"""Random-feature attention and the network beside it, as scikit-learn regressors."""

from __future__ import annotations

import numbers
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from gradine import kernels
from gradine.checks import whole_number
from gradine.engine import Engine, check_engine
from gradine.examples import Examples, open_examples
from gradine.features.design import Design, RidgeConfig
from gradine.features.maps import SPREAD, Activation, AttentionMap, FeatureMap, Mean, NeuronMap
from gradine.features.ridge import OVERFLOW, Ridge, best_alpha, fit_ridge, fit_within, within
from gradine.features.summed import sum_features

__all__ = ["FlatTokens", "RandomFeatureAttention", "RandomFeatureMLP"]

Array = NDArray[np.float64]

#: Tried by ``alpha="cv"``, over the mean squared norm of a row of features.
RELATIVE_ALPHAS = 10.0 ** np.arange(-8.0, 2.5, 0.5)
ROWS_FOR_SIZE = 200  # examples that this norm is taken from


class _RandomFeatureRegressor(RegressorMixin, BaseEstimator, ABC):
    """What both have in common: features are drawn, and their coefficients fitted."""

    alpha: float | Literal["cv"]
    max_norm: float | None
    fit_intercept: bool
    memory: float
    random_state: Any
    n_features_in_: int

    def fit(self, X: Any, y: Any) -> Any:
        """Draw the features, and fit their coefficients to examples (n, N + 1, d)."""
        X = _sequences(X, type(self).__name__)
        y, flat = _targets(y, len(X))
        self._check()
        self.n_tokens_, self.n_features_in_ = X.shape[1:]
        self.map_ = self._draw(X.shape[1:], _generator(self.random_state))
        X, y, counts = _distinct(X, y)
        with np.errstate(over="ignore", invalid="ignore"):  # it is refused by name
            design = Design(self.map_, X, self._config(), self.fit_intercept, counts)
            found, self.cv_ = self._solve(design, y)
        return self._fitted(found, flat)

    def fit_examples(
        self,
        examples: Examples | str | os.PathLike[str],
        *,
        engine: Engine | None = None,
        on_block: Callable[[int, Any], None] | None = None,
    ) -> Any:
        """Fit to the outputs of the first token of examples from anywhere, in one pass.

        A source of `gradine.examples`, or what `gradine.open_examples` opens. Neither examples nor
        features are held but for a block; what is held is p x p for p features, in double
        precision, a few times as often as there are workers of the ``engine``, and at most
        ``memory`` MiB. ``alpha="cv"`` is generalised cross validation, which repeated examples
        mislead: `fit` knows them, sums do not. ``on_block(seen, sums)`` hears of progress.
        """
        if not isinstance(examples, Examples | str | os.PathLike):
            raise ValueError(
                f"examples is {type(examples).__name__}; expected a source of gradine.examples or "
                "what open_examples opens; arrays go through fit"
            )
        if not isinstance(examples, Examples):
            examples = open_examples(examples)
        check_engine(engine)
        self._check()
        self.n_tokens_, self.n_features_in_ = examples.seq_len, examples.dim
        shape = (self.n_tokens_, self.n_features_in_)
        self.map_ = self._draw(shape, _generator(self.random_state))
        allowed, part = int(self.memory * 2**20), self._config().block_bytes
        centered, self.cv_ = bool(self.fit_intercept), None
        path = sum_features(self.map_, examples, allowed, part, centered, engine, on_block)
        if self.max_norm is not None:
            found = within(path, self.max_norm)
        elif not _is_cv(self.alpha):
            found = path.solution(max(float(self.alpha), path.least_alpha))
        else:
            alphas = path.size * RELATIVE_ALPHAS
            found, errors = path.best(alphas)
            self.cv_ = {"alphas": alphas, "errors": errors}
        return self._fitted(found, flat=examples.out_dim == 1)

    def _fitted(self, found: Ridge, flat: bool) -> Any:
        self.coef_, self.intercept_, self.alpha_ = found.coefficients, found.intercept, found.alpha
        if np.size(self.alpha_) == 1:
            self.alpha_ = float(np.ravel(self.alpha_)[0])
        self.solver_, self.n_iter_ = found.method, found.iterations
        if flat:
            self.coef_, self.intercept_ = self.coef_[:, 0], float(self.intercept_[0])
            if self.cv_ is not None:
                self.cv_["errors"] = self.cv_["errors"][:, 0]
        return self

    def predict(self, X: Any) -> Array:
        """Predictions (n,), or (n, t) for vector targets."""
        check_is_fitted(self)
        X = _sequences(X, type(self).__name__)
        if X.shape[1:] != (self.n_tokens_, self.n_features_in_):
            raise ValueError(
                f"X has {X.shape[1]} tokens of {X.shape[2]} coordinates; {type(self).__name__} was "
                f"fitted to {self.n_tokens_} tokens of {self.n_features_in_}"
            )
        coefficients = self.coef_.reshape(self.map_.n_features, -1)
        with np.errstate(over="ignore", invalid="ignore"):
            outputs = Design(self.map_, X, self._config(), centered=False).times(coefficients)
        if not np.isfinite(outputs).all():
            raise ValueError(OVERFLOW)
        return outputs.reshape(len(X), *self.coef_.shape[1:]) + self.intercept_

    def _config(self) -> RidgeConfig:
        allowed = max(int(self.memory * 2**20), 1)
        return RidgeConfig(block_bytes=min(allowed, RidgeConfig.block_bytes), kept_bytes=allowed)

    @abstractmethod
    def _draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> FeatureMap:
        """The features, for sequences of this many tokens and coordinates."""

    def _check(self) -> None:
        if not _is_cv(self.alpha):
            _number("alpha", self.alpha, 0.0, "'cv' or ")
        _truth("fit_intercept", self.fit_intercept)
        if self.max_norm is not None:
            _number("max_norm", self.max_norm, 0.0)
        _number("memory", self.memory, 0.0)

    def _solve(self, design: Design, y: Array) -> tuple[Ridge, dict[str, Array] | None]:
        if self.max_norm is not None:
            return fit_within(design, y, self.max_norm), None
        if not _is_cv(self.alpha):
            return fit_ridge(design, y, max(float(self.alpha), np.finfo(float).tiny)), None
        rows = np.arange(min(ROWS_FOR_SIZE, design.n))
        squares = sum(float(np.sum(block**2)) for _, block in design.blocks(np.float64, rows))
        size = squares / float(design.counts[rows].sum()) or 1.0
        if not np.isfinite(size):
            raise ValueError(OVERFLOW)
        alphas = size * RELATIVE_ALPHAS
        found, errors = best_alpha(design, y, alphas)
        return found, {"alphas": alphas, "errors": errors}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.target_tags.multi_output = True
        return tags


class RandomFeatureAttention(_RandomFeatureRegressor):
    r"""Attention heads with random, frozen query-key matrices and fitted values [FGBM23].

    .. math:: f(X) = \sum_{h=1}^{M} \frac1N \sum_{i=1}^{N}
              \sigma(\tilde x_0^\top A_h \tilde x_i) \langle v_h, \tilde x_i \rangle,
              \qquad \tilde x = [x; 1]

    The first token of a sequence is the query :math:`x_0`. Entries of :math:`A_h` are Gaussian with
    standard deviation ``scale``; ``mean="identity"`` adds the identity on the first d coordinates
    (BRFA), so that heads begin with the similarity of query and key. ``activation="softmax"``
    attends as a transformer does, without the :math:`1/N`.

    Values minimise the squared error plus ``alpha`` times their squared norm. ``alpha="cv"`` is
    chosen by the error on examples that are left out, one at a time and with all that are equal to
    it, in closed form, and for each output on its own: ``alpha_`` is a number, or one for each of
    several outputs, and ``cv_`` holds the alphas and their errors. Beyond 10,000 examples and
    features it is generalised cross validation. With ``max_norm`` the norm is bounded instead, as
    in the theory, and alpha does not matter. Features that are kept, and what it takes to make
    some, are at most ``memory`` MiB each: where all do not fit, they are made again in every pass
    over the examples.

    >>> import numpy as np
    >>> from gradine import RandomFeatureAttention
    >>> X = np.random.default_rng(0).standard_normal((600, 5, 3))
    >>> y = np.mean(X[:, 1:, 0] ** 2, axis=1)
    >>> model = RandomFeatureAttention(n_heads=100, random_state=0).fit(X[:500], y[:500])
    >>> model.score(X[500:], y[500:]) > 0.9
    True
    """

    def __init__(
        self,
        n_heads: int = 1000,
        mean: Mean = "zero",
        activation: Activation = "relu",
        alpha: float | Literal["cv"] = "cv",
        *,
        scale: float = SPREAD,
        max_norm: float | None = None,
        fit_intercept: bool = True,
        memory: float = 2048.0,
        random_state: Any = None,
    ) -> None:
        self.n_heads = n_heads
        self.mean: Mean = mean
        self.activation: Activation = activation
        self.alpha: float | Literal["cv"] = alpha
        self.scale = scale
        self.max_norm = max_norm
        self.fit_intercept = fit_intercept
        self.memory = memory
        self.random_state = random_state

    def _draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> FeatureMap:
        if shape[0] < 2:
            raise ValueError(f"X has {shape[0]} token; expected a query and at least one key")
        return AttentionMap.draw(
            self.n_heads, shape[1], self.mean, self.activation, rng, self.scale
        )

    def _check(self) -> None:
        super()._check()
        whole_number("n_heads", self.n_heads, 1)
        _number("scale", self.scale, 0.0)
        _one_of("mean", self.mean, ("zero", "identity"))
        _one_of("activation", self.activation, ("relu", "softmax"))


class RandomFeatureMLP(_RandomFeatureRegressor):
    r"""A two-layer network with random, frozen neurons on all tokens side by side.

    .. math:: f(X) = \sum_{m=1}^{M} v_m\, \mathrm{relu}(\langle a_m, [x_0; \ldots; x_N; 1] \rangle)

    It knows nothing of tokens: permuting keys permutes what its neurons see. Other parameters are
    those of `RandomFeatureAttention`.
    """

    def __init__(
        self,
        n_neurons: int = 17_000,
        alpha: float | Literal["cv"] = "cv",
        *,
        scale: float = SPREAD,
        max_norm: float | None = None,
        fit_intercept: bool = True,
        memory: float = 2048.0,
        random_state: Any = None,
    ) -> None:
        self.n_neurons = n_neurons
        self.alpha: float | Literal["cv"] = alpha
        self.scale = scale
        self.max_norm = max_norm
        self.fit_intercept = fit_intercept
        self.memory = memory
        self.random_state = random_state

    def _draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> FeatureMap:
        return NeuronMap.draw(self.n_neurons, shape[0] * shape[1], rng, self.scale)

    def _check(self) -> None:
        super()._check()
        whole_number("n_neurons", self.n_neurons, 1)
        _number("scale", self.scale, 0.0)


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

    def __init__(self, estimator: Any = None, token_dim: int = 1, positions: bool = True) -> None:
        self.estimator = estimator
        self.token_dim = token_dim
        self.positions = positions

    def fit(self, X: Any, y: Any) -> FlatTokens:
        """Fit the estimator to rows (n, L), L a multiple of ``token_dim``."""
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        whole_number("token_dim", self.token_dim, 1)
        _truth("positions", self.positions)
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


def _generator(random_state: Any) -> np.random.Generator:
    """What scikit-learn takes for a random state, or a generator of numpy's."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


def _sequences(X: Any, name: str) -> Array:
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


def _targets(y: Any, n: int) -> tuple[Array, bool]:
    """(n, t) targets, and whether they came as (n,)."""
    if y is None:
        raise ValueError(f"y is None; expected ({n},) or ({n}, t) targets, a row for each of X")
    if hasattr(y, "detach"):
        y = kernels.to_numpy(y.double())
    y = check_array(y, dtype="float64", ensure_2d=False, input_name="y")
    if y.ndim not in (1, 2) or len(y) != n:
        raise ValueError(f"y has shape {y.shape}; expected ({n},) or ({n}, t), a row for each of X")
    return y.reshape(n, -1), y.ndim == 1


def _distinct(X: Array, y: Array) -> tuple[Array, Array, Array | None]:
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


def _number(name: str, value: Any, least: float, other: str = "") -> None:
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not least <= float(value) < np.inf:
        expected = f"{other}a finite number of at least {least:g}"
        raise ValueError(f"{name} is {value!r}; expected {expected}")


def _truth(name: str, value: Any) -> None:
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} is {value!r}; expected True or False")


def _is_cv(alpha: Any) -> bool:
    return isinstance(alpha, str) and alpha == "cv"


def _one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}; expected {' or '.join(map(repr, choices))}")
