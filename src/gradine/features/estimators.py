"""Random-feature attention and the network beside it, as scikit-learn regressors."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from gradine.checks import whole_number
from gradine.engine import Engine, check_engine
from gradine.examples import Examples, open_examples
from gradine.features.checked import (
    check_choice,
    check_flag,
    check_number,
    distinct,
    generator_of,
    is_cv,
    sequences,
    targets_of,
)
from gradine.features.design import Design, RidgeConfig
from gradine.features.maps import SPREAD, Activation, AttentionMap, FeatureMap, Mean, NeuronMap
from gradine.features.ridge import OVERFLOW, Ridge, best_alpha, fit_ridge, fit_within, within
from gradine.features.summed import sum_features

__all__ = ["RandomFeatureAttention", "RandomFeatureMLP"]

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
    n_tokens_: int
    map_: FeatureMap
    coef_: Array
    intercept_: float | Array
    alpha_: float | Array
    solver_: str
    n_iter_: int
    cv_: dict[str, Array] | None

    def fit(self, X: Any, y: Any) -> Any:
        """Draw the features, and fit their coefficients to examples (n, N + 1, d)."""
        X = sequences(X, type(self).__name__)
        y, flat = targets_of(y, len(X))
        self._check()
        self.n_tokens_, self.n_features_in_ = X.shape[1:]
        self.map_ = self._draw(X.shape[1:], generator_of(self.random_state))
        X, y, counts = distinct(X, y)
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
        self.map_ = self._draw(shape, generator_of(self.random_state))
        allowed, part = int(self.memory * 2**20), self._config().block_bytes
        centered, self.cv_ = bool(self.fit_intercept), None
        path = sum_features(self.map_, examples, allowed, part, centered, engine, on_block)
        if self.max_norm is not None:
            found = within(path, self.max_norm)
        elif not is_cv(self.alpha):
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
            self.coef_, self.intercept_ = self.coef_[:, 0], float(found.intercept[0])
            if self.cv_ is not None:
                self.cv_["errors"] = self.cv_["errors"][:, 0]
        return self

    def predict(self, X: Any) -> Array:
        """Predictions (n,), or (n, t) for vector targets."""
        check_is_fitted(self)
        X = sequences(X, type(self).__name__)
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
        if not is_cv(self.alpha):
            check_number("alpha", self.alpha, 0.0, "'cv' or ")
        check_flag("fit_intercept", self.fit_intercept)
        if self.max_norm is not None:
            check_number("max_norm", self.max_norm, 0.0)
        check_number("memory", self.memory, 0.0)

    def _solve(self, design: Design, y: Array) -> tuple[Ridge, dict[str, Array] | None]:
        if self.max_norm is not None:
            return fit_within(design, y, self.max_norm), None
        if not is_cv(self.alpha):
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
        check_number("scale", self.scale, 0.0)
        check_choice("mean", self.mean, ("zero", "identity"))
        check_choice("activation", self.activation, ("relu", "softmax"))


class RandomFeatureMLP(_RandomFeatureRegressor):
    r"""A two-layer network with random, frozen neurons on all tokens side by side.

    .. math:: f(X) = \sum_{m=1}^{M} v_m\, \mathrm{relu}(\langle a_m, [x_0; \ldots; x_N; 1] \rangle)

    It knows nothing of tokens: permuting keys permutes what its neurons see. Other parameters are
    those of `RandomFeatureAttention`.

    >>> import numpy as np
    >>> from gradine import RandomFeatureMLP
    >>> X = np.random.default_rng(0).standard_normal((300, 2, 3))
    >>> model = RandomFeatureMLP(n_neurons=100, random_state=0).fit(X[:200], X[:200, 1, 0])
    >>> model.score(X[200:], X[200:, 1, 0]) > 0.9
    True
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
        check_number("scale", self.scale, 0.0)
