"""Narrow heads in many dimensions, strongest first: find some, fit them, look at what is left.

1. Outputs are whitened by the covariance of what is not linear in the tokens. Without noise a weak
   direction of the outputs says as much as a strong one, and the heads' W_i become nearly
   orthogonal and flat.
2. Where outputs have room for it, heads are found by the spaces of outputs that they write to
   (`gradine.exact.spaces`), and each is fitted in its own (`gradine.exact.own_outputs`). Where they
   have not, moments of the residual show heads (`gradine.exact.probes`), the strongest first.
3. New heads are fitted together with all heads before them, by Gauss-Newton on their factors with
   linear terms left free: these stand for the heads that are still missing.
4. The residual now has less noise, and shows weaker heads. When all are found, the linear terms are
   dropped and Gauss-Newton goes on to the end (`gradine.exact.finish`).

A row of outputs says only k - 1 numbers about the Theta_i of a head, however many outputs there
are. That, and not the count of equations, is how many rows a fit has to see.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gradine.exact.finish import FinishConfig, Finished, finish
from gradine.exact.own_outputs import head_of_space
from gradine.exact.probes import find_heads
from gradine.exact.spaces import find_spaces
from gradine.progress import Tell
from gradine.settings import Count, Number, Positive, Settings, Share, Size, Threshold, Whole
from gradine.solvers.narrow import Heads, NarrowEvaluation, NarrowProblem, balanced
from gradine.solvers.narrow_walk import Walk, descend, outputs_of, scaled

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

ROOM = 1.2  # heads that need more outputs than there are, by this factor, have none of their own


@dataclass(frozen=True)
class DeflateConfig(Settings):
    """Settings of the search; measured on the layers of a trained model and on planted ones."""

    #: Numbers that the rows of a fit say about a Theta_i, for each of its unknowns.
    fit_per_unknown: Positive = 4.0
    #: Equations for each unknown of a fit, at least.
    equations_per_unknown: Positive = 8.0
    #: Rows of the moments, in multiples of those of a fit.
    moment_rows: Positive = 4.5
    #: Starts of the search for the space of a head's outputs, and rounds from each.
    space_starts: Count = 3
    space_rounds: Count = 14
    #: Steps of the fit of a head within its own outputs, products with the Jacobian in one, and
    #: the share of what is left that a step has to take away for another one.
    own_steps: Whole = 10
    own_products: Count = 12
    own_worthwhile: Share = 0.05
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
    phase_products: Count = 16
    phase_worthwhile: Share = 0.02
    damping: Size = 0.1
    #: What a head must be worth on rows that it was not fitted to: 1 if it is right, -1 if it is
    #: noise.
    least_worth: Number = 0.0
    #: Phases that bring no head before the search is given up.
    patience: Count = 2
    #: Relative squared residual above which a fit has ended in a local minimum, and heads that were
    #: found by the spaces of their outputs are looked for by moments.
    stalled: Threshold = 1e-4
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
    rng = np.random.default_rng(seed)
    whitened = Y @ whitening.astype(np.float64)
    room = rank <= everything.out_dim and heads * rank < ROOM * everything.out_dim
    ways = [True, False] if room else [False]
    tries: list[tuple[_Search, Finished]] = []
    for by_spaces in ways:
        search = _Search(everything, problem, fresh, heads, rank, by_spaces, config, rng, tell)
        found: Heads | None = None
        while search.missing(found) and search.idle < config.patience:
            found = search.phase(found)
        assert found is not None
        tries.append((search, finish(X, whitened, dim, found, n_fit, config.finish, tell)))
        last = tries[-1][1]
        if last.misfit <= config.stalled or not (last.ended or search.missing(found)):
            break
    search, last = min(tries, key=lambda one: one[1].misfit)
    theta, w = fitted_layer(X[: last.examples], Y[: last.examples], dim, last.heads)
    return Deflated(
        theta,
        w,
        search.misfits + last.misfits,
        search.phases,
        last.examples * X.shape[1],
        problem.products + sum(last.products for _, last in tries),
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
        heads: int,
        rank: int,
        by_spaces: bool,
        config: DeflateConfig,
        rng: np.random.Generator,
        tell: Tell | None,
    ) -> None:
        self.everything, self.problem, self.fresh = everything, problem, fresh
        self.heads, self.rank, self.by_spaces = heads, rank, by_spaces
        self.config, self.rng, self.tell = config, rng, tell
        self.misfits: list[float] = []
        self.phases: list[int] = []
        self.idle = 0
        self.left: Array | None = None  # probes that were no heads yet, for the next phase

    def missing(self, found: Heads | None) -> int:
        return self.heads - (0 if found is None else len(found.U))

    def phase(self, found: Heads | None) -> Heads:
        """Heads that the residual shows, and a fit of all heads so far."""
        data, config, count = self.everything, self.config, self.missing(found)
        left = data.Y if found is None else data.Y - outputs_of(data, found)
        if self.by_spaces and self.idle == 0:
            new, clear = self._by_spaces(left, count), count
        else:
            new, clear = self._by_moments(left, count)
        joined = new if found is None else found.joined(new)
        walk = Walk(
            config.phase_steps, config.phase_products, config.damping, config.phase_worthwhile
        )
        joined = descend(self.problem, joined, walk, self._went_to)
        believed = self._believed(joined)
        brought = self.missing(found) - self.missing(believed)
        self.idle = 0 if clear and brought > 0 else self.idle + 1
        self.phases.append(brought)
        return believed

    def _by_spaces(self, left: Array, count: int) -> Heads:
        """Heads by the spaces of outputs that they write to, each fitted in its own."""
        config, data = self.config, self.everything
        rest = left - data.linear_part(left)[1]
        spaces = find_spaces(
            rest,
            count,
            self.rank,
            starts=config.space_starts,
            rounds=config.space_rounds,
            rng=self.rng,
        )
        walk = Walk(config.own_steps, config.own_products, config.damping, config.own_worthwhile)
        heads = [
            head_of_space(data, self.problem, left, space, config.norms, walk) for space in spaces
        ]
        return balanced(Heads(*(np.concatenate(parts) for parts in zip(*heads, strict=True))))

    def _by_moments(self, left: Array, count: int) -> tuple[Heads, int]:
        """Heads that moments show, and how many of them stand out."""
        data, problem, config = self.everything, self.problem, self.config
        linear, predicted = data.linear_part(left)
        R = (left - predicted).reshape(data.n, data.k, -1)
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
        self.left = probes.heads.w[clear:] if clear else None
        first = Heads(*(part[: clear or count] for part in probes.heads))
        rows = problem.with_outputs(left[: len(problem.Y)])
        return scaled(rows, first, linear[data.width :], config.norms), clear

    def _believed(self, heads: Heads) -> Heads:
        """The heads that explain rows which no fit has seen, at least one."""
        if self.fresh is None:
            return heads
        worth = worth_of(self.fresh, heads)
        keep = worth >= min(self.config.least_worth, float(worth.max()))
        return heads if keep.all() else Heads(*(part[keep] for part in heads))

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
