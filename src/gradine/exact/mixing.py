"""From the span of the attention matrices to the matrices themselves.

The moments give matrices T_1..T_m that span the Theta_i, not the Theta_i. What is left is

    Theta_i = sum_j C_ij T_j,     m^2 unknowns C,

and F is linear in W: for given C the best W is one least-squares solve (variable projection), and

    L(C) = min_W 1/2 || Y - sum_i softmax(X Theta_i X^T) X W_i ||^2

has the gradient dL/dC_ij = <dL/dTheta_i, T_j>, with dL/dTheta_i that of the projection.

With a constant coordinate the moments do not show the query biases, the last rows of the Theta_i:
these are unknowns, too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradine.attention_functions import SOFTMAX, AttentionFunction
from gradine.exact.results import Mixed
from gradine.settings import Count, Positive, Settings, Size, Threshold
from gradine.solvers.linearisation import Linearisation
from gradine.solvers.projection import Evaluation, Penalty, Projection

__all__ = ["MixConfig", "mix", "mixing_examples"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MixConfig(Settings):
    """Settings of the mixing."""

    #: Rows of Y for each row of the W_i and each unknown of C: the fit must not be able to follow
    #: what the spans leave out, and ten times the unknowns were always enough.
    rows_per_unknown: Positive = 10.0
    #: Norms of the Theta_i at the start, one start each. Of 63 random mixings 62 reached the best
    #: optimum; the other had started large, so that a modest norm comes first.
    start_norms: tuple[Positive, ...] = (1.0, 2.5, 0.5)
    #: L-BFGS iterations of a start, and the relative decrease below which it ends: the heads are
    #: refined afterwards, over all parameters.
    iterations: Count = 150
    tolerance: Size = 1e-5
    #: A start that leaves less than this relative RMS error is taken without trying the others.
    good_residual: Threshold = 0.25


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
    function: AttentionFunction = SOFTMAX,
) -> Mixed:
    """Heads inside ``theta_span`` (m, d, d) that fit X (n, k, D) and Y (n, k, d_out) best.

    ``constant`` says that D = d + 1 and the last coordinate of X is 1. Key biases are left out:
    the fits that follow find them, where the attention function shows them.
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
    problem = _Problem(X, Y, basis, constant, function)
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
    found, at = problem.evaluate(theta)
    return Mixed(
        theta=theta,
        w=found.projections(at),
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
    function: AttentionFunction

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

    def evaluate(self, theta: Array) -> tuple[Projection, Evaluation]:
        """The best W for given attention, and what it leaves."""
        width = self.basis.shape[1]
        problem = Projection(self.X, self.Y, width - self.constant, self.function)
        return problem, problem.evaluate((theta[:, :, : problem.dim],), Penalty())

    def loss(self, unknowns: Array) -> tuple[float, Array]:
        """L and its gradient in the unknowns."""
        problem, at = self.evaluate(self.theta(unknowns))
        (down,) = Linearisation(problem, at).gradient()
        d = problem.dim
        gradient = -down.astype(np.float64) / problem.energy
        parts = [np.tensordot(gradient, self.basis[:, :, :d], axes=([1, 2], [1, 2])).ravel()]
        if self.constant:
            parts.append(gradient[:, -1].ravel())
        return 0.5 * at.misfit, np.concatenate(parts)


def _orthogonal(rng: np.random.Generator, size: int) -> Array:
    """A random rotation: heads that start equally large and far apart."""
    q, r = np.linalg.qr(rng.standard_normal((size, size)))
    return q * np.sign(np.diag(r))
