"""Variable projection: the layer as a function of its attention alone.

    min over p of  min over O   | Y - A(p) O |^2 + ridge |O|^2 + decay |p|^2

F is linear in what follows the attention. With full heads p = Theta, the features are
A_i = softmax(X Theta_i X^T) X and O_i = W_i. With heads of rank r, p = (U, K, V),
Theta_i = U_i K_i^T, A_i = softmax(X Theta_i X^T) X V_i and W_i = V_i O_i. Any other attention
function may stand in the place of the softmax.

For given p the best O is one least-squares solve, and its own change does not matter to the
gradient (envelope theorem: the loss is flat in O there). For Gauss-Newton, what the features can
explain is projected out of the Jacobian (Kaufman's form):

    H = J^T (I - A (A^T A + ridge)^-1 A^T) J,      J = d(A O)/dp at fixed O.

Products with J and J^T are all that is needed, and they cost as much as the forward pass. They are
taken in single precision: an inexact step costs Gauss-Newton nothing, as residual and gradient are
exact. Far from the end not even these need be (`Evaluation.rough`). Examples come in blocks, so
that temporaries stay small.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from array_api_compat import device

from gradine import kernels
from gradine.attention_functions import SOFTMAX, Attended, AttentionFunction
from gradine.kernels import AnyArray

#: Theta alone, or U, K and V.
Parameters = tuple[AnyArray, ...]

__all__ = ["Evaluation", "Linearisation", "Parameters", "Penalty", "Projection", "theta_change"]

BLOCK_BYTES = 32 * 2**20  # temporaries of one block: they should stay near the cache
LEAST_RIDGE = 1e-13  # relative; keeps the factorisation of the Gram matrix alive
ROUGH_RIDGE = 1e-6  # the same in single precision
WELL_CONDITIONED = 1e-2  # smallest over largest entry of the factor's diagonal: single will do


@dataclass(frozen=True)
class Penalty:
    """What pulls towards zero: ``ridge`` on O in units of the mean Gram diagonal, ``decay`` on p
    in units of the energy of Y for each head."""

    ridge: float = 0.0
    decay: float = 0.0


@dataclass(frozen=True, eq=False)
class Evaluation:
    """All that is known at one point p."""

    parameters: Parameters
    theta: AnyArray  #: (m, D, d)
    out: AnyArray  #: O, (q, d_out)
    residual: AnyArray  #: Y - A O, (n k, d_out)
    factor: AnyArray  #: Cholesky factor of the Gram matrix
    attended: list[Attended]  #: of each block, (b, k m, k)
    misfit: float  #: |residual|^2 / |Y|^2
    loss: float  #: misfit and penalties
    penalty: Penalty
    rough: bool  #: in single precision


class Projection:
    """The examples, and everything that a solver asks of them."""

    def __init__(
        self,
        X: AnyArray,
        Y: AnyArray,
        dim: int | None = None,
        function: AttentionFunction = SOFTMAX,
    ) -> None:
        """``X`` (n, k, D), ``Y`` (n, k, d_out), float64; keys use the first ``dim`` coordinates."""
        xp = self.xp = kernels.namespace(X, Y)
        self.function = function
        self.n, self.k, self.width = X.shape
        self.dim = self.width if dim is None else dim
        self.out_dim = Y.shape[2]
        self.size = max(1, BLOCK_BYTES // (64 * self.k * self.width))
        self.X, self.Y = X, xp.reshape(Y, (self.n * self.k, self.out_dim))
        self.energy = max(float(xp.sum(self.Y * self.Y)), 1e-300)
        self.X32, self.Y32 = (kernels.cast(array, xp.float32) for array in (self.X, self.Y))
        self.products = 0
        self.flops = 0.0
        # The feature energy of uniform attention: a unit for the ridge that no step changes.
        mean = xp.mean(X, axis=1)
        self.unit = self.k * float(xp.sum(mean * mean)) / self.width

    def blocks(self) -> list[tuple[slice, slice]]:
        """Slices of the examples of each block, and of their rows."""
        starts = range(0, max(self.n, 1), self.size)  # no examples are one block of none
        return [
            (
                slice(at, min(at + self.size, self.n)),
                slice(at * self.k, min(at + self.size, self.n) * self.k),
            )
            for at in starts
        ]

    def evaluate(self, parameters: Parameters, penalty: Penalty, rough: bool = False) -> Evaluation:
        """Attention, the best O and the residual at p; ``rough``: in single precision."""
        xp = self.xp
        Y = self.Y32 if rough else self.Y
        theta, attended, features = self._attend(parameters, rough)
        gram, right = self._normal_equations(features, Y)
        width = gram.shape[0]
        ridge = max(penalty.ridge, ROUGH_RIDGE if rough else LEAST_RIDGE) * self.unit
        factor = kernels.cholesky(gram + ridge * xp.eye(width, dtype=gram.dtype))
        out = kernels.solve_cholesky(factor, right)
        residual = Y - _stacked(xp, [A @ out for A in features])
        if penalty.ridge == 0.0 and not rough:  # one refinement takes the least ridge away again
            right = self._right(features, residual)
            out = out + kernels.solve_cholesky(factor, right)
            residual = Y - _stacked(xp, [A @ out for A in features])
        misfit = float(xp.sum(residual * residual)) / self.energy
        loss = misfit + penalty.ridge * self.unit * float(xp.sum(out * out)) / self.energy
        loss += penalty.decay * sum(float(xp.sum(p * p)) for p in parameters) / theta.shape[0]
        self._count(width, gram=True)
        return Evaluation(
            parameters, theta, out, residual, factor, attended, misfit, loss, penalty, rough
        )

    def evaluate_with(self, parameters: Parameters, out: AnyArray) -> Evaluation:
        """The same for an O that is given: the best one for other examples, say."""
        xp = self.xp
        theta, attended, features = self._attend(parameters)
        residual = self.Y - _stacked(xp, [A @ out for A in features])
        misfit = float(xp.sum(residual * residual)) / self.energy
        unused = xp.eye(out.shape[0], dtype=out.dtype)
        return Evaluation(
            parameters, theta, out, residual, unused, attended, misfit, misfit, Penalty(), False
        )

    def normal_equations(self, parameters: Parameters) -> tuple[AnyArray, AnyArray]:
        """A^T A and A^T Y: sums over examples, so that those of others may be added."""
        return self._normal_equations(self._attend(parameters)[2], self.Y)

    def _attend(
        self, parameters: Parameters, rough: bool = False
    ) -> tuple[AnyArray, list[Attended], list[AnyArray]]:
        """Theta, and of each block its attention and A (b k, q)."""
        X = self.X32 if rough else self.X
        typed = tuple(kernels.cast(p, X.dtype) for p in parameters)
        theta, attended, features = theta_of(typed), [], []
        for at, _ in self.blocks():
            block = self.function.attend(kernels.logits_of(X[at, ...], theta))
            attended.append(block)
            seen = kernels.features_of(X[at, ...], block.weights)
            features.append(_through(self.xp, seen, typed))
        return theta, attended, features

    def _normal_equations(self, features: list[AnyArray], Y: AnyArray) -> tuple[AnyArray, AnyArray]:
        gram = _total(self.xp.matrix_transpose(A) @ A for A in features)
        return gram, self._right(features, Y)

    def _right(self, features: list[AnyArray], Y: AnyArray) -> AnyArray:
        pairs = zip(features, self.blocks(), strict=True)
        return _total(self.xp.matrix_transpose(A) @ Y[rows, :] for A, (_, rows) in pairs)

    def projections(self, at: Evaluation) -> AnyArray:
        """W_i, (m, D, d_out)."""
        xp, m = self.xp, at.theta.shape[0]
        out = xp.reshape(at.out, (m, -1, self.out_dim))
        return out if len(at.parameters) == 1 else kernels.cast(at.parameters[2], out.dtype) @ out

    def linearise(self, at: Evaluation) -> Linearisation:
        return Linearisation(self, at)

    def _count(self, features: int, gram: bool = False) -> None:
        """Floating-point operations of a pass through the large products."""
        rows, keys = self.n * self.k, self.k
        heads_width = features if features >= self.width else self.width
        each = (
            2.0
            * rows
            * (self.width * heads_width + 2 * heads_width * keys + features * self.out_dim)
        )
        self.flops += each + (2.0 * rows * features * (features + 2 * self.out_dim) if gram else 0)


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
            A = _through(xp, features, self.parameters if at.rough else at.parameters)
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
        return _stacked(self.xp, [self.xp.reshape(p, (-1,)) for p in parameters])

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
        problem._count(self.out.shape[0])
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
            probe = _probe(xp, p)
            step = tuple(probe if j == i else 0.0 * q for j, q in enumerate(self.parameters))
            squares = self._squares_by_head(step)
            shown = squares / xp.sum(xp.reshape(probe * probe, (m, -1)), axis=1)
            least = 1e-30 * float(xp.max(shown)) + 1e-37
            unit = 1.0 / xp.sqrt(xp.where(shown > least, shown, xp.ones_like(shown)))
            parts.append(xp.reshape(xp.ones_like(p) * unit[:, None, None], (-1,)))
        return _stacked(xp, parts)

    def _squares_by_head(self, step: Parameters) -> AnyArray:
        """|J_i step_i|^2 of each head i alone, before projecting, (m,)."""
        xp, problem = self.xp, self.problem
        theta = kernels.side_by_side(theta_change(self.parameters, step))
        m, k, o = self.at.theta.shape[0], problem.k, problem.out_dim
        total = []
        for block in self.blocks:
            change = self._attention_change(block, theta)
            change = xp.permute_dims(xp.reshape(change, (-1, k, m, k)), (0, 2, 1, 3))
            pieces = change @ xp.reshape(block.values, (-1, m, k, o))
            if block.features is not None:
                projections = step[-1] @ xp.reshape(self.out, (m, -1, o))
                features = xp.reshape(block.features, (-1, k, m, problem.width))
                pieces = pieces + xp.permute_dims(features, (0, 2, 1, 3)) @ projections
            total.append(xp.sum(pieces * pieces, axis=(0, 2, 3)))
        return _total(total)

    def projected(self, pieces: list[AnyArray]) -> AnyArray:
        """What the features cannot explain of an output given block by block."""
        xp, blocks = self.xp, self.blocks
        inside = _total(
            xp.matrix_transpose(block.basis) @ u for block, u in zip(blocks, pieces, strict=True)
        )
        return _stacked(
            xp, [u - block.basis @ inside for block, u in zip(blocks, pieces, strict=True)]
        )

    def mean_curvature(self) -> float:
        """|J v|^2 / |v|^2 for a v that looks like no direction in particular."""
        xp, example = self.xp, self.flat(self.parameters)
        probe = _probe(xp, example)
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
        problem._count(self.out.shape[0])
        theta = xp.permute_dims(xp.reshape(_total(over_theta), (width, m, d)), (1, 0, 2))
        if not over_w:
            return (theta,)
        U, K, _ = self.parameters
        out = xp.reshape(self.out, (m, -1, o))
        values = xp.reshape(_total(over_w), (m, width, -1)) @ xp.matrix_transpose(out)
        return theta @ K, xp.matrix_transpose(theta) @ U, values


def theta_of(parameters: Parameters) -> AnyArray:
    """Theta_i, from itself or from U_i K_i^T."""
    if len(parameters) == 1:
        return parameters[0]
    U, K = parameters[:2]
    return U @ kernels.namespace(U).matrix_transpose(K)


def theta_change(parameters: Parameters, step: Parameters) -> AnyArray:
    """The first-order change of Theta."""
    if len(parameters) == 1:
        return step[0]
    xp = kernels.namespace(*parameters)
    U, K = parameters[:2]
    return step[0] @ xp.matrix_transpose(K) + U @ xp.matrix_transpose(step[1])


def _through(xp: Any, features: AnyArray, parameters: Parameters) -> AnyArray:
    """Features (b k, m D) as they meet O: through V_i to (b k, m r), if there is a V."""
    if len(parameters) == 1:
        return features
    m, width, rank = parameters[2].shape
    wide = xp.permute_dims(xp.reshape(features, (-1, m, width)), (1, 0, 2))
    return xp.reshape(xp.permute_dims(wide @ parameters[2], (1, 0, 2)), (-1, m * rank))


def _stacked(xp: Any, pieces: list[AnyArray]) -> AnyArray:
    return pieces[0] if len(pieces) == 1 else xp.concat(pieces)


def _probe(xp: Any, like: AnyArray) -> AnyArray:
    """Numbers that look like no direction in particular."""
    count = xp.arange(1, math.prod(like.shape) + 1, dtype=like.dtype, device=device(like))
    return xp.reshape(xp.sin(count * 12.9898), like.shape)


def _total(pieces: Iterable[AnyArray]) -> AnyArray:
    return reduce(add, pieces)
