"""What a small change of the attention does to the answer of variable projection.

For Gauss-Newton, what the features A can explain is projected out of the Jacobian (Kaufman's form):

    H = J^T (I - A (A^T A + ridge)^-1 A^T) J,      J = d(A O)/dp at fixed O.

Products with J and J^T are all that is needed, and they cost as much as the forward pass. They are
taken in single precision: an inexact step costs Gauss-Newton nothing, as residual and gradient are
exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gradine import kernels
from gradine.attention_functions import Attended
from gradine.kernels import AnyArray
from gradine.solvers.parameters import (
    Parameters,
    probe_like,
    stacked,
    theta_change,
    through,
    total,
)
from gradine.solvers.projection import Evaluation, Projection

__all__ = ["Linearisation"]

WELL_CONDITIONED = 1e-2  # smallest over largest entry of the factor's diagonal: single will do


@dataclass(frozen=True, eq=False)
class _Block:
    """What products with J and J^T need of a block of examples, in single precision."""

    rows: slice  #: of the outputs
    tokens: AnyArray  #: (b k, D)
    keys: AnyArray  #: (b, k, d)
    attended: Attended  #: (b, k m, k)
    values: AnyArray  #: X W_i, (b, m k, d_out)
    basis: AnyArray  #: orthonormal features: projecting is two products, with no solve in it
    features: AnyArray | None  #: (b k, m D), where they go through a V


class Linearisation:
    """J, J^T and the projection at one point, in single precision."""

    def __init__(self, problem: Projection, at: Evaluation) -> None:
        xp = self.xp = problem.xp
        self.problem, self.at = problem, at
        m, _, d = at.theta.shape
        o, k = problem.out_dim, problem.k
        narrow = kernels.side_by_side(kernels.cast(problem.projections(at), xp.float32))
        self.parameters = tuple(kernels.cast(p, xp.float32) for p in at.parameters)
        self.out = kernels.cast(at.out, xp.float32)
        self.blocks: list[_Block] = []
        tokens_of = problem.X32 if at.rough else problem.X
        sizes = xp.linalg.diagonal(at.factor)
        single = float(xp.min(sizes)) > WELL_CONDITIONED * float(xp.max(sizes))
        factor = kernels.cast(at.factor, xp.float32) if single else at.factor
        for (examples, rows), attended in zip(problem.blocks(), at.attended, strict=True):
            X = problem.X32[examples, ...]
            tokens = xp.reshape(X, (-1, problem.width))
            values = xp.permute_dims(xp.reshape(tokens @ narrow, (-1, k, m, o)), (0, 2, 1, 3))
            features = kernels.features_of(tokens_of[examples, ...], attended.weights)
            A = through(xp, features, self.parameters if at.rough else at.parameters)
            basis = kernels.solve_lower(factor, xp.matrix_transpose(kernels.cast(A, factor.dtype)))
            self.blocks.append(
                _Block(
                    rows,
                    tokens,
                    X if d == problem.width else X[:, :, :d],
                    attended.cast(xp.float32),
                    xp.reshape(values, (-1, m * k, o)),
                    kernels.cast(xp.matrix_transpose(basis), xp.float32),
                    kernels.cast(features, xp.float32) if len(at.parameters) > 1 else None,
                )
            )

    def flat(self, parameters: Parameters) -> AnyArray:
        """Parameters, or their changes, as one vector."""
        return stacked(self.xp, [self.xp.reshape(p, (-1,)) for p in parameters])

    def shaped(self, vector: AnyArray) -> Parameters:
        """The same, back in their shapes."""
        parts, at = [], 0
        for p in self.parameters:
            size = math.prod(p.shape)
            parts.append(self.xp.reshape(vector[at : at + size], p.shape))
            at += size
        return tuple(parts)

    def curvature(self, vector: AnyArray) -> AnyArray:
        """H times a flat change of the parameters."""
        return self.flat(self.transposed(self.product(self.shaped(vector))))

    def gradient(self) -> Parameters:
        """Half the negative gradient of loss times energy: J^T residual - decay p."""
        xp, at = self.xp, self.at
        down = self.transposed(kernels.cast(at.residual, xp.float32))
        pull = self.pull
        return tuple(g - pull * p for g, p in zip(down, self.parameters, strict=True))

    @property
    def pull(self) -> float:
        """The decay of one parameter, in the units of J^T J."""
        return self.at.penalty.decay * self.problem.energy / self.at.theta.shape[0]

    def product(self, step: Parameters) -> AnyArray:
        """J step, with what the features explain projected out."""
        return self.projected(self.unprojected_product(step))

    def unprojected_product(self, step: Parameters) -> list[AnyArray]:
        """J step, block by block."""
        xp, problem = self.xp, self.problem
        problem.products += 1
        theta = kernels.side_by_side(theta_change(self.parameters, step))
        m, k, o = self.at.theta.shape[0], problem.k, problem.out_dim
        pieces = []
        for block in self.blocks:
            change = self._attention_change(block, theta)
            piece = xp.reshape(xp.reshape(change, (-1, k, m * k)) @ block.values, (-1, o))
            if block.features is not None:
                projections = step[-1] @ xp.reshape(self.out, (m, -1, o))
                piece += block.features @ xp.reshape(projections, (-1, o))
            pieces.append(piece)
        problem.count_flops(self.out.shape[0])
        return pieces

    def _attention_change(self, block: _Block, theta: AnyArray) -> AnyArray:
        """How the attention of a block (b, k m, k) changes with Theta, given side by side."""
        xp, rows = self.xp, block.attended.weights.shape[1]
        queries = xp.reshape(block.tokens @ theta, (-1, rows, self.problem.dim))
        logits = queries @ xp.matrix_transpose(block.keys)
        return self.problem.function.derivative(block.attended, logits)

    def units(self) -> AnyArray:
        """For each parameter, flat: 1 over the root mean square that J makes of those beside it.

        A head of small W shows little; in units of its own it is a head like the others.
        """
        xp, m = self.xp, self.at.theta.shape[0]
        parts = []
        for i, p in enumerate(self.parameters):
            probe = probe_like(xp, p)
            step = tuple(probe if j == i else 0.0 * q for j, q in enumerate(self.parameters))
            squares = self._squares_by_head(step)
            shown = squares / xp.sum(xp.reshape(probe * probe, (m, -1)), axis=1)
            least = 1e-30 * float(xp.max(shown)) + 1e-37
            unit = 1.0 / xp.sqrt(xp.where(shown > least, shown, xp.ones_like(shown)))
            parts.append(xp.reshape(xp.ones_like(p) * unit[:, None, None], (-1,)))
        return stacked(xp, parts)

    def _squares_by_head(self, step: Parameters) -> AnyArray:
        """|J_i step_i|^2 of each head i alone, before projecting, (m,)."""
        xp, problem = self.xp, self.problem
        theta = kernels.side_by_side(theta_change(self.parameters, step))
        m, k, o = self.at.theta.shape[0], problem.k, problem.out_dim
        squares = []
        for block in self.blocks:
            change = self._attention_change(block, theta)
            change = xp.permute_dims(xp.reshape(change, (-1, k, m, k)), (0, 2, 1, 3))
            pieces = change @ xp.reshape(block.values, (-1, m, k, o))
            if block.features is not None:
                projections = step[-1] @ xp.reshape(self.out, (m, -1, o))
                features = xp.reshape(block.features, (-1, k, m, problem.width))
                pieces = pieces + xp.permute_dims(features, (0, 2, 1, 3)) @ projections
            squares.append(xp.sum(pieces * pieces, axis=(0, 2, 3)))
        return total(squares)

    def projected(self, pieces: list[AnyArray]) -> AnyArray:
        """What the features cannot explain of an output given block by block."""
        xp, blocks = self.xp, self.blocks
        inside = total(
            xp.matrix_transpose(block.basis) @ u for block, u in zip(blocks, pieces, strict=True)
        )
        return stacked(
            xp, [u - block.basis @ inside for block, u in zip(blocks, pieces, strict=True)]
        )

    def mean_curvature(self) -> float:
        """|J v|^2 / |v|^2 for a v that looks like no direction in particular."""
        xp, example = self.xp, self.flat(self.parameters)
        probe = probe_like(xp, example)
        image = self.product(self.shaped(probe))
        return float(xp.sum(image * image)) / float(xp.sum(probe * probe))

    def transposed(self, u: AnyArray) -> Parameters:
        """J^T u; ``u`` (n k, d_out) must be free of what the features explain."""
        xp, problem = self.xp, self.problem
        m, width, d = self.at.theta.shape
        k, o = problem.k, problem.out_dim
        over_theta, over_w = [], []
        for block in self.blocks:
            piece = u[block.rows, :]
            change = xp.reshape(piece, (-1, k, o)) @ xp.matrix_transpose(block.values)
            change = xp.reshape(change, block.attended.weights.shape)
            change = problem.function.transposed(block.attended, change)
            queries = xp.reshape(change @ block.keys, (-1, m * d))
            over_theta.append(xp.matrix_transpose(block.tokens) @ queries)
            if block.features is not None:
                over_w.append(xp.matrix_transpose(block.features) @ piece)
        problem.count_flops(self.out.shape[0])
        theta = xp.permute_dims(xp.reshape(total(over_theta), (width, m, d)), (1, 0, 2))
        if not over_w:
            return (theta,)
        U, K, _ = self.parameters
        out = xp.reshape(self.out, (m, -1, o))
        values = xp.reshape(total(over_w), (m, width, -1)) @ xp.matrix_transpose(out)
        return theta @ K, xp.matrix_transpose(theta) @ U, values
