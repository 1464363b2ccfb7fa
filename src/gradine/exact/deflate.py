"""Narrow heads in many dimensions, strongest first: find some, fit them, look at what is left.

1. Outputs are whitened by the covariance of what is not linear in the tokens. Without noise a weak
   direction of the outputs says as much as a strong one, and the heads' W_i become nearly
   orthogonal and flat.
2. Moments of the residual show heads (`gradine.exact.probes`). Those that stand out from the noise
   are fitted together with all heads before them, by Gauss-Newton on their factors with linear
   terms left free: these stand for the heads that are still missing, and give the sign of the new
   ones.
3. The residual now has less noise, and shows weaker heads. When all are found, the linear terms are
   dropped and Gauss-Newton goes on to the end (`gradine.exact.finish`).

A row of outputs says only k - 1 numbers about the Theta_i of a head, however many outputs there
are. That, and not the count of equations, is how many rows a fit has to see.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gradine.exact.finish import FinishConfig, finish
from gradine.exact.probes import Probes, find_heads
from gradine.progress import Tell
from gradine.settings import Count, Number, Positive, Settings, Size, Threshold, Whole
from gradine.solvers.narrow import (
    Heads,
    NarrowEvaluation,
    NarrowProblem,
    balanced,
    gauss_newton_step,
)

__all__ = [
    "DeflateConfig",
    "Deflated",
    "deflate",
    "fitted_layer",
    "rows_needed",
    "whitened_outputs",
    "worth_of",
]

Array = NDArray[np.floating]


@dataclass(frozen=True)
class DeflateConfig(Settings):
    """Settings of the search; measured on the layers of a trained model and on planted ones."""

    #: Numbers that the rows of a fit say about a Theta_i, for each of its unknowns.
    fit_per_unknown: Positive = 4.0
    #: Equations for each unknown of a fit, at least.
    equations_per_unknown: Positive = 8.0
    #: Rows of the moments, in multiples of those of a fit.
    moment_rows: Positive = 4.5
    #: Probes beyond the missing heads: they show what noise comes to.
    spare_probes: Count = 4
    #: Rounds of the moments, at least and at most.
    probe_rounds: tuple[Count, Count] = (5, 8)
    #: A probe is a head if its value is above the spare ones by this factor.
    ratio: Threshold = 1.2
    #: Norms of Theta_i that are tried for a new head: the moments give its direction.
    norms: tuple[Positive, ...] = (1.0, 2.0, 4.0, 8.0)
    #: Output directions whose variance is below this share of the largest are left to the end.
    weak_output: Threshold = 1e-4
    #: Steps of a fit while heads are missing, and products with the Jacobian in one.
    phase_steps: Whole = 4
    phase_products: Count = 8
    damping: Size = 0.1
    #: What a head must be worth on rows that it was not fitted to: 1 if it is right, -1 if it is
    #: noise.
    least_worth: Number = 0.0
    #: Phases that bring no head before the search is given up.
    patience: Count = 2
    #: The fit that follows when all heads are there.
    finish: FinishConfig = field(default_factory=FinishConfig)


@dataclass(frozen=True, eq=False)
class Deflated:
    """What the search came to."""

    theta: NDArray[np.float64]  #: (m, D, d)
    w: NDArray[np.float64]  #: (m, D, o)
    misfits: list[float]  #: relative squared residual of whitened outputs after each step
    phases: list[int]  #: heads that each phase brought
    rows: int  #: under fit
    products: int  #: with the Jacobian and its transpose


def rows_needed(
    heads: int, rank: int, shape: tuple[int, int, int, int], config: DeflateConfig
) -> tuple[int, int]:
    """Sequences for a fit and for the moments; ``shape`` is k, D, d and d_out."""
    k, width, dim, out_dim = shape
    theta = rank * (width + dim - rank)
    unknowns = heads * (theta + rank * (dim + out_dim - rank))
    fit = max(
        config.fit_per_unknown * theta / max(k - 1, 1),
        config.equations_per_unknown * unknowns / out_dim,
    )
    return math.ceil(fit / k), math.ceil(config.moment_rows * fit / k)


def deflate(
    X: NDArray[np.float64],
    Y: NDArray[np.float64],
    dim: int,
    heads: int,
    rank: int,
    config: DeflateConfig,
    seed: int,
    tell: Tell | None = None,
) -> Deflated:
    """Learn ``heads`` heads of ``rank`` from isotropic tokens X (n, k, D), keys in ``dim`` of D."""
    n_fit, n_moments = rows_needed(heads, rank, (*X.shape[1:], dim, Y.shape[2]), config)
    X32 = X[:n_moments].astype(np.float32)
    whitening, _ = whitened_outputs(X32, Y[: len(X32)].astype(np.float32), dim, config)
    Yw = Y[: len(X32)].astype(np.float32) @ whitening
    everything = NarrowProblem(X32, Yw, dim, free=True)
    problem = NarrowProblem(X32[:n_fit], Yw[:n_fit], dim, free=True)
    unseen = slice(max(n_fit, len(X32) - n_fit), None)
    fresh = NarrowProblem(X32[unseen], Yw[unseen], dim, free=True) if len(X32) > n_fit else None
    search = _Search(everything, problem, fresh, rank, config, np.random.default_rng(seed), tell)
    found: Heads | None = None
    while search.missing(heads, found) and search.idle < config.patience:
        found = search.phase(heads, found)
    assert found is not None
    whitened = Y @ whitening.astype(np.float64)
    last = finish(X, whitened, dim, found, n_fit, config.finish, tell)
    theta, w = fitted_layer(X[: last.examples], Y[: last.examples], dim, last.heads)
    return Deflated(
        theta,
        w,
        search.misfits + last.misfits,
        search.phases,
        last.examples * X.shape[1],
        problem.products + last.products,
    )


def whitened_outputs(X: Array, Y: Array, dim: int, config: DeflateConfig) -> tuple[Array, Array]:
    """Outputs times the first (o, q) have uncorrelated, equally large parts that are not linear;
    times the second (q, o), they are what they were."""
    problem = NarrowProblem(X, Y, dim, free=True)
    bent = problem.Y - problem.linear_part(problem.Y)[1]
    values, vectors = np.linalg.eigh((bent.T @ bent).astype(np.float64) / len(bent))
    seen = values > config.weak_output * values[-1]
    size, vectors = np.sqrt(values[seen]), vectors[:, seen]
    return (vectors / size).astype(np.float32), (vectors * size).T.astype(np.float32)


class _Search:
    """The phases, and what they leave behind."""

    def __init__(
        self,
        everything: NarrowProblem,
        problem: NarrowProblem,
        fresh: NarrowProblem | None,
        rank: int,
        config: DeflateConfig,
        rng: np.random.Generator,
        tell: Tell | None,
    ) -> None:
        self.everything, self.problem, self.rank = everything, problem, rank
        self.fresh = fresh
        self.config, self.rng, self.tell = config, rng, tell
        self.misfits: list[float] = []
        self.phases: list[int] = []
        self.idle = 0
        self.left: Array | None = None  # probes that were no heads yet, for the next phase

    def missing(self, heads: int, found: Heads | None) -> int:
        return heads - (0 if found is None else len(found.U))

    def phase(self, heads: int, found: Heads | None) -> Heads:
        """Heads that the residual shows, and a fit of all heads so far."""
        data, config, count = self.everything, self.config, self.missing(heads, found)
        rest = data.Y.copy()
        if found is not None:
            rest -= _outputs(data, found)
        linear, predicted = data.linear_part(rest)
        rest -= predicted
        R = rest.reshape(data.n, data.k, -1)
        R = R / np.sqrt(np.mean(R * R))
        probes = find_heads(
            data.X,
            R,
            data.dim,
            count,
            self.rank,
            spare=config.spare_probes,
            rounds=config.probe_rounds,
            ratio=config.ratio,
            rng=self.rng,
            start=self.left,
        )
        clear = min(probes.clear(config.ratio), count)
        # Where none stands out, the fit may still tell heads from noise.
        new = self._scaled(_first(probes, clear or count), linear[data.width :], found)
        self.left = probes.heads.w[clear:] if clear else None
        joined = new if found is None else found.joined(new)
        joined = self._fit(self.problem, joined, config.phase_steps, config.phase_products, 0.03)
        believed = self._believed(joined)
        brought = self.missing(heads, found) - self.missing(heads, believed)
        self.idle = 0 if clear and brought > 0 else self.idle + 1
        self.phases.append(brought)
        return believed

    def _believed(self, heads: Heads) -> Heads:
        """The heads that explain rows which no fit has seen, at least one."""
        if self.fresh is None:
            return heads
        worth = worth_of(self.fresh, heads)
        keep = worth >= min(self.config.least_worth, float(worth.max()))
        return heads if keep.all() else Heads(*(part[keep] for part in heads))

    def _scaled(self, new: Heads, rest: Array, found: Heads | None) -> Heads:
        """New heads with the sign, and the norms of Theta_i and W_i, that explain most.

        (Theta, W) and (-Theta, -W) look alike to the moments. What is linear in the other tokens is
        the sum of the missing W_i, and tells them apart.
        """
        signs = np.where(np.sum(new.w * rest, axis=(1, 2)) < 0.0, -1.0, 1.0)[:, None, None]
        signs = signs.astype(new.U.dtype)
        new = Heads(signs * new.U, new.K, new.V, signs * new.O)
        problem, norms = self.problem, self.config.norms
        residual = problem.Y.copy()
        if found is not None:
            residual -= _outputs(problem, found)
        residual -= problem.linear_part(residual)[1]
        m, rank = len(new.U), self.rank
        gains, sizes = np.zeros((len(norms), m)), np.zeros((len(norms), m))
        for row, norm in enumerate(norms):
            root = np.float32(math.sqrt(norm))
            at = problem.evaluate(Heads(root * new.U, root * new.K, new.V, new.O))
            for i in range(m):
                out = at.hidden[:, i * rank : (i + 1) * rank] @ new.O[i]
                out -= problem.linear_part(out)[1]
                inner, square = float(np.vdot(out, residual)), float(np.vdot(out, out))
                sizes[row, i] = inner / square
                gains[row, i] = inner * abs(inner) / square
        best = np.argmax(gains, axis=0)
        roots = np.sqrt(np.array(norms)[best]).astype(np.float32)[:, None, None]
        size = np.maximum(sizes[best, np.arange(m)], 1e-3 * np.abs(sizes).max())
        return balanced(Heads(roots * new.U, roots * new.K, new.V, _column(size) * new.O))

    def _fit(
        self, problem: NarrowProblem, heads: Heads, steps: int, products: int, accuracy: float
    ) -> Heads:
        """Damped steps in single precision."""
        at, damping = problem.evaluate(heads), self.config.damping
        for _ in range(steps):
            step, promised = gauss_newton_step(problem, at, damping, products, accuracy)
            there = problem.evaluate(balanced(at.heads.plus(step)))
            gain = (at.misfit - there.misfit) / max(promised, 1e-30)
            self._went_to(there if gain > 0.0 else at)
            damping *= 4.0 if gain <= 0.0 else 2.0 if gain < 0.3 else 1.0 if gain < 0.7 else 0.4
            if gain > 0.0:
                worthwhile = there.misfit < 0.98 * at.misfit
                at = there
                if not worthwhile:
                    break
        return at.heads

    def _went_to(self, at: NarrowEvaluation) -> None:
        self.misfits.append(at.misfit)
        if self.tell is not None:
            self.tell(math.sqrt(at.misfit), lambda: at.heads.theta)


def worth_of(problem: NarrowProblem, heads: Heads) -> NDArray[np.float64]:
    """What each head is worth on rows that it was not fitted to: 1 if it is right, -1 if noise.

    Noise that was taken for a head explains the rows under fit, and takes the place of a head that
    is there. On other rows its output c is an error: with a residual r, what is lost by leaving it
    out is |r + c|^2 - |r|^2 = 2 r c + c^2, which is c^2 for a head that is right, and -c^2 for one
    that is wrong (r = -c).
    """
    at, rank = problem.evaluate(heads), heads.U.shape[2]
    worth = np.zeros(len(heads.U))
    for i in range(len(worth)):
        c = at.hidden[:, i * rank : (i + 1) * rank] @ heads.O[i]
        c -= problem.linear_part(c)[1]
        worth[i] = 1.0 + 2.0 * float(np.vdot(at.residual, c)) / max(float(np.vdot(c, c)), 1e-30)
    return worth


def _first(probes: Probes, count: int) -> Heads:
    return Heads(*(part[:count] for part in probes.heads))


def _column(values: Array) -> Array:
    return values.astype(np.float32)[:, None, None]


def _outputs(problem: NarrowProblem, heads: Heads) -> Array:
    """What the heads give for the examples of a problem."""
    at = problem.evaluate(heads)
    return at.hidden @ heads.O.reshape(-1, problem.out_dim)


def fitted_layer(
    X: NDArray[np.float64], Y: NDArray[np.float64], dim: int, heads: Heads
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Theta and W; the last factor by least squares on the outputs as they came."""
    m, width = len(heads.U), X.shape[2]
    problem = NarrowProblem(X, Y, dim, free=False)
    hidden = problem.evaluate(heads._replace(O=np.zeros((m, heads.V.shape[2], Y.shape[2])))).hidden
    if width > dim:
        hidden = np.concatenate([hidden, np.ones((len(hidden), 1))], axis=1)
    gram = hidden.T @ hidden
    gram.flat[:: len(gram) + 1] += 1e-14 * np.trace(gram) / len(gram)
    out = np.zeros((hidden.shape[1], Y.shape[2]))
    for _ in range(2):  # the second takes the ridge away again
        out += np.linalg.solve(gram, hidden.T @ (problem.Y - hidden @ out))
    w = np.zeros((m, width, Y.shape[2]))
    w[:, :dim] = heads.V @ out[: m * heads.V.shape[2]].reshape(m, -1, Y.shape[2])
    if width > dim:
        w[:, dim] = out[-1] / m  # attention sums to one: only the sum of these rows shows
    return np.asarray(heads.theta, np.float64), w
