"""Where to begin with heads of low rank: joint factors under nuclear-norm penalties.

    min  |F - Y|^2 / |Y|^2 + a (|U|^2 + |K|^2) + b (|V|^2 + |O|^2)

with Theta_i = U_i K_i^T and W_i = V_i O_i.

(|U|^2 + |K|^2) / 2 is at least the nuclear norm of Theta, with equality for balanced factors, and
the same holds for W: few directions survive. Factors are wider than the heads, which leaves fewer
traps on the way. The penalties have the size of the noise that outputs not yet explained make in
the gradient, and they stay on through a long plateau, at whose end all heads appear together;
then each Theta_i is of the right rank by itself, and Gauss-Newton goes on without any penalty.
Adam in single precision is the fastest way across the plateau.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gradine import kernels
from gradine.exact.config import ExactConfig
from gradine.kernels import AnyArray
from gradine.solvers.gauss_newton import Path
from gradine.solvers.projection import Projection

__all__ = ["low_rank_starts", "truncated"]

Array = NDArray[np.float64]

RATE, BETAS, TINY = 1e-2, (0.9, 0.99), 1e-8  # of Adam, for inputs and outputs of unit size
FIRST = 0.05  # standard deviation of the factors at the start
EVERY, WINDOW = 25, 100  # steps between two looks, and over which progress is judged


def low_rank_starts(
    problem: Projection, heads: int, rank: int, config: ExactConfig, seed: list[int], path: Path
) -> Iterator[tuple[AnyArray, ...]]:
    """Parameters U, K, V to go on from, as the penalised problem reveals them.

    The first come when the heads have become visible; where that does not happen, the penalties
    are lowered, and then it is begun anew with other random factors.
    """
    for start in range(config.starts):
        factors = _Factors(problem, heads, rank, [*seed, start])
        for level in config.low_rank_levels:
            factors.set_penalty(level * (1.5 if start % 2 else 1.0))
            begun, wait, past = factors.step, factors.step + WINDOW, []
            while True:
                factors.run(EVERY)
                path.misfits.append(factors.misfit)
                past.append(factors.objective())
                before = past[max(len(past) - 1 - WINDOW // EVERY, 0)]
                resting = len(past) > WINDOW // EVERY and past[-1] > 0.999 * before
                last = resting or factors.step - begun >= config.low_rank_steps
                if not last:
                    if factors.step < wait or factors.concentration() < config.low_rank_share:
                        continue
                    wait = factors.step + WINDOW
                yield factors.parameters()
                if last:
                    break


class _Factors:
    """U, K and V side by side as one D x (3 m R) matrix, and O as (m R) x d_out."""

    def __init__(self, problem: Projection, heads: int, rank: int, seed: list[int]) -> None:
        self.problem, self.heads, self.rank = problem, heads, rank
        xp = self.xp = problem.xp
        width, out = problem.width, problem.out_dim
        self.wide = min(2 * rank, problem.dim, out)
        rows = problem.n * problem.k
        # Unit inputs, and outputs as large as m heads make them: one rate then fits every layer.
        self.x_unit = math.sqrt(float(xp.mean(problem.X * problem.X)))
        y_unit = math.sqrt(problem.energy / (rows * out) * 3.0 / heads)
        self.X = xp.reshape(kernels.cast(problem.X / self.x_unit, xp.float32), (rows, width))
        self.Y = kernels.cast(problem.Y / y_unit, xp.float32)
        self.energy = problem.energy / y_unit**2
        rng = np.random.default_rng(seed)
        columns = heads * self.wide
        first = FIRST * rng.standard_normal((width, 3 * columns))
        # The constant coordinate takes no part in the keys.
        self.mask = np.ones((width, 3 * columns))
        self.mask[problem.dim :, columns : 2 * columns] = 0.0
        self.A = kernels.like(first * self.mask, self.X)
        self.mask = kernels.like(self.mask, self.X)
        self.O = kernels.like(FIRST * rng.standard_normal((columns, out)), self.X)
        # The gradient in Theta_i is a matrix whose noise has entries of about 1 / sqrt(m N), N
        # equations, and so a largest singular value sqrt(d) times that; likewise for W_i.
        self.pulls = (
            0.26 * math.sqrt(width / (heads * rows * out)),
            0.125 * (math.sqrt(width) + math.sqrt(out)) / math.sqrt(out * self.energy),
        )
        self.moments = [(0.0 * p, 0.0 * p) for p in (self.A, self.O)]
        self.step, self.misfit = 0, 1.0
        self.set_penalty(1.0)

    def set_penalty(self, share: float) -> None:
        columns = self.heads * self.wide
        theta, w = (2.0 * share * pull for pull in self.pulls)
        self.pull_A = kernels.like(np.repeat([theta, theta, w], columns), self.X)
        self.pull_O = w

    def objective(self) -> float:
        xp = self.xp
        squares = xp.sum(xp.sum(self.A * self.A, axis=0) * self.pull_A)
        return self.misfit + 0.5 * float(squares + self.pull_O * xp.sum(self.O * self.O))

    def run(self, steps: int) -> None:
        """Steps of Adam."""
        xp, (slow, slower) = self.xp, BETAS
        for _ in range(steps):
            self.step += 1
            self.misfit, down_A, down_O = self._gradient()
            gradients = down_A * self.mask + self.A * self.pull_A, down_O + self.O * self.pull_O
            rate, scale = RATE / (1.0 - slow**self.step), 1.0 - slower**self.step
            moved = []
            for i, (p, g) in enumerate(zip((self.A, self.O), gradients, strict=True)):
                first, second = self.moments[i]
                first = slow * first + (1.0 - slow) * g
                second = slower * second + (1.0 - slower) * g * g
                self.moments[i] = first, second
                moved.append(p - rate * first / (xp.sqrt(second / scale) + TINY))
            self.A, self.O = moved

    def _gradient(self) -> tuple[float, AnyArray, AnyArray]:
        """The misfit, and its gradient in A and O."""
        xp, problem = self.xp, self.problem
        n, k, m, R = problem.n, problem.k, self.heads, self.wide
        parts = xp.reshape(self.X @ self.A, (n, k, 3, m, R))
        parts = xp.permute_dims(parts, (2, 0, 3, 1, 4))
        queries, keys, values = (parts[i, ...] + 0.0 for i in range(3))
        at = problem.function.attend(queries @ xp.matrix_transpose(keys))
        weights = at.weights
        hidden = xp.reshape(xp.permute_dims(weights @ values, (0, 2, 1, 3)), (n * k, m * R))
        residual = hidden @ self.O - self.Y
        misfit = float(xp.sum(residual * residual)) / self.energy
        residual *= 2.0 / self.energy
        down = xp.reshape(residual @ xp.matrix_transpose(self.O), (n, k, m, R))
        down = xp.permute_dims(down, (0, 2, 1, 3)) + 0.0
        logits = problem.function.transposed(at, down @ xp.matrix_transpose(values))
        pieces = xp.stack(
            [
                logits @ keys,
                xp.matrix_transpose(logits) @ queries,
                xp.matrix_transpose(weights) @ down,
            ]
        )
        pieces = xp.reshape(xp.permute_dims(pieces, (1, 3, 0, 2, 4)), (n * k, 3 * m * R))
        down_O = xp.matrix_transpose(hidden) @ residual
        return misfit, xp.matrix_transpose(self.X) @ pieces, down_O

    def heads_of(self) -> tuple[Array, Array]:
        """Theta (m, D, d) and W (m, D, d_out)."""
        m, R, problem = self.heads, self.wide, self.problem
        parts = kernels.to_numpy(self.A).reshape(problem.width, 3, m, R).transpose(1, 2, 0, 3)
        U, K, V = parts
        out = kernels.to_numpy(self.O).reshape(m, R, -1)
        return U @ K[:, : problem.dim].swapaxes(1, 2) / self.x_unit**2, V @ out

    def concentration(self) -> float:
        """Share of |Theta_i|^2 in its r largest singular values, least over the heads."""
        squares = np.linalg.svd(self.heads_of()[0], compute_uv=False) ** 2
        total = np.maximum(squares.sum(axis=1), np.finfo(float).tiny)
        return float((squares[:, : self.rank].sum(axis=1) / total).min())

    def parameters(self) -> tuple[AnyArray, ...]:
        parts = truncated(*self.heads_of(), self.rank)
        return tuple(kernels.like(part, self.problem.X) for part in parts)


def truncated(theta: Array, w: Array, rank: int) -> tuple[Array, Array, Array]:
    """Balanced U and K of rank r, and an orthonormal V."""
    left, values, right = np.linalg.svd(theta)
    root = np.sqrt(values[:, None, :rank])
    V = np.linalg.svd(w)[0][..., :rank]
    U, K = left[..., :rank] * root, right[:, :rank].swapaxes(1, 2) * root
    return U, K, np.ascontiguousarray(V)
