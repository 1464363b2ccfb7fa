"""From the span of the attention matrices to the matrices themselves.

The moments give matrices T_1..T_m that span the Theta_i, not the Theta_i. What is left is

    Theta_i = sum_j C_ij T_j,     m^2 unknowns C,

and F is linear in W: for given C the best W is one least-squares solve (variable projection), and

    L(C) = min_W 1/2 || Y - sum_i softmax(X Theta_i X^T) X W_i ||^2

has the gradient of L at fixed W, W being optimal (envelope theorem). With E the residual, P the
attention weights of head i and G = -E W_i^T,

    dL/dTheta_i = sum_n X^T [P * (G X^T - rowsum(P * G X^T))] X,     dL/dC_ij = <dL/dTheta_i, T_j>.

With a constant coordinate the moments do not show the query biases, the last rows of the Theta_i:
these are unknowns, too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradine.exact.results import Mixed
from gradine.layer import softmax
from gradine.solvers.least_squares import solve_projections

__all__ = ["MixConfig", "mix", "mixing_examples"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MixConfig:
    """Settings of the mixing."""

    #: Rows of Y for each row of the W_i and each unknown of C: the fit must not be able to follow
    #: what the spans leave out, and ten times the unknowns were always enough.
    rows_per_unknown: float = 10.0
    #: Norms of the Theta_i at the start, one start each. Of 63 random mixings 62 reached the best
    #: optimum; the other had started large, so that a modest norm comes first.
    start_norms: tuple[float, ...] = (1.0, 2.5, 0.5)
    #: L-BFGS iterations of a start, and the relative decrease below which it ends: the heads are
    #: refined afterwards, over all parameters.
    iterations: int = 150
    tolerance: float = 1e-5
    #: A start that leaves less than this relative RMS error is taken without trying the others.
    good_residual: float = 0.25


def mixing_examples(heads: int, width: int, seq_len: int, config: MixConfig) -> int:
    """How many examples a fit of m heads of width D should get."""
    return int(np.ceil(config.rows_per_unknown * heads * (width + heads) / seq_len))


def mix(
    X: Array,
    Y: Array,
    theta_span: Array,
    config: MixConfig,
    seed: int,
    *,
    constant: bool = False,
) -> Mixed:
    """Heads inside ``theta_span`` (m, d, d) that fit X (n, k, D) and Y (n, k, d_out) best.

    ``constant`` says that D = d + 1 and the last coordinate of X is 1.
    """
    from scipy.optimize import minimize

    m, d, _ = theta_span.shape
    width = d + constant
    if m < 1 or X.shape[2] != width:
        raise ValueError(
            f"theta_span has shape {theta_span.shape} and X {X.shape}; expected (m, d, d) with "
            f"m >= 1 and tokens of {width} coordinates"
        )
    began = time.perf_counter()
    basis = np.zeros((m, width, width))
    basis[:, :d, :d] = theta_span
    rng = np.random.default_rng(seed)
    problem = _Problem(X, Y, basis, constant)
    best, residuals, evaluations = None, [], 0
    for norm in config.start_norms:
        start = np.zeros(problem.unknowns)
        start[: m * m] = norm * _orthogonal(rng, m).ravel()
        options = {"maxiter": config.iterations, "ftol": config.tolerance, "maxcor": 20}
        answer = minimize(problem.loss, start, jac=True, method="L-BFGS-B", options=options)
        evaluations += int(answer.nfev)
        residuals.append(float(np.sqrt(2.0 * answer.fun)))
        if best is None or answer.fun < best.fun:
            best = answer
        if residuals[-1] < config.good_residual:
            break
    assert best is not None  # start_norms is not empty
    theta = problem.theta(best.x)
    return Mixed(
        theta=theta,
        w=problem.fit(theta)[0],
        mixing=best.x[: m * m].reshape(m, m),
        residual=min(residuals),
        start_residuals=np.array(residuals),
        evaluations=evaluations,
        examples=len(X),
        seconds=time.perf_counter() - began,
    )


@dataclass(frozen=True, eq=False)
class _Problem:
    """The loss of a mixing, in units of || Y ||^2."""

    X: Array
    Y: Array
    basis: Array  #: (m, D, D), zero where the moments say nothing
    constant: bool

    @property
    def unknowns(self) -> int:
        m, width, _ = self.basis.shape
        return m * m + self.constant * m * (width - 1)

    def theta(self, unknowns: Array) -> Array:
        """(m, D, D) attention matrices: the mixing, then the query biases if there are any."""
        m = len(self.basis)
        theta = np.tensordot(unknowns[: m * m].reshape(m, m), self.basis, axes=1)
        if self.constant:
            theta[:, -1, :-1] = unknowns[m * m :].reshape(m, -1)
        return theta

    def fit(self, theta: Array) -> tuple[Array, Array, Array]:
        """The best W (m, D, o), the residual (n, k, o) and the attention weights (n, m, k, k)."""
        X = self.X[:, None]
        weights = softmax(X @ theta @ X.swapaxes(2, 3))
        n, m, k, _ = weights.shape
        features = np.empty((n, k, m, X.shape[3]))
        np.matmul(weights, X, out=features.swapaxes(1, 2))
        w = solve_projections(features.swapaxes(1, 2), self.Y)
        fitted = features.reshape(n * k, -1) @ w.reshape(-1, w.shape[2])
        return w, fitted.reshape(self.Y.shape) - self.Y, weights

    def loss(self, unknowns: Array) -> tuple[float, Array]:
        """L and its gradient in the unknowns."""
        X, m = self.X, len(self.basis)
        size = np.sum(self.Y**2)
        w, residual, weights = self.fit(self.theta(unknowns))
        pull = residual[:, None] @ w.swapaxes(1, 2) @ X[:, None].swapaxes(2, 3)
        pull -= np.sum(weights * pull, axis=3, keepdims=True)
        pull *= weights  # now dL/d(logits), (n, m, k, k)
        through = np.swapaxes(pull @ X[:, None], 0, 1).reshape(m, -1, X.shape[2])
        gradient = X.reshape(-1, X.shape[2]).T @ through / size
        parts = [np.tensordot(gradient, self.basis, axes=([1, 2], [1, 2])).ravel()]
        if self.constant:
            parts.append(gradient[:, -1, :-1].ravel())
        return float(0.5 * np.sum(residual**2) / size), np.concatenate(parts)


def _orthogonal(rng: np.random.Generator, size: int) -> Array:
    """A random rotation: heads that start equally large and far apart."""
    q, r = np.linalg.qr(rng.standard_normal((size, size)))
    return q * np.sign(np.diag(r))
