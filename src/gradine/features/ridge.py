"""Ridge regression on features that are made block by block and never held all at once.

    minimise over C   |Y - Phi C|^2 + alpha |C|^2,        Phi (n, p), by rows of examples.

Where the smaller of n and p is small, its Gram matrix, Phi^T Phi or Phi Phi^T, is summed up in one
pass and solved in double precision; its eigenvalues give the error of generalised cross validation
[GHW79] for every alpha at once:

    GCV(alpha) = n |Y - Phi C|^2 / (n - trace of the smoother)^2.

Where both are large, conjugate gradients work on the p unknowns, preconditioned by the Gram matrix
of a sample of the examples,

    P = (n / s) Phi_S^T Phi_S + alpha I,

which has the large eigenvalues right and needs s x s solves only. Products are in single precision,
and a residual in double precision is corrected for until it is small.

[Hut90] Hutchinson, A stochastic estimator of the trace, Commun. Stat. Simul. 19 (1990) 433-450.
[GHW79] Golub, Heath, Wahba, Generalized cross-validation, Technometrics 21 (1979) 215-223.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine.features.maps import FeatureMap

__all__ = [
    "Design",
    "Ridge",
    "RidgeConfig",
    "best_alpha",
    "conjugate_gradients",
    "fit_ridge",
    "fit_within",
]

Array = NDArray[np.float64]

BISECTIONS = 200
STUCK = 0.5  # a correction that leaves more than this leads nowhere
RISES = 3  # alphas in a row at which the error rises, before the rest is left out
SOLVED = 1e-6  # relative gradient at which a solution counts as one
PROBES = 8  # random vectors that a trace is estimated by
ROUGH = 2e-5  # what one solve in single precision leaves, before it is corrected for

#: Called with the share of the work that is done.
Progress = Callable[[float], None]


@dataclass(frozen=True)
class RidgeConfig:
    """Settings of the solver."""

    #: Bytes that are taken by making features.
    block_bytes: int = 2**27
    #: Bytes up to which features are kept from one pass to the next.
    kept_bytes: int = 2**31
    #: The smaller of n and p up to which a Gram matrix is formed in double precision.
    dense: int = 5000
    #: The same for eigenvalues, which take twenty times as long as one solution.
    spectral: int = 10_000
    #: Examples in the preconditioner: few if features are kept and a pass takes little.
    sample: tuple[int, int] = (4500, 10_000)
    #: Relative size of the gradient at which conjugate gradients are done.
    tolerance: float = 1e-8
    #: Iterations of one solve in single precision, and such solves.
    iterations: int = 200
    corrections: int = 8


@dataclass(frozen=True, eq=False)
class Ridge:
    """A solution: predictions are Phi(X) @ coefficients + intercept."""

    coefficients: Array  #: (p, t)
    intercept: Array  #: (t,)
    alpha: float
    method: str  #: "primal", "dual" or "iterative"
    iterations: int  #: of conjugate gradients


class Design:
    """Features of examples, centered if there is an intercept, in one precision or the other."""

    def __init__(self, features: FeatureMap, X: Array, config: RidgeConfig, centered: bool) -> None:
        self.features, self.X, self.config, self.centered = features, X, config, centered
        self.n, self.p = len(X), features.n_features
        self._kept: NDArray | None = None

    @cached_property
    def means(self) -> Array:
        """Of the features, if these are centered."""
        total = np.zeros(self.p)
        if self.centered:
            for _, block in self._made(np.float64, self.X):
                total += block.sum(axis=0)
        return total / self.n

    @cached_property
    def sample(self) -> _Sample:
        return _Sample(self)

    def keep(self, dtype: type) -> bool:
        """Keep the features in one precision from now on, where that is allowed."""
        if (
            self._kept is None
            and np.dtype(dtype).itemsize * self.n * self.p <= self.config.kept_bytes
        ):
            kept = np.empty((self.n, self.p), dtype)
            if dtype is np.float32:
                for part, block in self.blocks(dtype):
                    kept[part] = block
            else:  # good enough for the means, too
                for part, block in self._made(dtype, self.X):
                    kept[part] = block
                self.means = kept.mean(axis=0) if self.centered else np.zeros(self.p)
                kept -= self.means
            self._kept = kept
        return self._kept is not None and self._kept.dtype == dtype

    def blocks(self, dtype: type, rows: NDArray[np.intp] | None = None) -> Iterator:
        """Pairs of a slice of the examples (or of ``rows``) and their features."""
        if self._kept is not None and self._kept.dtype == dtype:
            for part in self._parts(dtype, self.n if rows is None else len(rows)):
                yield part, self._kept[part if rows is None else rows[part]]
            return
        means = self.means.astype(dtype)
        for part, block in self._made(dtype, self.X if rows is None else self.X[rows]):
            if self.centered:
                block -= means
            yield part, block

    def _parts(self, dtype: type, count: int) -> Iterator[slice]:
        numbers = self.features.numbers(self.X.shape[1])
        step = max(1, self.config.block_bytes // (numbers * np.dtype(dtype).itemsize))
        for start in range(0, count, step):
            yield slice(start, min(start + step, count))

    def _made(self, dtype: type, X: Array) -> Iterator:
        """The same without kept ones, and not centered."""
        for part in self._parts(dtype, len(X)):
            yield part, self.features(X[part].astype(dtype))

    def times(self, C: NDArray, dtype: type = np.float64) -> NDArray:
        """Phi C."""
        out = np.empty((self.n, C.shape[1]), dtype)
        for part, block in self.blocks(dtype):
            out[part] = block @ C
        return out

    def transposed(self, U: NDArray, dtype: type = np.float64) -> NDArray:
        """Phi^T U."""
        out = np.zeros((self.p, U.shape[1]), dtype)
        if "means" not in self.__dict__ and self.centered:  # one pass for both
            total = np.zeros(self.p)
            for part, block in self._made(np.float64, self.X):
                total += block.sum(axis=0)
                out += block.T @ U[part]
            self.means = total / self.n
            return out - np.outer(self.means, U.sum(axis=0)).astype(dtype)
        for part, block in self.blocks(dtype):
            out += block.T @ U[part]
        return out

    def curvature(self, C: NDArray, dtype: type) -> NDArray:
        """Phi^T Phi C in one pass."""
        out = np.zeros_like(C)
        for _, block in self.blocks(dtype):
            out += block.T @ (block @ C)
        return out

    def gram(self) -> Array:
        """Phi^T Phi."""
        self.keep(np.float64)
        gram = np.zeros((self.p, self.p))
        for _, block in self.blocks(np.float64):
            gram += block.T @ block
        return gram

    def kernel(self) -> Array:
        """Phi Phi^T, over parts of the features: all examples are held, of few features."""
        if self.keep(np.float64):
            assert self._kept is not None
            return self._kept @ self._kept.T
        kernel = np.zeros((self.n, self.n))
        group = self.features.group
        numbers = self.features.part(0, group).numbers(self.X.shape[1])
        step = max(1, self.config.block_bytes // (8 * self.n * numbers)) * group
        X = self.X.astype(np.float64)
        for start in range(0, self.p, step):
            stop = min(start + step, self.p)
            block = self.features.part(start, stop)(X) - self.means[start:stop]
            kernel += block @ block.T
        return kernel


def fit_ridge(design: Design, Y: Array, alpha: float, progress: Progress | None = None) -> Ridge:
    """The solution for one alpha."""
    Y, offset = _centered(design, Y)
    smaller = min(design.n, design.p)
    if smaller > design.config.dense:
        found = iterate(design, _finite(design.transposed(Y)), alpha, progress)
        if found.left > SOLVED:
            _warn(alpha, found.left)
        return _ridge(design, found.coefficients, offset, alpha, "iterative", found.passes)
    dual = design.n < design.p
    matrix = _finite(design.kernel() if dual else design.gram())
    matrix.flat[:: smaller + 1] += alpha
    solved = _solve_positive(matrix, Y if dual else design.transposed(Y))
    C = design.transposed(solved) if dual else solved
    return _ridge(design, C, offset, alpha, "dual" if dual else "primal", 0)


def fit_within(design: Design, Y: Array, radius: float) -> Ridge:
    """The least squared error among coefficients of norm at most ``radius``, all outputs together.

    The theory's estimator. Its Lagrangian is ridge regression: alpha is zero if the least-norm
    fit is short enough, else the one at which |C| is the radius, and |C| falls with alpha.
    """
    if min(design.n, design.p) > design.config.spectral:
        raise ValueError(
            f"a bound on the norm takes the eigenvalues of {min(design.n, design.p):,} examples or "
            f"features; expected at most {design.config.spectral:,}: choose alpha instead"
        )
    path = Spectrum(design, Y)
    if radius == 0.0:
        return path.solution(np.inf)
    floor = path.least_alpha
    if path.norm(floor) <= radius:
        return path.solution(floor)
    low, high = math.log(floor), math.log(path.largest) + 1.0
    while path.norm(math.exp(high)) > radius:
        high += 5.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if path.norm(math.exp(middle)) > radius else (low, middle)
    return path.solution(math.exp(high))


class Spectrum:
    """All solutions at once, by the eigenvalues of the smaller Gram matrix."""

    def __init__(self, design: Design, Y: Array) -> None:
        self.design = design
        Y, self.offset = _centered(design, Y)
        self.dual = design.n < design.p
        matrix = _finite(design.kernel() if self.dual else design.gram())
        values, self.vectors = np.linalg.eigh(matrix)
        self.values = np.maximum(values, 0.0)
        self.largest = max(float(self.values[-1]), np.finfo(float).tiny)
        #: Below this, rounding of the eigenvalues takes the part of alpha.
        self.least_alpha = 10.0 * len(values) * np.finfo(float).eps * self.largest
        right = Y if self.dual else design.transposed(Y)
        self.inner = self.vectors.T @ right
        # |V^T Y|^2 of the dual, by eigenvalue, and what of Y no feature can explain.
        seen = self.values > self.least_alpha
        squares = np.sum(self.inner**2, axis=1)
        self.energies = squares if self.dual else squares / np.where(seen, self.values, np.inf)
        self.unseen = 0.0 if self.dual else max(float(np.sum(Y**2) - self.energies.sum()), 0.0)

    def error(self, alpha: float) -> float:
        """The error of generalised cross validation, mean squared over examples."""
        n, shrunk = self.design.n, alpha / (self.values + alpha)
        left = float(np.sum(shrunk**2 * self.energies)) + self.unseen
        free = float(np.sum(shrunk)) + n - len(shrunk) - self.design.centered
        return n * left / max(free, 1e-9 * n) ** 2

    def norm(self, alpha: float) -> float:
        """|C|, over all outputs."""
        squares = self.energies * self.values / (self.values + alpha) ** 2
        return float(np.sqrt(np.sum(squares)))

    def solution(self, alpha: float) -> Ridge:
        C = self.vectors @ (self.inner / (self.values + alpha)[:, None])
        if self.dual:
            C = self.design.transposed(C)
        return _ridge(self.design, C, self.offset, alpha, "dual" if self.dual else "primal", 0)


def best_alpha(
    design: Design, Y: Array, alphas: Array, progress: Progress | None = None
) -> tuple[Ridge, Array]:
    """The solution of least error by generalised cross validation, and the errors of all alphas.

    Where eigenvalues would take too long, the trace of the smoother is estimated by its action on
    a few random vectors, which come as more outputs in the same products [Hut90].
    """
    if min(design.n, design.p) <= design.config.spectral:
        path = Spectrum(design, Y)
        errors = np.array([path.error(alpha) for alpha in alphas])
        return path.solution(float(alphas[int(np.argmin(errors))])), errors
    return _best_by_probes(design, Y, alphas, progress)


def _best_by_probes(
    design: Design, Y: Array, alphas: Array, progress: Progress | None
) -> tuple[Ridge, Array]:
    Y, offset = _centered(design, Y)
    n, t = Y.shape
    probes = np.random.default_rng(n).choice([-1.0, 1.0], (n, PROBES))
    probes -= probes.mean(axis=0) if design.centered else 0.0
    right = _finite(design.transposed(np.concatenate([Y, probes], axis=1)))
    errors, solutions, start = np.full(len(alphas), np.inf), [], None
    order = np.argsort(-alphas)  # from the smoothest on: each solution is a start for the next
    for done, i in enumerate(order):
        found = iterate(design, right, float(alphas[i]), None, start)
        if found.left > SOLVED and solutions:
            break  # and smaller alphas are harder
        start = found.coefficients
        outputs = design.times(start)
        left = float(np.sum((Y - outputs[:, :t]) ** 2))
        # n - trace, as probes - outputs: where it is small, n less an estimate would be noise.
        free = float(np.mean(np.sum(probes * (probes - outputs[:, t:]), axis=0)))
        errors[i] = n * left / max(free, 1e-9 * n) ** 2
        solutions.append((errors[i], start[:, :t], float(alphas[i]), found))
        if progress is not None:
            progress((done + 1) / len(alphas))
        last = [error for error, *_ in solutions[-RISES - 1 :]]
        if len(last) > RISES and all(a < b for a, b in itertools.pairwise(last)):
            break
    _, C, alpha, found = min(solutions, key=lambda solution: solution[0])
    if found.left > SOLVED:
        _warn(alpha, found.left)
    return _ridge(design, C, offset, alpha, "iterative", found.passes), errors


class Iterated(NamedTuple):
    """What conjugate gradients came to."""

    coefficients: Array
    passes: int
    left: float  #: of the gradient, relative


def iterate(
    design: Design,
    right: Array,
    alpha: float,
    progress: Progress | None = None,
    start: Array | None = None,
) -> Iterated:
    """(Phi^T Phi + alpha)^-1 right by conjugate gradients.

    Where alpha is so small that single precision does not see it, corrections lead nowhere, and the
    best there is comes back.
    """
    config, size = design.config, np.linalg.norm(right, axis=0)
    size = np.where(size > 0.0, size, 1.0)
    C = np.zeros_like(right) if start is None else start.copy()
    precondition, passes = design.sample.preconditioner(alpha), 0
    left = right if start is None else right - design.curvature(C, np.float64) - alpha * C
    best, least = C, np.inf
    for _ in range(config.corrections):
        wrong = float((np.linalg.norm(left, axis=0) / size).max())
        stuck = not wrong < STUCK * least
        if wrong < least:
            best, least = C, wrong
        if least <= config.tolerance or stuck:
            break
        if progress is not None:
            progress(min(1.0, math.log(max(wrong, 1e-300)) / math.log(config.tolerance)))
        step, count = conjugate_gradients(
            lambda v: design.curvature(v, np.float32) + np.float32(alpha) * v,
            left,
            precondition,
            max(ROUGH, 0.5 * config.tolerance / wrong),
            config.iterations,
        )
        C = C + step
        passes += count + 1
        left = right - design.curvature(C, np.float64) - alpha * C
    return Iterated(best, passes, least)


class _Sample:
    """Some of the examples, whose Gram matrix stands for that of all in a preconditioner."""

    def __init__(self, design: Design) -> None:
        config, kept = design.config, design.keep(np.float32)
        allowed = max(config.kept_bytes // (4 * design.p), 1)
        self.n, self.s = design.n, min(config.sample[not kept], design.n, allowed)
        chosen = np.sort(np.random.default_rng(self.s).choice(self.n, self.s, replace=False))
        self.rows = np.empty((self.s, design.p), np.float32)
        for part, block in design.blocks(np.float32, chosen):
            self.rows[part] = block
        self.kernel = self.rows @ self.rows.T

    def preconditioner(self, alpha: float) -> Callable[[NDArray], NDArray]:
        """alpha P^-1 v by Woodbury: v - Phi_S^T (Phi_S Phi_S^T + alpha s / n I)^-1 Phi_S v."""
        from scipy.linalg import cho_factor, cho_solve

        kernel = self.kernel.copy()
        # Rounding in single precision must not make it indefinite.
        ridge = alpha * self.s / self.n + 1e-6 * float(np.trace(kernel)) / self.s
        kernel.flat[:: self.s + 1] += np.float32(ridge)
        factor = cho_factor(kernel, lower=True, overwrite_a=True)
        return lambda v: v - self.rows.T @ cho_solve(factor, self.rows @ v)


def conjugate_gradients(
    product: Callable[[NDArray], NDArray],
    right: NDArray,
    precondition: Callable[[NDArray], NDArray],
    accuracy: float,
    most: int = 200,
    dtype: type = np.float32,
) -> tuple[NDArray, int]:
    """The solution, worked out in one precision, for every column on its own; and how many
    products it took."""
    size = np.linalg.norm(right, axis=0)
    size = np.where(size > 0.0, size, 1.0)
    left = (right / size).astype(dtype)
    C = np.zeros_like(left)
    turned = precondition(left)
    direction, inner = turned, np.sum(left * turned, axis=0)
    count = 0
    while count < most:
        count += 1
        image = product(direction)
        curved = np.sum(direction * image, axis=0)
        length = np.where(curved > 0.0, inner / np.where(curved > 0.0, curved, 1.0), 0.0)
        C += length * direction
        left = left - length * image
        if np.linalg.norm(left, axis=0).max() < accuracy:
            break
        turned = precondition(left)
        inner, before = np.sum(left * turned, axis=0), inner
        direction = turned + inner / np.where(before != 0.0, before, 1.0) * direction
    return C.astype(np.float64) * size, count


def _finite(matrix: Array) -> Array:
    if not np.isfinite(matrix).all():
        raise ValueError("features of X overflow: scale X down")
    return matrix


def _warn(alpha: float, left: float) -> None:
    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(
        f"alpha is {alpha:.1e}, too small for so many features: solved to a relative gradient of "
        f"{left:.0e} only; a larger alpha is solved exactly",
        ConvergenceWarning,
        stacklevel=3,
    )


def _centered(design: Design, Y: Array) -> tuple[Array, Array]:
    offset = Y.mean(axis=0) if design.centered else np.zeros(Y.shape[1])
    return Y - offset, offset


def _ridge(
    design: Design, C: Array, offset: Array, alpha: float, method: str, iterations: int
) -> Ridge:
    return Ridge(C, offset - design.means @ C, alpha, method, iterations)


def _solve_positive(matrix: Array, right: Array) -> Array:
    """By Cholesky; where rounding has made the matrix indefinite, by its eigenvectors."""
    from scipy.linalg import cho_factor, cho_solve

    try:
        return cho_solve(cho_factor(matrix, lower=True), right)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
        kept = values > len(values) * np.finfo(float).eps * values[-1]
        inverse = np.where(kept, 1.0 / np.where(kept, values, 1.0), 0.0)
        return vectors @ (inverse[:, None] * (vectors.T @ right))
