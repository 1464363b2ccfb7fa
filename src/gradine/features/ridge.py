"""Ridge regression on features that are made block by block (`gradine.features.design`).

    minimise over C   |Y - Phi C|^2 + alpha |C|^2,        Phi (n, p), by rows of examples.

Where the smaller of n and p is small, its Gram matrix, Phi^T Phi or Phi Phi^T, is summed up in one
pass and solved in double precision. Its eigenvectors give, for every alpha at once and for every
output on its own, the error on each example of the fit to all others, with H the smoother:

    (y_i - f(x_i)) / (1 - H_ii).

Equal examples are to be one row of the design: else the fit to all others knows the one that was
left out. Where n and p are large, conjugate gradients take over (`gradine.features.iteration`), and
1 - H_ii is replaced by its mean, which is generalised cross validation [GHW79]. Near n = p either
can by chance be far too kind to small alphas: an alpha that leaves nearly nothing of the examples
free is chosen only if its error is less than half of that of any other.

[Hut90] Hutchinson, A stochastic estimator of the trace, Commun. Stat. Simul. 19 (1990) 433-450.
[GHW79] Golub, Heath, Wahba, Generalized cross-validation, Technometrics 21 (1979) 215-223.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradine.features.design import Design
from gradine.features.iteration import Progress, iterate

__all__ = ["Ridge", "Solutions", "best_alpha", "fit_ridge", "fit_within", "within"]

Array = NDArray[np.float64]

OVERFLOW = "features of X overflow: scale X down"
BISECTIONS = 200
RISES = 3  # alphas in a row at which the error rises, before the rest is left out
SOLVED = 1e-6  # relative gradient at which a solution counts as one
PROBES = 8  # random vectors that a trace is estimated by
#: Mean of 1 - H_ii below which cross validation is not trusted: what is left of the examples is
#: nearly nothing, divided by nearly nothing. There an error counts as this many times as large.
LEAST_FREE, DOUBT = 0.05, 2.0


@dataclass(frozen=True, eq=False)
class Ridge:
    """A solution: predictions are Phi(X) @ coefficients + intercept."""

    coefficients: Array  #: (p, t)
    intercept: Array  #: (t,)
    alpha: float | Array  #: (t,) where each output has its own
    method: str  #: "primal", "dual", "iterative" or "summed"
    iterations: int  #: of conjugate gradients


def fit_ridge(design: Design, Y: Array, alpha: float, progress: Progress | None = None) -> Ridge:
    """The solution for one alpha."""
    Y, offset = _centered(design, Y)
    smaller = min(design.n, design.p)
    if smaller > design.config.dense:
        found = iterate(design, _finite(design.transposed(Y)), alpha, progress)
        if found.left > SOLVED:
            _warn(alpha, found.left)
        return _ridge(design, found.coefficients, offset, alpha, "iterative", found.passes)
    dual = _is_dual(design)
    matrix = _finite(design.kernel() if dual else design.gram())
    smaller = len(matrix)
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
    return within(Spectrum(design, Y), radius)


def within(path: Solutions, radius: float) -> Ridge:
    """The one among all solutions whose norm is at most ``radius``."""
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


class Solutions(ABC):
    """Those for every alpha, by eigenvalues of a Gram matrix: Phi^T Phi, or Phi Phi^T if dual."""

    def __init__(self, values: Array, vectors: Array, inner: Array, dual: bool) -> None:
        """``inner`` are products of the eigenvectors with Phi^T Y, or with Y."""
        self.values, self.vectors, self.inner = np.maximum(values, 0.0), vectors, inner
        self.largest = max(float(self.values.max(initial=0.0)), np.finfo(float).tiny)
        #: Below this, rounding of the eigenvalues takes the part of alpha.
        self.least_alpha = 10.0 * len(values) * np.finfo(float).eps * self.largest
        # |V^T Y|^2 of the dual, by eigenvalue.
        seen = self.values > self.least_alpha
        squares = np.sum(self.inner**2, axis=1)
        self.energies = squares if dual else squares / np.where(seen, self.values, np.inf)

    def norm(self, alpha: float) -> float:
        """|C|, over all outputs."""
        squares = self.energies * self.values / (self.values + alpha) ** 2
        return float(np.sqrt(np.sum(squares)))

    def coefficients(self, alpha: float | Array) -> Array:
        """Of the features, or of the examples if dual."""
        return self.vectors @ (self.inner / (self.values[:, None] + alpha))

    @abstractmethod
    def errors(self, alphas: Array) -> tuple[Array, Array]:
        """Mean squared errors (alphas, t) on examples that were left out, and shares (alphas,) of
        the examples that a fit leaves free."""

    @abstractmethod
    def solution(self, alpha: float | Array) -> Ridge:
        """For one alpha, or for one of each output."""

    def best(self, alphas: Array) -> tuple[Ridge, Array]:
        """The solution of least error for each output, and the errors of all."""
        errors, free = self.errors(alphas)
        doubted = np.where(free < LEAST_FREE, DOUBT, 1.0)[:, None] * errors
        falling = np.argsort(-alphas)  # of equal errors, that of the smoothest
        found = self.solution(alphas[falling][np.argmin(doubted[falling], axis=0)])
        return _told(found, alphas), errors


class Spectrum(Solutions):
    """Of the smaller Gram matrix of a design."""

    def __init__(self, design: Design, Y: Array) -> None:
        self.design = design
        self.Y, self.offset = _centered(design, Y)
        self.dual = _is_dual(design)
        matrix = _finite(design.kernel() if self.dual else design.gram())
        constant = self.dual and design.centered
        if constant:  # nothing to centered features: far from other eigenvalues, and then left out
            ones = design.roots / np.linalg.norm(design.roots)
            ones *= np.sqrt(max(2.0 * float(np.linalg.norm(matrix)), np.finfo(float).tiny))
            matrix += np.outer(ones, ones)
        values, vectors = np.linalg.eigh(matrix)
        kept = slice(len(values) - constant)
        values, vectors = values[kept], vectors[:, kept]
        right = self.Y if self.dual else design.transposed(self.Y)
        super().__init__(values, vectors, vectors.T @ right, self.dual)

    def errors(self, alphas: Array) -> tuple[Array, Array]:
        """Mean squared errors (alphas, t) on examples that were left out, one at a time, and means
        (alphas,) of 1 - H_ii."""
        n, t, count = *self.Y.shape, len(alphas)
        errors, free = np.empty((count, t)), np.maximum(self._free(alphas), np.finfo(float).eps)
        step = max(1, self.design.config.block_bytes // (8 * n * count))  # outputs at a time
        for part in (slice(start, start + step) for start in range(0, t, step)):
            shrunk = self.inner[:, None, part] / (self.values[:, None] + alphas)[:, :, None]
            C = self.vectors @ shrunk.reshape(len(shrunk), count * shrunk.shape[2])
            if self.dual:
                left = C.reshape(n, count, -1) * alphas[:, None]
            else:
                left = self.Y[:, None, part] - self.design.times(C).reshape(n, count, -1)
            errors[:, part] = np.sum((left / free[:, :, None]) ** 2, axis=0)
        return errors / self.design.counts.sum(), free.mean(axis=0)

    def _free(self, alphas: Array) -> Array:
        """1 - H_ii (n, alphas)."""
        weights = 1.0 / (self.values[:, None] + alphas)
        if self.dual:
            return self.vectors**2 @ (alphas * weights)
        free = np.ones((self.design.n, len(alphas)))
        if self.design.centered:
            free -= (self.design.counts / self.design.counts.sum())[:, None]
        for part, block in self.design.blocks(np.float64):
            free[part] -= (block @ self.vectors) ** 2 @ weights
        return free

    def solution(self, alpha: float | Array) -> Ridge:
        C = self.coefficients(alpha)
        if self.dual:
            C = self.design.transposed(C)
        return _ridge(self.design, C, self.offset, alpha, "dual" if self.dual else "primal", 0)


def best_alpha(
    design: Design, Y: Array, alphas: Array, progress: Progress | None = None
) -> tuple[Ridge, Array]:
    """The solution of least error by cross validation, an alpha for each output, and the errors
    (alphas, t) of all alphas.

    Where eigenvalues would take too long, the trace of the smoother is estimated by its action on
    a few random vectors, which come as more outputs in the same products [Hut90].
    """
    if min(design.n, design.p) <= design.config.spectral:
        return Spectrum(design, Y).best(alphas)
    found, errors = _best_by_probes(design, Y, alphas, progress)
    return _told(found, alphas), errors


def _told(found: Ridge, alphas: Array) -> Ridge:
    """The same, after a warning if alpha is at the end of those that were tried."""
    if np.any(found.alpha == alphas.min()):
        warnings.warn(
            f"the smallest alpha of those tried, {alphas.min():.1e}, has the least error by cross "
            "validation: a smaller one may be better, or the examples are too few to tell",
            stacklevel=3,
        )
    return found


def _best_by_probes(
    design: Design, Y: Array, alphas: Array, progress: Progress | None
) -> tuple[Ridge, Array]:
    Y, offset = _centered(design, Y)
    n, t = Y.shape
    probes = np.random.default_rng(n).choice([-1.0, 1.0], (n, PROBES))
    if design.centered:
        probes -= np.outer(design.roots, design.roots @ probes) / design.counts.sum()
    right = _finite(design.transposed(np.concatenate([Y, probes], axis=1)))
    errors, start, passes, worst = np.full((len(alphas), t), np.inf), None, 0, 0.0
    C, best = np.zeros((design.p, t)), np.full(t, -1)
    least = np.full(t, np.inf)
    order = np.argsort(-alphas)  # from the smoothest on: each solution is a start for the next
    for done, i in enumerate(order):
        found = iterate(design, right, float(alphas[i]), None, start)
        if found.left > SOLVED and done:
            break  # and smaller alphas are harder
        start, passes = found.coefficients, passes + found.passes
        outputs = design.times(start)
        # n - trace, as probes - outputs: where it is small, n less an estimate would be noise.
        free = float(np.mean(np.sum(probes * (probes - outputs[:, t:]), axis=0)))
        left = np.sum((Y - outputs[:, :t]) ** 2, axis=0)
        errors[i] = n * left / max(free, 1e-9 * n) ** 2 * (n / design.counts.sum())
        doubted = (DOUBT if free < LEAST_FREE * n else 1.0) * errors[i]
        better = (best < 0) | (doubted < least)
        C[:, better], best[better], least[better] = start[:, :t][:, better], i, doubted[better]
        worst = max(worst, found.left)
        if progress is not None:
            progress((done + 1) / len(alphas))
        last = errors[order[max(done - RISES, 0) : done + 1]]
        if len(last) > RISES and np.all(np.diff(last, axis=0) > 0.0):
            break
    if worst > SOLVED:
        _warn(float(alphas[order[0]]), worst)
    return _ridge(design, C, offset, alphas[best], "iterative", passes), errors


def _finite(matrix: Array) -> Array:
    if not np.isfinite(matrix).all():
        raise ValueError(OVERFLOW)
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
    share = design.counts / design.counts.sum()
    offset = share @ Y if design.centered else np.zeros(Y.shape[1])
    return design.roots[:, None] * (Y - offset), offset


def _is_dual(design: Design) -> bool:
    """Whether n is the smaller one; where n - p - the mean is nothing, 1 - H_ii needs it exact."""
    return design.n <= design.p + design.centered


def _ridge(
    design: Design,
    C: Array,
    offset: Array,
    alpha: float | Array,
    method: str,
    iterations: int,
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
