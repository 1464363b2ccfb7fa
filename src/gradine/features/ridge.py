"""Ridge regression on features that are made block by block (`gradine.features.design`).

    minimise over C   |Y - Phi C|^2 + alpha |C|^2,        Phi (n, p), by rows of examples.

Where the smaller of n and p is small, its Gram matrix, Phi^T Phi or Phi Phi^T, is summed up in one
pass and solved in double precision; its eigenvalues give the error of generalised cross validation
[GHW79] for every alpha at once:

    GCV(alpha) = n |Y - Phi C|^2 / (n - trace of the smoother)^2.

Where both are large, conjugate gradients take over (`gradine.features.iteration`).

[Hut90] Hutchinson, A stochastic estimator of the trace, Commun. Stat. Simul. 19 (1990) 433-450.
[GHW79] Golub, Heath, Wahba, Generalized cross-validation, Technometrics 21 (1979) 215-223.
"""

from __future__ import annotations

import itertools
import math
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradine.features.design import Design
from gradine.features.iteration import Progress, iterate

__all__ = ["Ridge", "best_alpha", "fit_ridge", "fit_within"]

Array = NDArray[np.float64]

BISECTIONS = 200
RISES = 3  # alphas in a row at which the error rises, before the rest is left out
SOLVED = 1e-6  # relative gradient at which a solution counts as one
PROBES = 8  # random vectors that a trace is estimated by


@dataclass(frozen=True, eq=False)
class Ridge:
    """A solution: predictions are Phi(X) @ coefficients + intercept."""

    coefficients: Array  #: (p, t)
    intercept: Array  #: (t,)
    alpha: float
    method: str  #: "primal", "dual" or "iterative"
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
